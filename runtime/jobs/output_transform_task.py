"""Runs the output transform as a Spark job of its own, where it moves rows between tasks.

The same job stages the rows of a job without state, which come from its sources.

It belongs to the stage's epoch: its output is staged before the epoch is applied, by attempts as private as a shard's,
and what it stages takes the place of the stage's own output.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import StructType

from ..catalyst.spark_observations import observed_metrics
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..catalyst.types.arrow_types import arrow_schema
from ..connectors.output_place import OutputPlace
from ..connectors.staging import StagedFile
from ..jvm.worker.worker_tasks import task_begins, task_context
from ..support.failpoints import failpoint
from ..support.ids import EpochNumber, RunId
from ..tasks.report import REPORT_SCHEMA, report_batch
from ..tasks.shard.publish_task import typed_rows

if TYPE_CHECKING:
    from ..operators.output_transform import OutputTransform


@dataclass(frozen=True)
class StagedRows:
    """What a job has staged."""

    files: tuple[StagedFile, ...] = ()
    #: Rows that nobody takes.
    dropped_rows: int = 0
    #: Rows that came.
    rows: int = 0


def staged_behind(
    handed_on: Mapping[str, DataFrame],
    output_transform: OutputTransform,
    place: OutputPlace,
    epoch: EpochNumber,
    run_id: RunId,
) -> tuple[StagedRows, dict[str, Row]]:
    """Do what follows the last stage, or several, to the rows that are handed on, and stage the result.

    Args:
        handed_on: the rows, by stage.
        output_transform: what follows.
        place: where the result is staged.
        epoch: number of the epoch.
        run_id: the run's.

    Returns:
        What was staged, and what was observed of rows on their way, by name.
    """
    staged, job = staged_rows(output_transform.over_all(handed_on), output_transform.schema, place, epoch, run_id)
    return staged, observed_metrics(job) if output_transform.observed else {}


def staged_rows(
    rows: DataFrame, schema: StructType, place: OutputPlace, epoch: EpochNumber, run_id: RunId
) -> tuple[StagedRows, DataFrame]:
    """Stage rows in whatever partitions they are.

    Args:
        rows: the rows.
        schema: their columns as they are staged.
        place: where.
        epoch: number of the epoch.
        run_id: the run's.

    Returns:
        What was staged, and the job that did it.
    """
    # mapInArrow looks columns up by name and takes dots and backticks for syntax.
    rows = rows.toDF(*[f"c{at}" for at in range(len(rows.columns))])
    task = OutputTransformTask(place, schema, epoch, run_id)
    job = mapped_in_arrow(rows, task, REPORT_SCHEMA)
    found = [json.loads(bytes(row[0])) for row in job.collect()]
    files = tuple(StagedFile(**file) for one in found for file in one["files"])
    return StagedRows(files, sum(one["dropped_rows"] for one in found), sum(one["rows"] for one in found)), job


@dataclass(frozen=True)
class OutputTransformTask:
    """The function handed to ``mapInArrow``: stages the rows of one partition, whatever partitions there are."""

    place: OutputPlace
    schema: StructType
    epoch: EpochNumber
    run_id: RunId

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_begins()
        context = task_context()
        attempt = f"{self.run_id}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
        schema = arrow_schema(self.schema)
        output = self.place.open(f"e{self.epoch:08d}-t{context.partitionId():04d}-{attempt}", self.schema)
        rows = 0
        try:
            for batch in batches:
                rows += batch.num_rows
                output.write(typed_rows(batch, schema))
            failpoint("tail-before-report")
            staged = StagedRows(tuple(output.finish()), output.dropped_rows, rows)
        except BaseException:
            output.abort()
            raise
        yield report_batch(json.dumps(asdict(staged)).encode())
