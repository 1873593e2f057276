"""A shard's rows on their way to its task, with what Spark is asked about them in between.

It runs in the same Spark task as the shard task, before it and in a process of its own: it reads the shard's state, and
writes nothing.  An attempt of one is an attempt of both, so they see the same rows and the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from ...jvm.worker.worker_tasks import task_begins, task_context
from ...operators.contract import ShardContext, ShardCounters
from ..report import NO_SHARD
from .shard_task import ShardTask, checked_rows, operator_of
from .task_meter import TaskMeter
from .task_sorter import sorted_here


@dataclass(frozen=True)
class ConditionTask:
    """The function handed to ``mapInArrow`` before that of the shard task.

    Args:
        task: the shard task; rows are sorted here if it says that a task sorts them.
    """

    task: ShardTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        task, shard = self.task, self.task.shards[context.partitionId()]
        if shard == NO_SHARD or task.sorted_pass.report_of(shard) is not None:
            for _ in batches:
                pass
            return
        task_begins()
        key_groups = task.states.manifests[shard].key_groups
        shard_context = ShardContext(
            shard,
            key_groups,
            task.epoch,
            task.local_copy(shard),
            _Nothing(),
            _Nothing(),
            ShardCounters(),
            local_dir=task.states.local_root,
        )
        rows = checked_rows(batches, shard, key_groups)
        with sorted_here(task.sort, task.states.local_dir, TaskMeter(), rows) as (ordered, _):
            questions = operator_of(task.operator).questions
            assert questions is not None, "this task runs for an operator that asks Spark"
            yield from questions.ask(shard_context, ordered)


class _Nothing:
    """Takes state and rows of a task that has none to give."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("what asks writes no state, and puts nothing out")

    put = delete = put_many = put_arrays = write = _refuse
