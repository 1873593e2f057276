"""Decides which jobs the real-time live phase can run, by facts about them: no Spark, no broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import OptionError, not_supported

_MICRO_BATCHES = "trigger(processingTime=…)"


@dataclass(frozen=True)
class RealTimeFacts:
    """What decides whether a job can run in Real-Time Mode."""

    runtime_mode: str = "mixed"
    #: The live inputs by name: what Spark calls the source of each.
    sources: tuple[tuple[str, str], ...] = ()
    #: How the topic of the first of them is named, by the option's lower case; None: it is no topic.
    topic_option: str | None = None
    topics: tuple[str, ...] = ()
    sink: str = "kafka"
    output_mode: str = "update"
    #: The operators of the keyed stages, by uid: what they are, for messages; without those that keep nothing.
    stages: tuple[tuple[str, str], ...] = ()
    #: Of the only stage: why the phase cannot run its operator; None: it can.
    operator_refusal: str | None = None
    #: Whether ``observe`` is among the operations.
    observed: bool = False
    #: Options that are set and mean nothing in this phase, with what to do.
    options: tuple[tuple[str, str], ...] = ()


def check_shape(job: RealTimeFacts) -> None:
    """Raise if the job cannot run in Real-Time Mode.

    Raises:
        PlanError: its sources, stages, operations or sink are not those that can; it says which can.
        OptionError: an option does not go with it.
    """
    for name, why in job.options:
        raise OptionError(f"{name} does not go with trigger(realTime=…): {why}", code="MIXEDMODE_OPTION_CONFLICT")
    for refusal in (*_input_refusals(job), *_stage_refusals(job), *_output_refusals(job)):
        raise not_supported(f"trigger(realTime=…) {refusal}")


def _input_refusals(job: RealTimeFacts) -> Iterator[str]:
    if job.runtime_mode == "batch":
        yield "says how the live source is read, and execution.runtime-mode = batch ends with it; use mixed"
    if not job.sources:
        yield "says how a live source is read, and the job has none; give read() a Kafka topic as live, or leave it out"
    for name, source in job.sources:
        if source != "kafka":
            yield (
                f"reads Kafka only, and {name} is {source}: Spark's Real-Time Mode has no such source. Bring the rows"
                f" to a topic, or use {_MICRO_BATCHES}"
            )
    if len(job.sources) > 1:
        yield (
            f"reads one live input, and the job has {len(job.sources)} ({', '.join(name for name, _ in job.sources)}):"
            f" one epoch's offsets are counted for one topic. Use {_MICRO_BATCHES}, or bring them to one topic"
        )
    if job.topic_option is not None and (job.topic_option != "subscribe" or len(job.topics) != 1):
        named = ", ".join(job.topics) or job.topic_option
        yield (
            f"reads one topic by option subscribe, and the live input has {job.topic_option} ({named}): its partitions"
            f" are the tasks that run all the time. Subscribe to one topic, or use {_MICRO_BATCHES}"
        )
    if job.observed:
        yield f"does not observe rows: metrics belong to micro-batches. Leave observe out, or use {_MICRO_BATCHES}"


def _stage_refusals(job: RealTimeFacts) -> Iterator[str]:
    if not job.stages:
        yield "is for a keyed stage, and the job has none: stock Spark's trigger(realTime=…) runs such a query itself"
    if len(job.stages) > 1:
        yield (
            f"runs one keyed stage, and the job has {len(job.stages)} ({', '.join(uid for uid, _ in job.stages)}):"
            f" between two stages a row would wait for others. Use {_MICRO_BATCHES}, or two jobs with a topic between"
        )
    if len(job.stages) == 1 and job.operator_refusal is not None:
        yield f"does not run {job.stages[0][1]} {job.operator_refusal}; use {_MICRO_BATCHES}"


def _output_refusals(job: RealTimeFacts) -> Iterator[str]:
    if job.sink != "kafka":
        yield (
            f"writes to Kafka only, and the output is {job.sink}: only a topic can take single rows at once. Use format"
            f" kafka, or {_MICRO_BATCHES}"
        )
    if job.output_mode != "update":
        yield (
            f"needs outputMode('update'), got {job.output_mode!r}: rows are sent before it is known that they are"
            f" final. Use update, or {_MICRO_BATCHES}"
        )
