"""Few rows of a deduplication, prepared by the task in the columns of ``DedupOperator.prepare_few``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..admission import bound_us, rows_in_time
from ..arrival_order import ARRIVAL_COLUMNS, ARRIVAL_UNKNOWN_COLUMN
from ..columnar.few_rows import FewRows, hashed_columns
from .columns import LATE_ROWS_COLUMN, MAX_TIME_COLUMN, ROWS_COLUMN, TIME_COLUMN
from .definition import Deduplication

#: Where a row stands among those of its micro-batch.
_PLACE_COLUMN = ARRIVAL_COLUMNS[-1]
#: The greatest bound whose microseconds are a number of 64 bits.
_MOST_MS = bound_us(2**63) // 1000


@dataclass(frozen=True, kw_only=True)
class FewDedupRows(FewRows):
    """Each row by itself, as the input has it.

    Args:
        names: the columns of the input that are asked for, in order.
        columns: for each prepared column of keys and values the place of the input's column among these.
        time: the place of the event time that decides which row stays; None: there is none.
        late_time: the place of the event time that makes rows late; None: none can be.
        late_ms: what has fired, in ms since the epoch.
        has_time: whether the prepared rows have the event time of the row that stays.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, int], ...]
    time: int | None
    late_time: int | None
    late_ms: int
    has_time: bool

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.names

    def prepared(self, rows: pa.RecordBatch, before: int) -> pa.RecordBatch:
        arrays = {name: rows.column(place) for name, place in self.columns}
        arrays[ROWS_COLUMN] = pa.array(np.ones(rows.num_rows, dtype=np.int64))
        if self.late_time is not None:
            arrays[LATE_ROWS_COLUMN] = _late_marks(rows.column(self.late_time), self.late_ms)
        if self.time is not None:
            arrays[MAX_TIME_COLUMN] = rows.column(self.time)
        if self.has_time:
            assert self.time is not None, "the event time is a column of its own"
            arrays[TIME_COLUMN] = rows.column(self.time)
        arrays[_PLACE_COLUMN] = pa.array(np.arange(before, before + rows.num_rows))
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def few_dedup_rows(
    operator: Deduplication, names: Sequence[str], max_parallelism: int, late_ms: int | None
) -> FewDedupRows | None:
    """What prepares the rows of an operator for which :meth:`~.operator.DedupOperator.prepare_few` would.

    Args:
        operator: the stage's.
        names: the columns of its input.
        max_parallelism: number of key groups.
        late_ms: what has fired, in ms since the epoch; None: no row can be late.

    Returns:
        None: Spark has to prepare them.
    """
    lateness = operator.lateness if late_ms is not None else None
    group_columns = hashed_columns(operator.key_columns, operator.key_schema, operator.key_group_places)
    if group_columns is None or (lateness is not None and lateness.is_window):
        return None
    time = None if operator.event_time_key is not None else operator.event_time
    sources = dict(zip(operator.key_columns, operator.keys, strict=True))
    sources |= {f"__b{place}": name for place, name in enumerate(operator.payload)}
    asked = {*sources.values(), *filter(None, [time, None if lateness is None else lateness.column])}
    known = {ARRIVAL_UNKNOWN_COLUMN, *ARRIVAL_COLUMNS} & set(names)
    if known or any(list(names).count(name) != 1 for name in asked):
        return None
    wanted = tuple(name for name in names if name in asked)
    place_of = {name: place for place, name in enumerate(wanted)}
    return FewDedupRows(
        group_columns=group_columns,
        max_parallelism=max_parallelism,
        order=() if time is None else (MAX_TIME_COLUMN,),
        names=wanted,
        columns=tuple((name, place_of[source]) for name, source in sources.items()),
        time=None if time is None else place_of[time],
        late_time=None if lateness is None else place_of[lateness.column],
        late_ms=0 if late_ms is None else late_ms,
        has_time=operator.time_column == TIME_COLUMN,
    )


def _late_marks(times: pa.Array, late_ms: int) -> pa.Array:
    """1 for each row that is late, else 0."""
    in_time = rows_in_time(times, max(-_MOST_MS, min(late_ms, _MOST_MS)))
    return pa.array((~in_time.to_numpy(zero_copy_only=False)).astype(np.int64))
