"""Cuts a shard's sorted record batches into keys, or into the event times of each key.

Rows arrive sorted by (key group, key), and by event time within a key; a key's rows may span any number of batches.
They are handed over lazily, so a key with half of all rows streams through in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys import KeyCodec

KEY_GROUP_COLUMN = "__kg"

#: As an event time in microseconds: a row has none, or nobody asks for it.
NO_TIME = -(2**63)

#: One key, or one event time of it: its group, its encoded form, its values, the event time, and its rows.
Keyed = tuple[int, bytes, tuple[Any, ...], int, Iterator[Any]]


@dataclass(frozen=True)
class KeyRuns:
    """The keys of one batch in order, or their event times, each with the number of its consecutive rows."""

    groups: list[int]
    keys: list[bytes]
    values: list[tuple[Any, ...]]
    times_us: list[int]
    counts: list[int]


class KeySlices:
    """Finds the keys of each batch; a new one starts wherever key group or encoded key changes.

    Args:
        codec: encodes keys.
        key_columns: columns of the key.
        time_column: a run ends where this column changes, too; None: at the end of the key.
    """

    def __init__(self, codec: KeyCodec, key_columns: tuple[str, ...], time_column: str | None = None) -> None:
        self._codec = codec
        self._key_columns = key_columns
        self._time_column = time_column
        # Their Python values are the same whether Arrow or the codec makes them.
        self._plain = all(_is_plain(field.type) for field in codec.schema)

    def of(self, batch: pa.RecordBatch) -> KeyRuns:
        """The runs of a batch that has rows."""
        groups = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
        changed = np.empty(batch.num_rows, dtype=bool)
        changed[0] = True
        np.not_equal(groups[1:], groups[:-1], out=changed[1:])
        times_us = None
        if self._time_column is not None:
            times_us = micros_of(batch.column(self._time_column))
            changed[1:] |= times_us[1:] != times_us[:-1]
        encoded: list[bytes]
        values: list[tuple[Any, ...]]
        if self._key_columns:
            columns = [batch.column(name) for name in self._key_columns]
            keys = self._codec.encode_columns(columns)
            changed[1:] |= pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
            starts = np.flatnonzero(changed)
            heads = pa.array(starts)
            encoded = keys.take(heads).to_pylist()
            if self._plain:
                values = list(zip(*[column.take(heads).to_pylist() for column in columns], strict=True))
            else:
                values = list(map(self._codec.decode, encoded))
        else:
            starts = np.flatnonzero(changed)
            encoded = [b""] * len(starts)
            values = [()] * len(starts)
        counts = np.diff(starts, append=batch.num_rows).tolist()
        times = [NO_TIME] * len(starts) if times_us is None else times_us[starts].tolist()
        return KeyRuns(groups[starts].tolist(), encoded, values, times, counts)


def micros_of(times: pa.Array) -> np.ndarray:
    """Event times in microseconds; ``NO_TIME`` for null."""
    micros = times.cast(pa.timestamp("us", times.type.tz)).view(pa.int64())
    return pc.fill_null(micros, NO_TIME).to_numpy(zero_copy_only=False)


def _is_plain(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(data_type)
        or types.is_signed_integer(data_type)
        or types.is_string(data_type)
        or types.is_binary(data_type)
    )


class KeyedRows:
    """Iterates over the keys of a shard in the order of the input, one entry per run that ``slices`` finds.

    The rows of an entry must be used before the next one is asked for; what is left of them is skipped.

    Args:
        batches: the shard's rows.
        slices: finds the keys.
        rows_of: all rows of a batch in order, made lazily.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        slices: KeySlices,
        rows_of: Callable[[pa.RecordBatch], Iterator[Any]],
    ) -> None:
        self._batches = batches
        self._slices = slices
        self._rows_of = rows_of
        #: The batch being read and the place of its first key that nobody has begun; None: the input has ended.
        self._runs: KeyRuns | None = None
        self._rows: Iterator[Any] = iter(())
        self._place = 0

    def __iter__(self) -> Iterator[Keyed]:
        self._open()
        while (runs := self._runs) is not None:
            last = len(runs.keys) - 1
            ended = slice(self._place, last)
            for group, key, values, time_us, count in zip(
                runs.groups[ended],
                runs.keys[ended],
                runs.values[ended],
                runs.times_us[ended],
                runs.counts[ended],
                strict=True,
            ):
                part = islice(self._rows, count)
                yield group, key, values, time_us, part
                for _ in part:  # the consumer may leave rows unread
                    pass
            # The last key of the batch may go on in those that follow.
            self._place = last
            run = (runs.groups[last], runs.keys[last], runs.times_us[last])
            tail = chain.from_iterable(self._parts(run))
            yield runs.groups[last], runs.keys[last], runs.values[last], runs.times_us[last], tail
            for _ in tail:
                pass

    def _parts(self, run: tuple[int, bytes, int]) -> Iterator[Iterator[Any]]:
        """The rows of the run that begins at the current place, batch by batch; moves on to the one after it."""
        while (runs := self._runs) is not None:
            place = self._place
            if (runs.groups[place], runs.keys[place], runs.times_us[place]) != run:
                return
            yield islice(self._rows, runs.counts[self._place])
            self._place += 1
            if self._place < len(runs.keys):
                return
            self._open()

    def _open(self) -> None:
        """Begin the next batch that has rows."""
        for batch in self._batches:
            if batch.num_rows:
                self._runs, self._rows, self._place = self._slices.of(batch), self._rows_of(batch), 0
                return
        self._runs = None
