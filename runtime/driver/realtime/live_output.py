"""The output of a job's one stage in Real-Time Mode, how it is sent, and why it cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import PlanError
from ...catalyst.columns import column_fold
from ...catalyst.spark_session import empty_frame
from ...connectors.sinks.kafka.live_messages import LiveMessages, live_options
from ...connectors.sinks.kafka.messages import MessageColumns
from ...connectors.sinks.kafka.sink import KafkaSink
from ...connectors.sinks.spark_writer import SparkWriterSink
from ...scan.output_rows import OutputRows, output_rows
from ...scan.parquet_scan import NotTakenError
from ...support.ids import EpochNumber

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...connectors.sinks.base import Sink
    from ...spec import JobSpec


def live_output(job: JobSpec) -> OutputRows | None:
    """How the tasks of the stage make the output of its rows; None: these are the output.

    Raises:
        NotTakenError: Spark has to make it; says why.
    """
    (stage,) = job.stages
    projection, transform = stage.operator.projection, job.output_transform
    if projection is None and transform is None:
        return None
    if projection is not None:
        rows = empty_frame(job.planning, projection.row_schema)
        made = projection.made_of(rows)
    else:
        assert transform is not None, "something makes the output"
        rows = made = empty_frame(job.planning, transform.row_schema)
    return output_rows(made if transform is None else transform.over(made), rows)


def why_not_output(job: JobSpec) -> str | None:
    """Why the tasks of a job's stage cannot make its output, in words; None: they can."""
    try:
        live_output(job)
    except NotTakenError as error:
        return str(error)
    return None


def live_messages(sink: Sink, spark: SparkSession, run: int, since: EpochNumber) -> LiveMessages:
    """How rows are sent that go to a sink of Kafka.

    Args:
        sink: the job's.
        spark: its session.
        run: number of the run.
        since: the epoch that it begins with.

    Raises:
        PlanError: it is another sink.
        OptionError: the client that sends from tasks does not know an option.
    """
    if not isinstance(sink, (KafkaSink, SparkWriterSink)) or sink.name.lower() != KafkaSink.name:
        raise PlanError(
            f'trigger(realTime=…) sends rows to Kafka, and the output goes to {sink.name}: use format "kafka"'
        )
    columns = MessageColumns.of(sink.schema, sink.options, column_fold(spark))
    return LiveMessages(live_options(sink.options), columns, run, since)
