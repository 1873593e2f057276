"""The second half of a shard's task if Spark computes its output columns: see :mod:`.row_spool`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from ..operators.projection import REPORT_COLUMN, Projection
from ..platform.arrow_types import arrow_schema
from ..platform.failpoints import failpoint
from ..platform.worker_socket import acknowledge_at_once
from .report import REPORT_SCHEMA, ShardReport, report_batch
from .shard_task import ShardTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OUTPUT_COLUMN = "output"
Batches = Iterator[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Batches]


def projected(rows: DataFrame, task: ArrowFunction, projection: Projection, publish: PublishTask) -> DataFrame:
    """Run the task, compute the output columns of its rows, and publish; the result is the tasks' reports.

    Args:
        rows: one partition per shard.
        task: hands on its report and its rows.
        projection: the output columns.
        publish: stages them.
    """
    fields = [StructField(REPORT_COLUMN, BinaryType()), *projection.row_schema.fields]
    handed_on = rows.mapInArrow(task, StructType(fields))
    # Nothing is computed for the report's row: an expression may raise an error over nulls.
    columns = [column.alias(f"c{place}") for place, column in enumerate(projection.columns)]
    output = F.when(F.col(REPORT_COLUMN).isNull(), F.struct(*columns)).alias(_OUTPUT_COLUMN)
    return handed_on.select(REPORT_COLUMN, output).mapInArrow(publish, REPORT_SCHEMA)


@dataclass(frozen=True)
class PublishTask:
    """The function handed to the second ``mapInArrow``: stages a shard's output and completes its report."""

    #: The task whose rows these are; only what concerns the output is looked at.
    task: ShardTask
    output_schema: StructType

    def __call__(self, batches: Batches) -> Batches:
        acknowledge_at_once()
        first = next(batches, None)
        if first is None:
            return
        stored = first.column(REPORT_COLUMN)[0].as_py()
        rest = self._outputs(first.slice(1), batches)
        report = ShardReport.from_bytes(stored)
        if self.task.stored_report(report.shard) is not None:
            for _ in rest:
                pass
            yield report_batch(stored)
            return
        failpoint("publish-start")
        report = self._staged(report, rest)
        failpoint("publish-before-report")
        yield report_batch(self.task.published(report).to_bytes())

    def _outputs(self, first: pa.RecordBatch, others: Batches) -> Iterator[pa.StructArray]:
        if first.num_rows:
            yield first.column(_OUTPUT_COLUMN)
        for batch in others:
            yield batch.column(_OUTPUT_COLUMN)

    def _staged(self, report: ShardReport, outputs: Iterator[pa.StructArray]) -> ShardReport:
        schema = arrow_schema(self.output_schema)
        output = self.task.output.open(report.attempt, self.output_schema)
        try:
            for rows in outputs:
                typed = [_typed(column, field.type) for column, field in zip(rows.flatten(), schema, strict=True)]
                output.write(pa.RecordBatch.from_arrays(typed, schema=schema))
            return replace(report, output=tuple(output.finish()), dropped_rows=output.dropped_rows)
        except BaseException:
            output.abort()
            raise


def _typed(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """In the output's type; Spark's rows come in the session's time zone."""
    return column if column.type == data_type else column.cast(data_type)
