"""Few rows of a micro-batch, prepared for their operator by the task that works on all shards.

To have Spark compute key groups and sort costs an epoch of few rows more than what the task itself does with them: code
is made and looked up, and a page of memory is taken, each time anew.

Invariant: the rows have the columns, the key groups and the order that they would have from Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from ....state.keys.key_hash import is_hashable, key_groups
from ..admission import bound_us, rows_in_time
from ..keyed.keyed_rows import KEY_GROUP_COLUMN


@dataclass(frozen=True)
class FewRows:
    """Gives prepared rows their key group.

    Args:
        group_columns: the prepared columns whose hash is the key group, in the order in which they are hashed.
        max_parallelism: number of key groups.
        order: the prepared columns that sort the rows of a key; behind them come columns of arrival, if there are any.
    """

    group_columns: tuple[str, ...]
    max_parallelism: int
    order: tuple[str, ...] = ()

    #: True if they come as they are in the input; False: Spark has prepared them, but for their key group and order.
    takes_input: ClassVar[bool] = False

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
                groups = key_groups(
                    [prepared.column(name) for name in self.group_columns], self.max_parallelism, prepared.num_rows
                )
                names = [KEY_GROUP_COLUMN, *prepared.schema.names]
                yield pa.RecordBatch.from_arrays([pa.array(groups), *prepared.columns], names=names)

    def prepared(self, rows: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """The prepared columns, and those of arrival.

        Args:
            rows: some rows.
            before: how many rows have come before them.
        """
        return rows


def hashes_in_task(key_schema: pa.Schema, places: Sequence[int] | None) -> bool:
    """Whether a task can compute the key groups of some keys.

    Args:
        key_schema: the key's columns.
        places: those that decide the key group; None: all do.
    """
    fields = list(key_schema)
    decide = fields if places is None else [fields[place] for place in places]
    return bool(fields) and all(is_hashable(field.type) for field in decide)


def late_marks(times: pa.Array, late_ms: int) -> pa.Array:
    """1 for each row that is late, else 0.

    Args:
        times: event times.
        late_ms: what has fired, in ms since the epoch.
    """
    late_ms = max(-_MOST_MS, min(late_ms, _MOST_MS))
    late = ~rows_in_time(times, late_ms).to_numpy(zero_copy_only=False)
    return pa.array(late.astype(np.int64))


_MOST_MS = bound_us(2**63) // 1000
