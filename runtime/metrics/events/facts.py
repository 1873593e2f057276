"""Defines what the driver reports beside events (:mod:`.events`): facts that only this process can use.

A fact holds what the driver has at hand, such as reports of shards or an exception; events are made of it elsewhere.
The driver says what has happened and nothing of how it is shown: words are made by those who listen.  So whatever
follows a run (its handle's progress and lifecycle, a report) reads facts, and nobody finds out by searching texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pyspark.sql import Row

from ....state.store.state_manifest import StateManifest
from ...connectors.sources.data_loss import ForgottenMessages
from ...jvm.spark_errors import what_happened
from ...protocols.event_time import MIN_WATERMARK
from ...protocols.lifecycle.events import Stop
from ...support.ids import EpochNumber, JobId
from ...tasks.report import ShardReport
from .event_parts import Latencies
from .events import CheckpointFailed, DataLost, RunEvent

# -- a run begins ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateEvolved:
    """The state that was restored has become that of another version of the job."""

    change: str


@dataclass(frozen=True)
class SeamPassed:
    """The switch is reached: how a live input went on from its history."""

    source: str
    seam: str


@dataclass(frozen=True)
class LiveBegins:
    """The live source's first position is settled."""

    #: As an entry of Spark's offsets log.
    entry: str


# -- epochs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShardsReused:
    """A sorted pass takes over what an earlier run had finished of it."""

    finished: int
    shards: int


@dataclass(frozen=True)
class BacklogMoved:
    """A sorted pass of a stage has come further, or to its end."""

    stage: str
    #: What :meth:`..backlog_progress.BacklogProgress.snapshot` says.
    snapshot: Mapping[str, Any]


@dataclass(frozen=True)
class InputEventTime:
    """How far one of the live inputs has come in event time."""

    watermark_ms: int
    #: Greatest event time; None: no row had one.
    max_event_time_ms: int | None
    #: Whether it does not hold the others' watermark back.
    is_idle: bool


@dataclass(frozen=True)
class SourceSeen:
    """A source after an epoch."""

    name: str
    is_backlog: bool
    finished: bool
    #: None: it is no live input.
    times: InputEventTime | None
    #: Whether the epoch's phase reads it.
    is_read: bool = True


@dataclass(frozen=True)
class StageEpoch:
    """What one keyed stage did in an epoch."""

    uid: str
    #: Of the shards that took part.
    reports: tuple[ShardReport, ...]
    #: Of all shards, after the epoch.
    manifests: tuple[StateManifest, ...]
    #: Whether its input is the job's.
    reads_sources: bool = True
    #: Whether its output is the job's.
    is_last: bool = True
    #: What it has fired up to.
    fired_ms: int = MIN_WATERMARK
    #: False: it is the one stage of a job without state.
    keeps_state: bool = True


@dataclass(frozen=True)
class EpochReport:
    """An epoch has succeeded and is part of the job's state."""

    job_id: JobId
    epoch: EpochNumber
    #: "sorted" (one key at a time) or "random".
    style: Literal["sorted", "random"]
    #: Kind of the phase it belongs to.
    phase: str
    elapsed_s: float
    #: After the epoch.
    watermark_ms: int
    #: Greatest event time so far; None: no row had one.
    max_event_time_ms: int | None
    sources: tuple[SourceSeen, ...]
    #: In topological order.
    stages: tuple[StageEpoch, ...]
    #: Numbers of events; None: the job has no coordinator.
    coordinator: Mapping[str, int] | None = None
    #: What was observed of rows on their way, by name.
    observed: Mapping[str, Row] = field(default_factory=dict)
    #: Of its messages in Real-Time Mode; None: it was another mode, or there was none.
    latencies: Latencies | None = None

    @property
    def is_backlog(self) -> bool:
        """Whether any source is in backlog after it."""
        return any(source.is_backlog for source in self.sources)


@dataclass(frozen=True)
class OffsetsRead:
    """What a micro-batch holds of one source, in the source's own terms; None: it has not said."""

    start: Any
    end: Any
    #: The newest that the source had when the micro-batch was planned.
    latest: Any
    #: What else the source says.
    metrics: Mapping[str, str]


