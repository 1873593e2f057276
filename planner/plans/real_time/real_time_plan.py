"""Decides whether a job's live phase runs in Real-Time Mode: all checks of ``trigger(realTime=…)`` in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import PlanError, not_supported
from ....runtime.catalyst.spark_cluster import application_setting, task_slots
from ....runtime.checkpoints.store import stored_shards
from ....runtime.connectors.sinks.kafka.guarantee import check_real_time_client
from ....runtime.driver.realtime.live_input import why_not_rows
from ....runtime.driver.realtime.live_output import why_not_output
from ....runtime.operators.output_transform import OutputTransform
from ....runtime.operators.stateless import KIND as STATELESS
from ....runtime.spark_io.kafka_counts import why_uncountable
from ....runtime.spark_io.spark_sources import PlannedSource, sources
from ....runtime.spec import IN_REAL_TIME, JobSpec, Settings, StageSpec
from ..graph import StageGraph
from ..plan import SinkPlan
from .application import check_application
from .job_shape import RealTimeFacts, check_shape
from .operators import operator_refusal
from .slots import Slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RealTimeJob:
    """A job with ``trigger(realTime=…)``, as far as it is known before its phases are."""

    graph: StageGraph
    specs: Sequence[StageSpec]
    settings: Settings
    #: What is done to the rows behind the stage; None: nothing.
    transform: OutputTransform | None
    #: The output's format, and the output mode.
    format: str
    output_mode: str
    #: The location of its checkpoints.
    location: str | None

    @property
    def spark(self) -> SparkSession:
        return self.graph.first.inputs.spark

    @property
    def shards(self) -> int:
        """How many shards it begins, or goes on, with."""
        stored = None if self.settings.parallelism is not None else stored_shards(self.location)
        return stored or self.settings.shards(self.spark)


@dataclass(frozen=True)
class RealTime:
    """What has become of ``trigger(realTime=…)``."""

    #: Length of an epoch; None: micro-batches take its place.
    epoch_ms: int | None
    slots: Slots

    @property
    def fallback(self) -> str | None:
        """Why micro-batches take its place; None: they do not."""
        return self.slots.warning if self.epoch_ms is None else None

    def trigger(self, given: dict[str, Any]) -> dict[str, Any]:
        """The trigger of the live phase."""
        return given if self.epoch_ms is not None else {"processingTime": "0 seconds"}

    def sink(self, planned: SinkPlan) -> SinkPlan:
        """The sink with what it promises then."""
        if self.epoch_ms is None:
            return planned
        changed = {"guarantee": "at-least-once", "description": planned.description + IN_REAL_TIME}
        return planned.model_copy(update=changed)


def plan_real_time(job: RealTimeJob, epoch_ms: int | None) -> RealTime | None:
    """Check that a job can run in Real-Time Mode.

    Args:
        job: the job.
        epoch_ms: the length of an epoch; None: its trigger is another one.

    Returns:
        What its live phase is; None: nothing of Real-Time Mode.

    Raises:
        PlanError: the job, or its topic, is none that can.
        OptionError: an option does not go with it.
        SetupError: Spark's version, its settings or its task slots do not suffice.
    """
    if epoch_ms is None:
        return None
    spark = job.spark
    live = [part for part in job.graph.lanes.parts if part.is_live]
    found = [(part.name, source) for part in live for source in sources(part.frame) if source.is_streaming]
    check_shape(_facts(job, found))
    check_application(spark.version, lambda name: application_setting(spark, name))
    check_real_time_client()
    source = found[0][1]
    topic = source.options["subscribe"].strip()
    offsets, refusal = why_uncountable(spark, topic, source.options)
    if refusal is not None:
        raise PlanError(
            f"trigger(realTime=…) commits an epoch if the rows that its shards counted are its offsets, and topic"
            f" {topic!r} {refusal}. Use trigger(processingTime=…), or a topic without that",
            code="MIXEDMODE_REAL_TIME_TOPIC",
        )
    slots = Slots(len(offsets.begins), job.shards, task_slots(spark))
    if job.settings.realtime_fallback == "none":
        slots.check()
    return RealTime(epoch_ms if slots.are_enough else None, slots)


def check_rows(job: JobSpec) -> None:
    """Raise PlanError if the rows of the stage are not the messages of the topic, one by one, or a task cannot do what
    Spark does with those of a micro-batch, or behind the stage."""
    why = why_not_rows(job)
    if why is not None:
        raise not_supported(
            f"trigger(realTime=…) hands each message to the keyed stage and counts it there, and {why}. Do it in the"
            " processor, or for another topic before, or use trigger(processingTime=…)"
        )
    why = why_not_output(job)
    if why is not None:
        raise not_supported(
            "trigger(realTime=…) has the keyed stage's own tasks compute what follows it, as rows that go back to Spark"
            f" would wait for others, and they cannot: {why}. Compute it before the keyed stage or in a processor, or"
            " use trigger(processingTime=…)"
        )


def _facts(job: RealTimeJob, found: Sequence[tuple[str, PlannedSource]]) -> RealTimeFacts:
    options = found[0][1].options if found else {}
    named = next((name for name in ("subscribe", "subscribepattern", "assign") if name in options), None)
    keyed = [spec for spec in job.specs if spec.operator.kind != STATELESS]
    return RealTimeFacts(
        runtime_mode=job.settings.runtime_mode,
        sources=tuple((name, source.name.lower()) for name, source in found),
        topic_option=named,
        topics=tuple(one.strip() for one in options["subscribe"].split(",")) if named == "subscribe" else (),
        sink=job.format,
        output_mode=job.output_mode,
        stages=tuple((spec.uid, spec.operator.kind) for spec in keyed),
        operator_refusal=operator_refusal(keyed[0]) if len(keyed) == 1 else None,
        observed=any(spec.observed for spec in job.specs)
        or (job.transform is not None and bool(job.transform.observed)),
        options=tuple(_option_refusals(job.settings)),
    )


def _option_refusals(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.sink_delivery_guarantee == "exactly-once":
        yield (
            "execution.sink.delivery-guarantee = exactly-once",
            "messages are sent before their epoch is committed, so at least once. Who needs read_committed uses"
            " trigger(processingTime=…), whose micro-batches show rows sooner than an epoch of a minute would",
        )
    if settings.sink_order_column is not None:
        yield "execution.sink.order-column", "the headers of each message say its order; leave the option out"
    if settings.late_data_path is not None:
        yield "pipeline.late-data.path", "late rows are dropped and counted; leave it out, or use processingTime"
    if settings.watermark_lag_threshold_ms is not None:
        yield (
            "pipeline.backlog.watermark-lag-threshold",
            "a query in Real-Time Mode does not go back to a backlog; leave it out, or use processingTime",
        )
