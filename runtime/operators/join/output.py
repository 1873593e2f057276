"""Pairs, and rows without a partner, on their way out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...protocols.event_time import MIN_WATERMARK
from ...support.arrow_columns import typed
from ..contract import ShardContext
from ..keyed.keyed_rows import NO_TIME, micros_of
from .columns import TIME_COLUMN
from .definition import StreamJoin
from .state.row_pool import RowPool

#: The key columns of some rows, given their keys' places.
KeyColumns = Callable[[np.ndarray], dict[str, pa.Array]]


class JoinOutput:
    """Writes what a join gives, each row with the watermark at which the orderly stream emits it."""

    def __init__(self, operator: StreamJoin, context: ShardContext) -> None:
        self._context = context
        self._schema = operator.output_arrow_schema
        self._sources = operator.output.sources
        self._names = [side.columns(place) for place, side in enumerate(operator.sides)]
        self._has_keys = any(name in operator.key_columns for names in self._sources for name in names)
        epoch = context.epoch
        self._delay_ms = epoch.delay_ms if epoch.in_order is None else epoch.in_order.delay_ms
        self._upto_ms = None if epoch.in_order is None else epoch.in_order.upto_ms
        #: What came or was over up to here is gone: the rest goes at its own time, wherever the watermark is by now.
        self._gone_ms = epoch.late_watermark_ms

    def pairs(
        self, pool: RowPool, left: np.ndarray, right: np.ndarray, times_us: np.ndarray, keys: np.ndarray, of: KeyColumns
    ) -> None:
        """Write pairs.

        Args:
            pool: their rows.
            left: the left row of each pair, by number.
            right: the right one.
            times_us: the greater of their event times.
            keys: the places of their keys.
            of: columns of keys by place.
        """
        columns = dict(zip(self._names[0], pool.columns(0, left), strict=True))
        columns.update(zip(self._names[1], pool.columns(1, right), strict=True))
        self._write(columns, keys, of, self._emitted_ms(times_us))

    def alone(
        self, pool: RowPool, side: int, rows: np.ndarray, emitted_ms: np.ndarray, keys: np.ndarray, of: KeyColumns
    ) -> None:
        """Write rows of one side, with nulls for the other.

        Args:
            pool: where they are.
            side: of the rows.
            rows: their numbers.
            emitted_ms: the watermark that lets each go.
            keys: the places of their keys.
            of: columns of keys by place.
        """
        columns = dict(zip(self._names[side], pool.columns(side, rows), strict=True))
        self._write(columns, keys, of, np.maximum(emitted_ms, self._gone_ms))

    def partnered(
        self, pool: RowPool, rows: np.ndarray, times_us: np.ndarray, keys: np.ndarray, of: KeyColumns
    ) -> None:
        """Write left rows of a semi join.

        Args:
            pool: where they are.
            rows: their numbers.
            times_us: the greater event time of each and its first partner.
            keys: the places of their keys.
            of: columns of keys by place.
        """
        columns = dict(zip(self._names[0], pool.columns(0, rows), strict=True))
        self._write(columns, keys, of, self._emitted_ms(times_us))

    def made(self, batch: pa.RecordBatch) -> None:
        """Write what is output already."""
        columns = [_first([batch.column(name) for name in names]) for names in self._sources]
        self._emit(columns, self._emitted_ms(micros_of(batch.column(TIME_COLUMN))))

    def _write(self, columns: dict[str, pa.Array], keys: np.ndarray, of: KeyColumns, emitted_ms: np.ndarray) -> None:
        if not len(keys):
            return
        if self._has_keys:
            columns.update(of(keys))
        found = []
        for names, field in zip(self._sources, self._schema, strict=True):
            some = [columns[name] for name in names if name in columns]
            found.append(_first(some) if some else pa.nulls(len(keys), field.type))
        self._emit(found, emitted_ms)

    def _emit(self, columns: list[pa.Array], emitted_ms: np.ndarray) -> None:
        found = list(map(typed, columns, self._schema.types))
        self._context.emit(pa.RecordBatch.from_arrays(found, schema=self._schema), emitted_ms)

    def _emitted_ms(self, times_us: np.ndarray) -> np.ndarray:
        """The watermark that the orderly stream brings rows of these event times at."""
        reached_ms = np.where(times_us == NO_TIME, MIN_WATERMARK, times_us // 1000 - self._delay_ms)
        if self._upto_ms is not None:
            reached_ms = np.minimum(reached_ms, self._upto_ms)
        return np.maximum(reached_ms, self._gone_ms)


def _first(columns: list[pa.Array]) -> pa.Array:
    """Of each row the first that is not null."""
    found = columns[0]
    for other in columns[1:]:
        if found.null_count:
            found = pc.if_else(found.is_valid(), found, typed(other, found.type))
    return found