@dataclass(frozen=True)
class OffsetsKnown:
    """It is known what an epoch's micro-batch holds."""

    epoch: EpochNumber
    #: By live input.
    sources: Mapping[str, OffsetsRead]


@dataclass(frozen=True)
class WholeResultObserved:
    """The whole result after the last epoch has been staged, and observed on its way."""

    observed: Mapping[str, Row]


@dataclass(frozen=True)
class RowsDelivered:
    """The last epoch's rows have been shown by a sink that shows them at once."""

    elapsed_s: float


@dataclass(frozen=True)
class LiveFolderGone:
    """A folder of a live file source is not there any more; the job waits for files in it."""

    folder: str


@dataclass(frozen=True)
class LiveFolderIsBack:
    """It is there again."""

    folder: str


# -- the end -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InputEnded:
    """All sources have ended: MAX_WATERMARK."""


@dataclass(frozen=True)
class RunFinished:
    """The job has reached the end of its input."""

    #: The final one; None: an earlier run had reached the end.
    checkpoint_id: int | None


@dataclass(frozen=True)
class RunStopped:
    """Somebody has stopped the run (not told of a live one that ends with an ordinary checkpoint)."""

    #: Which savepoint it was stopped with; None: without one.
    savepoint: Stop | None = None
    #: Without one: whether an epoch was cancelled for it.
    inside_epoch: bool = False


@dataclass(frozen=True)
class RunPaused:
    """The run stands still: it begins no epoch until it is told to go on."""

    #: Kind of the phase in which it does.
    phase: str


@dataclass(frozen=True)
class RunResumed:
    """The run goes on after a pause."""

    #: How long it has stood still.
    paused_ms: int


@dataclass(frozen=True)
class RunFailed:
    """The run has ended with an error."""

    error: BaseException


Fact = (
    RunEvent
    | StateEvolved
    | SeamPassed
    | LiveBegins
    | ShardsReused
    | BacklogMoved
    | EpochReport
    | OffsetsKnown
    | WholeResultObserved
    | RowsDelivered
    | LiveFolderGone
    | LiveFolderIsBack
    | InputEnded
    | RunFinished
    | RunStopped
    | RunPaused
    | RunResumed
    | RunFailed
)


def messages_lost(lost: ForgottenMessages, source: str, epoch: EpochNumber) -> DataLost:
    """The live source has forgotten messages before, or while, an epoch was to read them."""
    return DataLost(
        source=source,
        epoch=epoch,
        topic=lost.topic,
        partition=lost.partition,
        first_offset=lost.first,
        last_offset=lost.last,
        fate=lost.fate,
        text=str(lost),
    )


def file_lost(path: str, fate: str, epoch: EpochNumber) -> DataLost:
    """A file that was read since the last checkpoint is gone, or changed, before it is read again."""
    return DataLost(
        source=path,
        epoch=epoch,
        topic="",
        partition=-1,
        first_offset=0,
        last_offset=-1,
        fate=fate,
        text=f"{path} is {fate}: its rows since the last checkpoint",
    )


def checkpoint_failed(
    number: int,
    trigger: str,
    outcome: Literal["failed", "declined", "aborted"],
    error: BaseException,
    *,
    is_tolerated: bool = False,
    in_a_row: int = 1,
) -> CheckpointFailed:
    """A checkpoint has come to nothing; the arguments are those of the event."""
    return CheckpointFailed(
        checkpoint_id=number,
        trigger=trigger,
        outcome=outcome,
        error_class=type(error).__name__,
        error=what_happened(error),
        is_tolerated=is_tolerated,
        failures_in_a_row=in_a_row,
    )


class FactListener(Protocol):
    """Is told what happens in a run; within this package only: others get the events of :mod:`.events`."""

    def on(self, fact: Fact) -> None:
        """Something has happened.  Called by the run's thread and by those of its sources and savepoints, so it is
        thread-safe, and returns soon: the run waits for it."""


class FactListeners:
    """Several listeners as one, each told in turn."""

    def __init__(self, *listeners: FactListener) -> None:
        self._listeners = listeners

    def on(self, fact: Fact) -> None:
        """Tell each of them."""
        for listener in self._listeners:
            listener.on(fact)
