"""Rows of a key that come again and again: which of them are new, as time goes on (``pipeline.timers = in-order``).

In the orderly stream, which brings one event time after the other, the watermark follows the event times, so a key with
a delay is forgotten between its own rows, and the next one of them is new.  Here this is told from the event times of a
key alone: a row of event time t sees the watermark t - delay.

Invariants:
- Rows come by key and then by event time; a key may go on over any number of batches, and what is kept of it meanwhile
  is one number.
- There is one row per key and event time, or nothing has fired yet: then the key of a row is remembered at least until
  its event time is past, so that further rows of this time are not new.
- What is handed on are the rows that are new, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...protocols.event_time import MIN_WATERMARK
from ..binary_search import first_at_least
from ..columnar.key_batches import KeyRows, key_rows

if TYPE_CHECKING:
    from ....state.keys.keys import KeyCodec
    from ..contract import InOrder

#: For distinct keys of a batch (key groups, encoded keys): when each is forgotten; MIN: it is not known.
LookUp = Callable[[np.ndarray, pa.BinaryArray], np.ndarray]


class InOrderRows:
    """Leaves the rows that are new.

    Args:
        clock: how the watermark follows the rows.
        delay_ms: how long after its event time a row that is new has its key remembered.
        expiry_of: what earlier epochs have left.
    """

    def __init__(self, clock: InOrder, delay_ms: int, expiry_of: LookUp) -> None:
        self._clock = clock
        self._delay_ms = delay_ms
        self._expiry_of = expiry_of
        self._last: tuple[int, bytes] | None = None
        self._last_expiry_ms = MIN_WATERMARK
        #: Distinct keys so far.
        self.keys = 0

    def new(
        self,
        batches: Iterator[pa.RecordBatch],
        key_columns: tuple[str, ...],
        codec: KeyCodec,
        times_us: Callable[[pa.RecordBatch], pa.Int64Array],
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are new, in order.

        Args:
            batches: all rows.
            key_columns: what they are ordered by.
            codec: of these columns.
            times_us: a batch's event times in microseconds, with nulls.
        """
        for batch in batches:
            rows = key_rows(batch, key_columns, codec)
            yield batch.filter(pa.array(self._of(rows, times_us(batch))))

    def _of(self, rows: KeyRows, times: pa.Int64Array) -> np.ndarray:
        """Which rows of a batch are new."""
        count = rows.batch.num_rows
        micros = times.fill_null(0).to_numpy(zero_copy_only=False)
        seen_ms = np.clip(micros // 1000 - self._clock.delay_ms, self._clock.fired_ms, self._upto_ms)
        if times.null_count:
            seen_ms = np.where(times.is_null().to_numpy(zero_copy_only=False), self._clock.fired_ms, seen_ms)
        expiry_ms = np.maximum(-(-micros // 1000) + self._delay_ms, micros // 1000 + 1)
        groups, keys = rows.groups[rows.starts], rows.keys
        due_ms = self._expiry_of(groups, keys)
        goes_on = self._last == (int(groups[0]), keys[0].as_py())
        if goes_on:
            due_ms[0] = self._last_expiry_ms
        self.keys += len(groups) - goes_on
        ends = np.append(rows.starts[1:], count)
        is_new = np.zeros(count, dtype=bool)
        places, low, high = np.arange(len(groups)), rows.starts.copy(), ends
        while len(places):
            low = first_at_least(seen_ms, low, high, due_ms[places])
            found = low < high
            places, low, high = places[found], low[found], high[found]
            is_new[low] = True
            due_ms[places] = expiry_ms[low]
            low = low + 1
        self._last = int(groups[-1]), keys[-1].as_py()
        self._last_expiry_ms = int(due_ms[-1])
        return is_new

    @property
    def _upto_ms(self) -> int:
        return max(self._clock.upto_ms, self._clock.fired_ms)
