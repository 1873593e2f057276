"""Cuts a shard's sorted record batches into keys, or into the event times or other parts of each key.

Rows arrive sorted by (key group, key), and by event time within a key; a key's rows may span any number of batches.
They are handed over lazily, so a key with half of all rows streams through in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, starmap
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK

KEY_GROUP_COLUMN = "__kg"
#: Column that holds a row of the initial state; null for input rows.
INITIAL_STATE_COLUMN = "__initial_state"
#: Column that sorts initial-state rows before the input rows of their key.
KIND_COLUMN = "__row_kind"

#: The greatest time whose microseconds are a number of 64 bits.
_GREATEST_MS = MAX_WATERMARK // 1000
#: As an event time in microseconds: a row has none, or nobody asks for it.
NO_TIME = -(2**63)

#: One key, or one event time of it: its group, its encoded form, its values, the event time, and its rows.
Keyed = tuple[int, bytes, tuple[Any, ...], int, Any]


@dataclass(frozen=True)
class KeyRuns:
    """The keys of one batch in order, or their event times, each with the number of its consecutive rows."""

    groups: list[int]
    keys: list[bytes]
    values: list[tuple[Any, ...]]
    times_us: list[int]
    #: Where the rows of each begin in the batch.
    starts: list[int]
    counts: list[int]
    #: Which part of its run each is; -1: the rows of an initial state.
    parts: list[int]


class KeySlices:
    """Finds the keys of each batch; a new one starts wherever key group or encoded key changes.

    Args:
        codec: encodes keys.
        key_columns: columns of the key.
        time_column: a run ends where this column changes, too; None: at the end of the key.
        span_us: a run ends where the column comes into another span of this length, and not before; None: of no length.
        most_rows: a run of more rows is several, which need not end with a batch; None: it is one.
    """

    def __init__(
        self,
        codec: KeyCodec,
        key_columns: tuple[str, ...],
        time_column: str | None = None,
        *,
        span_us: int | None = None,
        most_rows: int | None = None,
    ) -> None:
        self._codec = codec
        self._key_columns = key_columns
        self._time_column = time_column
        self._span_us = span_us
        self._most_rows = most_rows
        #: The run that the last batch ended with, and its rows so far.
        self._last: tuple[int, bytes, int, int] | None = None
        self._last_rows = 0
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
            if self._span_us is not None:
                times_us = times_us // self._span_us
            changed[1:] |= times_us[1:] != times_us[:-1]
        keys = None
        columns = [batch.column(name) for name in self._key_columns]
        if columns:
            keys = self._codec.encode_columns(columns)
            changed[1:] |= pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        parts = None if self._most_rows is None else self._parts(batch, groups, keys, times_us, changed)
        starts = np.flatnonzero(changed)
        heads = pa.array(starts)
        encoded: list[bytes] = [b""] * len(starts) if keys is None else keys.take(heads).to_pylist()
        values: list[tuple[Any, ...]]
        if keys is None:
            values = [()] * len(starts)
        elif self._plain:
            values = list(zip(*[column.take(heads).to_pylist() for column in columns], strict=True))
        else:
            values = list(map(self._codec.decode, encoded))
        return KeyRuns(
            groups[starts].tolist(),
            encoded,
            values,
            [NO_TIME] * len(starts) if times_us is None else times_us[starts].tolist(),
            starts.tolist(),
            np.diff(starts, append=batch.num_rows).tolist(),
            [0] * len(starts) if parts is None else parts[starts].tolist(),
        )

    def _parts(
        self,
        batch: pa.RecordBatch,
        groups: np.ndarray,
        keys: pa.Array | None,
        times_us: np.ndarray | None,
        changed: np.ndarray,
    ) -> np.ndarray:
        """Which part of its run each row is in; notes in ``changed`` where parts begin."""
        assert self._most_rows is not None
        rows = batch.num_rows
        has_kinds = KIND_COLUMN in batch.schema.names
        kinds = batch.column(KIND_COLUMN).to_numpy(zero_copy_only=False) if has_kinds else np.ones(rows, dtype=np.int32)
        changed[1:] |= kinds[1:] != kinds[:-1]

        def run_of(row: int) -> tuple[int, bytes, int, int]:
            time_us = NO_TIME if times_us is None else int(times_us[row])
            return int(groups[row]), b"" if keys is None else keys[row].as_py(), time_us, int(kinds[row])

        begins = np.flatnonzero(changed)
        places = np.arange(rows) - np.repeat(begins, np.diff(begins, append=rows))
        if run_of(0) == self._last:
            places[: begins[1] if len(begins) > 1 else rows] += self._last_rows
        self._last, self._last_rows = run_of(rows - 1), int(places[-1]) + 1
        parts = np.where(kinds == 0, -1, places // self._most_rows)
        changed[1:] |= parts[1:] != parts[:-1]
        return parts


def micros_of(times: pa.Array) -> np.ndarray:
    """Event times in microseconds, or watermarks (ms) as if they were; ``NO_TIME`` for null."""
    if pa.types.is_int64(times.type):
        times_ms = pc.fill_null(times, MIN_WATERMARK).to_numpy(zero_copy_only=False)
        micros_of_times = np.clip(times_ms, -_GREATEST_MS, _GREATEST_MS) * 1000
        return np.where(times_ms == MIN_WATERMARK, NO_TIME, micros_of_times)
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


class HandedOver(Protocol):
    """How the rows of the current batch reach user code: run by run, in order, each made when it is asked for.

    What a run's rows are handed over as is an iterator, or :class:`~..processor.cogroup.cogroup_input.CogroupSides`.
    """

    def open(self, batch: pa.RecordBatch) -> None:
        """Another batch is the current one; iterators that were made before go on with theirs."""

    def run(self, start: int, count: int) -> Any:
        """What is handed over for so many rows of the current batch, all of one run."""

    def spanning(self, positions: Iterator[tuple[int, int]]) -> Any:
        """The same for a run that may go on in other batches.

        Args:
            positions: start and count of the run's rows in the batch that is the current one by then.
        """

    def skip(self, rows: Any) -> None:
        """Pass what user code has left unread."""


class HandedOverRows:
    """One row after the other.

    Args:
        rows_of: all rows of a batch in order, made lazily.
    """

    def __init__(self, rows_of: Callable[[pa.RecordBatch], Iterator[Any]]) -> None:
        self._rows_of = rows_of
        self._rows: Iterator[Any] = iter(())

    def open(self, batch: pa.RecordBatch) -> None:
        self._rows = self._rows_of(batch)

    def run(self, start: int, count: int) -> Iterator[Any]:
        return islice(self._rows, count)

    def spanning(self, positions: Iterator[tuple[int, int]]) -> Iterator[Any]:
        return chain.from_iterable(starmap(self.run, positions))

    def skip(self, rows: Iterator[Any]) -> None:
        for _ in rows:
            pass


class KeyedRows:
    """Iterates over the keys of a shard in the order of the input, one entry per run that ``slices`` finds.

    The rows of an entry must be used before the next one is asked for; what is left of them is skipped.

    Args:
        batches: the shard's rows.
        slices: finds the keys.
        handed_over: makes of their rows what user code gets.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], slices: KeySlices, handed_over: HandedOver) -> None:
        self._batches = batches
        self._slices = slices
        self._handed_over = handed_over
        #: The batch being read and the place of its first key that nobody has begun; None: the input has ended.
        self._runs: KeyRuns | None = None
        self._place = 0

    def __iter__(self) -> Iterator[Keyed]:
        self._open()
        rows_of, skip = self._handed_over.run, self._handed_over.skip
        while (runs := self._runs) is not None:
            last = len(runs.keys) - 1
            ended = slice(self._place, last)
            for group, key, values, time_us, start, count in zip(
                runs.groups[ended],
                runs.keys[ended],
                runs.values[ended],
                runs.times_us[ended],
                runs.starts[ended],
                runs.counts[ended],
                strict=True,
            ):
                rows = rows_of(start, count)
                yield group, key, values, time_us, rows
                skip(rows)
            # The last key of the batch may go on in those that follow.
            self._place = last
            positions = self._positions((runs.groups[last], runs.keys[last], runs.times_us[last], runs.parts[last]))
            tail = self._handed_over.spanning(positions)
            yield runs.groups[last], runs.keys[last], runs.values[last], runs.times_us[last], tail
            skip(tail)
            for _ in positions:
                pass

    def _positions(self, run: tuple[int, bytes, int, int]) -> Iterator[tuple[int, int]]:
        """Where the rows of the run are that begins at the current place, batch by batch; moves on to the next run."""
        while (runs := self._runs) is not None:
            place = self._place
            if (runs.groups[place], runs.keys[place], runs.times_us[place], runs.parts[place]) != run:
                return
            yield runs.starts[place], runs.counts[place]
            self._place += 1
            if self._place < len(runs.keys):
                return
            self._open()

    def _open(self) -> None:
        """Begin the next batch that has rows."""
        for batch in self._batches:
            if batch.num_rows:
                self._runs, self._place = self._slices.of(batch), 0
                self._handed_over.open(batch)
                return
        self._runs = None
