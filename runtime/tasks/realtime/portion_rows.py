"""Prepares a portion of rows for its operator: key groups, partial aggregates, the order of keys.

It is what Spark does for micro-batches, and tasks for few rows; Spark's plan is made once for a whole run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...operators.arrival_order import ARRIVAL_COLUMNS
from ...operators.columnar.few_rows import FewRows
from ...operators.contract import EpochSpec, KeyedOperator
from ...operators.dedup.operator import DedupOperator
from ..shard.task_meter import TaskMeter
from ..shard.task_sorter import SortPlan, sorted_here


@dataclass(frozen=True)
class PortionRows:
    """How rows of Spark become those of an operator.

    Args:
        sort: how they are sorted.
        max_parallelism: number of key groups.
        names: columns of the input that the task gets, without those of positions.
        few: prepares them; None: they are a deduplication's, or Spark has prepared them.
    """

    sort: SortPlan
    max_parallelism: int
    names: tuple[str, ...]
    few: FewRows | None = None

    def for_epoch(self, operator: KeyedOperator, epoch: EpochSpec) -> PortionRows:
        """The same with what an epoch adds: which rows are late."""
        if not isinstance(operator, DedupOperator):
            return self
        few = operator.portion_rows(self.names, epoch, self.max_parallelism)
        assert few is not None, "start() has made sure of it"
        return replace(self, few=few, sort=replace(self.sort, then=few.order))

    @contextmanager
    def of(self, rows: pa.RecordBatch, local_dir: str | None, meter: TaskMeter) -> Iterator[Iterator[pa.RecordBatch]]:
        """A portion in order.

        Args:
            rows: the columns of ``names``, in the order in which they have arrived.
            local_dir: folder for what does not fit into memory.
            meter: counts the time.
        """
        if self.few is not None:
            asked = self.few.input_columns
            batches = self.few.of(iter((rows if asked is None else rows.select(list(asked)),)))
        else:
            place = pa.array(np.arange(rows.num_rows))
            arrays, names = [*rows.columns, place], [*rows.schema.names, ARRIVAL_COLUMNS[-1]]
            batches = iter((pa.RecordBatch.from_arrays(arrays, names=names),))
        with sorted_here(self.sort, local_dir, meter, batches) as (ordered, _):
            yield ordered
