"""Sorts the rows of a task where Spark has not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from ....sorter import ExternalSorter
from ....state.store.local_folder import local_root
from ...operators.arrival_order import arrival_columns
from .task_meter import TaskMeter


@dataclass(frozen=True)
class SortPlan:
    """How the task sorts its rows itself; absent when Spark has sorted them."""

    key: tuple[str, ...]
    then: tuple[str, ...]
    memory_bytes: int
    spill_dir: str | None


@contextmanager
def sorted_here(
    sort: SortPlan | None, local_dir: str | None, meter: TaskMeter, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[Iterator[pa.RecordBatch], ExternalSorter | None]]:
    """The rows in order, and the sorter that put them in order (None: they came so, or there are none).

    Args:
        sort: how; None: they are sorted.
        local_dir: folder for what does not fit into memory, if the plan has none of its own.
        meter: counts the time.
        batches: the rows.
    """
    first = next(batches, None) if sort is not None else None
    if sort is None or first is None:
        yield batches, None
        return
    spill_dir = sort.spill_dir or local_root(local_dir)
    arrival = arrival_columns(first.schema.names)
    then = (*sort.then, *arrival)
    with ExternalSorter(
        first.schema, sort.key, then=then, memory_bytes=sort.memory_bytes, spill_dir=spill_dir
    ) as sorter:
        for batch in chain([first], batches):
            with meter.sorting():
                sorter.add(batch)
        del first, batch
        rows = meter.merged(sorter.sorted_batches())
        yield (batch.drop_columns(list(arrival)) for batch in rows) if arrival else rows, sorter
