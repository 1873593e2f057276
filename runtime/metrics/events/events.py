"""Defines the events of a run: frozen, plain data that can be sent, stored and read in another process.

Everybody gets these same events: listeners in the job's process, the event log below the checkpoint location, and
whoever reads that.  What the driver knows as plain data it tells as an event; the rest are facts (:mod:`.facts`), of
which events are made in one place.  Values are numbers, texts, and lists and
dictionaries of those, so :mod:`.event_json` can write each as a line.

The fields are a contract: later versions add some, with a default, and neither rename nor remove any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .event_parts import InputNode, Latencies, PlannedPhase, SourcePosition, SourceProgress, StageNode, StageProgress
from .event_parts import ShardTime as ShardTime


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Something that has happened in a run of a query.

    Every event that a listener gets has the four fields below.  The driver makes events without them, and
    :mod:`..event_translation` adds them.
    """

    #: Id of the query: the same over restarts from one ``checkpointLocation``.
    query_id: str = ""
    #: Id of the run: another one after each start.
    run_id: str = ""
    #: Name of the query; None: it has none.
    name: str | None = None
    #: When it happened: milliseconds since 1970.
    at_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class RunBegan(RunEvent):
    """A run has begun, and has claimed the checkpoint location."""

    #: Process id of the driver, and its host.
    pid: int
    host: str
    #: How often the location was claimed, this run included: 1 is the first start, each restart adds one.
    generation: int
    #: Versions by name: "mixedmode", "spark", "python".
    versions: dict[str, str] = field(default_factory=dict)
    #: The checkpoint location; None: a temporary one.
    location: str | None = None
    inputs: tuple[InputNode, ...] = ()
    #: In topological order.
    stages: tuple[StageNode, ...] = ()
    #: One line that says what it is, with its guarantee.
    sink: str = ""
    phases: tuple[PlannedPhase, ...] = ()
    #: Id of the Spark application, and its address in the browser; None: it has none.
    application_id: str | None = None
    spark_ui: str | None = None


# -- on the way --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunRestored(RunEvent):
    """The run goes on from a checkpoint."""

    checkpoint_id: int
    #: Last epoch that is in it.
    epoch: int
    #: Whether it was the end of a drain.
    drained: bool = False


@dataclass(frozen=True, kw_only=True)
class PhaseBegan(RunEvent):
    """A phase of the plan has begun."""

    #: "backlog", "history", "catch-up", "switch", "live" or "finish".
    phase: str


@dataclass(frozen=True, kw_only=True)
class BacklogProgressed(RunEvent):
    """How far a sorted pass has come; told about every second while one runs, and at its end."""

    #: The stage whose pass it is; of several each has its own, one after the other.
    stage: str
    shards_done: int
    shards: int
    #: Rows that tasks have read, from the sources or of their shards, and rows that they have processed.
    rows_read: int
    rows: int
    #: None: not known.
    total_rows: int | None
    rows_per_second: float
    spilled_bytes: int
    #: Of the stage's work; None: not known.
    fraction: float | None
    #: Seconds to its end, mostly right within 30 %; None: the estimate is not that narrow.
    eta_s: float | None
    #: Since the pass began.
    elapsed_s: float
    #: Rows that tasks have written for the shards; 0: none yet, or an older version wrote the event.
    rows_shuffled: int = 0
    #: Bounds of ``eta_s``, or of the time where that is not known; None: they are not known either.
    eta_low_s: float | None = None
    eta_high_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class RealTimeProgressed(RunEvent):
    """How far an epoch in Real-Time Mode has come; told about every second while rows come.

    In the event log one may stand for several: latencies of the last seconds are then the greatest of each.
    """

    #: The epoch that runs: it is not applied yet, and perhaps will never be.
    epoch: int
    #: Since it began.
    elapsed_s: float
    #: Messages that its shards have processed so far, those that filters drop among them.
    rows: int
    #: Messages per second in the last seconds.
    rows_per_second: float
    #: Of the messages of the last seconds; None: there were none.
    latencies: Latencies | None = None
    #: Of all messages of the epoch so far; None: there were none.
    epoch_latencies: Latencies | None = None

    def by_name(self) -> dict[str, Any]:
        """As ``query.status`` and ``mixedmode status`` have it."""
        return {
            "epoch": self.epoch,
            "elapsedSeconds": self.elapsed_s,
            "rows": self.rows,
            "rowsPerSecond": self.rows_per_second,
            "latencyMs": None if self.latencies is None else self.latencies.by_name(),
            "epochLatencyMs": None if self.epoch_latencies is None else self.epoch_latencies.by_name(),
        }


