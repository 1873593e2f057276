"""Rows in memory that stand for a DataFrame, where a job's epochs run without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput, Reach, by_input
from ..runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN, NO_TIME, micros_of


@dataclass(frozen=True)
class LocalRows:
    """A table, with as much of a DataFrame's surface as the driver needs."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self.table.schema.names
        return names

    def drop(self, *names: str) -> LocalRows:
        """The rows without some columns."""
        return LocalRows(self.table.drop_columns([name for name in names if name in self.columns]))

    def unionByName(self, other: LocalRows) -> LocalRows:
        """These rows and others."""
        return LocalRows(pa.concat_tables([self.table, other.table.select(self.columns)]))


def look_at(frame: Any, event_time: str, inputs: Sequence[LiveInput]) -> Reach:
    """As :func:`..runtime.connectors.sources.live_inputs.look_at`, of rows in memory.

    Args:
        frame: the rows.
        event_time: their column of event times.
        inputs: the live inputs that they count for; where rows do not say of which they are, all.
    """
    rows: LocalRows = frame
    if not rows.table.num_rows:
        return Reach(0, {})
    times_us = micros_of(rows.table.column(event_time).combine_chunks())
    if INPUT_COLUMN not in rows.columns:
        return Reach(len(times_us), dict.fromkeys((one.name for one in inputs), _greatest_ms(times_us)))
    numbers = rows.table.column(INPUT_COLUMN).to_numpy()
    found = [(int(number), _greatest_ms(times_us[numbers == number])) for number in np.unique(numbers)]
    return Reach(len(times_us), by_input(found, inputs))


def _greatest_ms(times_us: np.ndarray) -> int | None:
    greatest_us = int(times_us.max())
    return None if greatest_us == NO_TIME else greatest_us // 1000


def in_order(table: pa.Table, keys: pa.Array, columns: Sequence[str]) -> pa.Table:
    """Rows as a shard's task gets them: by encoded key, nulls first, then by some columns; else as they came.

    Args:
        table: rows with ``__kg``.
        keys: their encoded keys.
        columns: what orders the rows of a key.
    """
    by = {"group": table.column(KEY_GROUP_COLUMN), "key": keys}
    for at, name in enumerate(columns):
        by |= {f"has {at}": pc.is_valid(table.column(name)), f"value {at}": table.column(name)}
    return table.take(pc.sort_indices(pa.table(by), [(name, "ascending") for name in by]))
