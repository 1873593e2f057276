"""Few rows of a micro-batch, prepared for their operator by the task that works on all shards.

To have Spark compute key groups and sort costs an epoch of few rows more than what the task itself does with them: code
is made and looked up, and a page of memory is taken, each time anew.

Invariant: the rows have the columns, the key groups and the order that they would have from Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ....state.keys.key_hash import is_hashable, key_groups
from ...support.arrow_columns import typed
from ..keyed.keyed_rows import KEY_GROUP_COLUMN


@dataclass(frozen=True)
class FewRows:
    """Gives prepared rows their key group.

    Args:
        group_columns: the prepared columns whose hash is the key group, in the order in which they are hashed, and
            their types.
        max_parallelism: number of key groups.
        order: the prepared columns that sort the rows of a key; behind them come columns of arrival, if there are any.
    """

    group_columns: tuple[tuple[str, pa.DataType], ...]
    max_parallelism: int
    order: tuple[str, ...] = ()

    @property
    def input_columns(self) -> tuple[str, ...] | None:
        """The columns of the input that the task gets as they are; None: Spark prepares them."""
        return None

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as the operator takes them, but for their order.

        Args:
            batches: the rows, in the order in which they have arrived.
        """
        before = 0
        for batch in batches:
            if batch.num_rows:
                prepared = self.prepared(batch, before)
                before += batch.num_rows
                # Texts may come as large ones, and times in the session's time zone.
                deciding = [typed(prepared.column(name), data_type) for name, data_type in self.group_columns]
                groups = key_groups(deciding, self.max_parallelism, prepared.num_rows)
                names = [KEY_GROUP_COLUMN, *prepared.schema.names]
                yield pa.RecordBatch.from_arrays([pa.array(groups), *prepared.columns], names=names)

    def prepared(self, rows: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """The prepared columns, and those of arrival.

        Args:
            rows: some rows.
            before: how many rows have come before them.
        """
        return rows


def hashed_columns(
    key_columns: Sequence[str], key_schema: pa.Schema, places: Sequence[int] | None
) -> tuple[tuple[str, pa.DataType], ...] | None:
    """The prepared columns whose hash is the key group, and their types; None: a task cannot compute it.

    Args:
        key_columns: the key's prepared columns.
        key_schema: the same with their types, under whatever names.
        places: those that decide; None: all do.
    """
    whole = [(name, field.type) for name, field in zip(key_columns, key_schema, strict=True)]
    decide = whole if places is None else [whole[place] for place in places]
    return tuple(decide) if decide and all(is_hashable(data_type) for _, data_type in decide) else None