@dataclass(frozen=True, kw_only=True)
class EpochApplied(RunEvent):
    """An epoch has succeeded and is part of the job's state.

    In the event log one may stand for several (``epochs``): rows and durations are then sums, ``epoch`` and all that
    tells a state are the last one's.
    """

    #: Its number.
    epoch: int
    #: The phase it belongs to.
    phase: str
    #: "backlog" (sorted, one key at a time) or "streaming".
    mode: str
    #: Whether any source is in backlog after it.
    is_backlog: bool
    #: How many it stands for.
    epochs: int = 1
    duration_ms: float = 0.0
    #: The longest of those that it stands for.
    max_duration_ms: float = 0.0
    #: Where the time went: see ``durationMs`` of ``query.lastProgress``.
    durations_ms: dict[str, int] = field(default_factory=dict)
    #: Rows of the sources, of the output, and those that came too late for any stage.
    input_rows: int = 0
    output_rows: int = 0
    late_rows: int = 0
    output_bytes: int = 0
    #: Rows of the sources per second since the last epoch began, and per second that the epoch took.
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    #: The job's watermark; None: there is none yet, or it is at the end of time.
    watermark_ms: int | None = None
    #: Greatest event time so far; None: no row had one.
    max_event_time_ms: int | None = None
    #: How far the watermark is behind the clock.
    watermark_lag_ms: int | None = None
    state_entries: int = 0
    state_bytes: int = 0
    spilled_bytes: int = 0
    #: In topological order.
    stages: tuple[StageProgress, ...] = ()
    sources: tuple[SourceProgress, ...] = ()
    #: The newest positions that are known, by live input.
    positions: tuple[SourcePosition, ...] = ()
    #: Numbers of operator events; None: the job has no coordinator.
    coordinator: dict[str, int] | None = None
    #: What ``observe()`` has computed of the rows, by name.
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: In Real-Time Mode, of several epochs the greatest of each; None: it was another mode, or there was no message.
    latencies: Latencies | None = None


@dataclass(frozen=True, kw_only=True)
class PositionsKnown(RunEvent):
    """Spark has told what an epoch's micro-batch holds, which is soon after the epoch."""

    positions: tuple[SourcePosition, ...]


@dataclass(frozen=True, kw_only=True)
class SourceChanged(RunEvent):
    """A source's isBacklog has changed."""

    source: str
    is_backlog: bool
    #: The last epoch before.
    epoch: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class DataLost(RunEvent):
    """A live source has forgotten messages before, or while, they were read; or lost a file before it is read again."""

    #: The live input; of a file its URI.
    source: str
    epoch: int
    #: Topic and partition; of a file "" and -1.
    topic: str
    partition: int
    #: First and last offset that is lost; none if the last one is before the first.
    first_offset: int
    last_offset: int
    #: "gone", "perhaps" (while they were read: any may be missing), "made-anew" (the topic was), "no-partition", or of
    #: a file "changed" (written again since it was read).
    fate: str
    #: The same in words.
    text: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it is a file that is lost, and not messages."""
        return self.partition < 0


@dataclass(frozen=True, kw_only=True)
class Noted(RunEvent):
    """Anything else that belongs to the story of a run, in the words of ``query.lifecycle``."""

    #: Such as "state-evolved", "seam", "positions", "reused", "MAX_WATERMARK".
    what: str
    text: str


# -- checkpoints and savepoints ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CheckpointCompleted(RunEvent):
    """A checkpoint is complete, and its output visible.

    In the event log one may stand for several (``checkpoints``): durations, new files and output are then sums.
    """

    checkpoint_id: int
    #: Why it was taken.
    trigger: str
    #: "checkpoint", "completion" (the job ends with it), or "savepoint" (it was taken to be written as one).
    kind: str
    drained: bool = False
    #: How many it stands for.
    checkpoints: int = 1
    duration_ms: int = 0
    #: The longest of those that it stands for.
    max_duration_ms: int = 0
    #: Its parts: "write", "commit".
    durations_ms: dict[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    state_entries: int = 0
    state_files: int = 0
    new_files: int = 0
    new_bytes: int = 0
    output_rows: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class CheckpointFailed(RunEvent):
    """A checkpoint has come to nothing."""

    checkpoint_id: int
    trigger: str
    #: "failed", "declined" (a task does not take part) or "aborted" (the run, or the savepoint it was for, has ended).
    outcome: str
    error_class: str
    error: str
    #: Whether the job goes on.
    is_tolerated: bool
    #: How many in a row have failed, this one included.
    failures_in_a_row: int = 1


@dataclass(frozen=True, kw_only=True)
class SavepointWritten(RunEvent):
    """A savepoint is complete."""

    path: str
    #: Whether it is the one that an earlier run was asked to stop with.
    by_recovery: bool = False


@dataclass(frozen=True, kw_only=True)
class ShardsRescaled(RunEvent):
    """Stages have other numbers of shards: by ``query.rescale()``, or by ``pipeline.parallelism`` at a restart."""

    #: Number of shards by stage, before and after.
    before: dict[str, int]
    after: dict[str, int]
    #: The first checkpoint that holds the new ones; None: it will be the run's first one.
    checkpoint_id: int | None = None


# -- the end -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunEnded(RunEvent):
    """The run has ended; a driver that was killed does not say so."""

    #: "finished" (nothing is left to do), "stopped" (somebody has asked for it) or "failed".
    how: Literal["finished", "stopped", "failed"]
    error_class: str | None = None
    error: str | None = None
    #: Of a run that was stopped with one.
    savepoint: str | None = None
    #: Whether that was a drain.
    drained: bool = False
    #: Events that a listener has not got since it was too slow, all listeners together.
    dropped_events: int = 0


# -- of other versions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnknownEvent(RunEvent):
    """An event that this version of mixedmode does not know, or not in this form: a newer one has written it."""

    kind: str
    #: As it is written.
    body: dict[str, Any]


#: Every kind of event, by the name under which it is written.
EVENTS: dict[str, type[RunEvent]] = {
    kind.__name__: kind
    for kind in (
        RunBegan,
        RunRestored,
        PhaseBegan,
        BacklogProgressed,
        RealTimeProgressed,
        EpochApplied,
        PositionsKnown,
        SourceChanged,
        DataLost,
        Noted,
        CheckpointCompleted,
        CheckpointFailed,
        SavepointWritten,
        ShardsRescaled,
        RunEnded,
    )
}
