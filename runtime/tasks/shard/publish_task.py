"""The second half of a shard's task if Spark does something to its rows before they are staged (:mod:`.row_spool`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ....errors import MixedModeError
from ...catalyst.types.arrow_functions import mapped_in_arrow
from ...catalyst.types.arrow_types import arrow_schema
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...operators.emission_watermark import EMITTED_COLUMN
from ...operators.projection import Projection
from ...support.arrow_columns import typed
from ...support.failpoints import failpoint
from ...support.ids import TaskAttemptId
from ..local_report import take_report
from ..report import NO_SHARD, REPORT_SCHEMA, ShardReport, report_batch
from .shard_task import ShardTask

if TYPE_CHECKING:
    from ...operators.output_transform import OutputTransform

Batches = Iterator[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Batches]


def published(
    handed_on: DataFrame, projection: Projection | None, output_transform: OutputTransform | None, publish: PublishTask
) -> DataFrame:
    """What is done to the rows that tasks hand on, and their publication; the result is the tasks' reports.

    Args:
        handed_on: the rows, one partition per shard.
        projection: makes the operator's output of them; None: they are it.
        output_transform: what follows the stage; None: nothing does.
        publish: stages the rows.
    """
    rows = projected(handed_on, projection, marked=publish.task.feeds_a_stage)
    if output_transform is not None:
        rows = output_transform.over(rows)
    # mapInArrow looks columns up by name and takes dots and backticks for syntax.
    return mapped_in_arrow(rows.toDF(*[f"c{place}" for place in range(len(rows.columns))]), publish, REPORT_SCHEMA)


def projected(rows: DataFrame, projection: Projection | None, *, marked: bool) -> DataFrame:
    """The operator's output.

    Args:
        rows: what tasks hand on.
        projection: makes the output of them; None: they are it.
        marked: each row has the watermark at which it was emitted.
    """
    return rows if projection is None else projection.made_of(rows, [EMITTED_COLUMN] if marked else [])


def as_mapped(rows: DataFrame, task: ShardTask) -> tuple[DataFrame, ShardTask]:
    """Rows as mapInArrow takes them, which looks columns up by name and takes dots and backticks for syntax.

    Returns:
        The rows, and the task that gives the columns their names back.
    """
    if not any("." in name or "`" in name for name in rows.columns):
        return rows, task
    return rows.toDF(*[f"c{place}" for place in range(len(rows.columns))]), replace(task, columns=tuple(rows.columns))


@dataclass(frozen=True)
class PublishTask:
    """The function handed to the second ``mapInArrow``: stages a shard's output and completes its report.

    Invariant: in the stream it does the same in all epochs, so that it is part of what is planned once for them.
    """

    #: The task whose rows these are; only what concerns the output is looked at, and no epoch does.
    task: ShardTask
    output_schema: StructType

    def __call__(self, batches: Batches) -> Batches:
        task_begins()
        context = task_context()
        shard = self.task.shards[context.partitionId()]
        stored = None if shard == NO_SHARD else self.task.sorted_pass.report_of(shard)
        if shard == NO_SHARD or stored is not None:
            for _ in batches:
                pass
            if stored is not None:
                yield report_batch(stored)
            return
        # Whoever hands on a row, or their end, has left the report before.
        first = next((batch for batch in batches if batch.num_rows), None)
        handed = take_report(self.task.states.local_dir, self.task.report_name(TaskAttemptId(context.taskAttemptId())))
        if handed is None:
            if first is not None:
                raise MixedModeError(
                    f"shard {shard} has rows behind the keyed stage, but the stage did not run in their task: an"
                    " operation behind it has moved rows between tasks, or made rows without reading any; do it in"
                    " foreachBatch"
                )
            return  # Spark has found that no row gets through, and has not asked the stage for any
        failpoint("publish-start")
        report = self._staged(ShardReport.from_bytes(handed), chain([] if first is None else [first], batches))
        failpoint("publish-before-report")
        yield report_batch(self.task.published(report).to_bytes())

    def _staged(self, report: ShardReport, batches: Batches) -> ShardReport:
        schema = arrow_schema(self.output_schema)
        output = self.task.output.open(self.task.output_name(report.attempt, report.shard), self.output_schema)
        try:
            for batch in batches:
                output.write(typed_rows(batch, schema))
            return replace(report, output=tuple(output.finish()), dropped_rows=output.dropped_rows)
        except BaseException:
            output.abort()
            raise


def typed_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of Spark's in the output's types, by position."""
    converted = [typed(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(converted, schema=schema)
