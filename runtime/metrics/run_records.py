"""The runs of a job, put together from the events of its history: what ``status``, ``watch`` and ``report`` show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .event_descriptions import ROUTINE, description_of
from .events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    CheckpointFailed,
    EpochApplied,
    Noted,
    PhaseBegan,
    PositionsKnown,
    RealTimeProgressed,
    RunBegan,
    RunEnded,
    RunEvent,
    SourceChanged,
    SourcePosition,
)

#: What a run does before its first phase.
RECOVERY = "recovery"


@dataclass
class PhaseSpan:
    """A phase of a run."""

    kind: str
    began_ms: int
    #: None: it goes on, or nobody could say when it ended.
    ended_ms: int | None = None


@dataclass(frozen=True)
class Happening:
    """Something that is told in words."""

    at_ms: int
    kind: str
    detail: str


@dataclass
class RunRecord:
    """One run of a job."""

    run_id: str
    #: When it was first, and last, heard of.
    began_ms: int
    seen_ms: int
    name: str | None = None
    query_id: str | None = None
    #: None: that is not in the history any more.
    began: RunBegan | None = None
    #: None: it goes on, or its driver was killed.
    ended: RunEnded | None = None
    phases: list[PhaseSpan] = field(default_factory=list)
    backlog: list[BacklogProgressed] = field(default_factory=list)
    real_time: list[RealTimeProgressed] = field(default_factory=list)
    epochs: list[EpochApplied] = field(default_factory=list)
    checkpoints: list[CheckpointCompleted] = field(default_factory=list)
    failed_checkpoints: list[CheckpointFailed] = field(default_factory=list)
    #: By live input, where it stood last.
    positions: dict[str, SourcePosition] = field(default_factory=dict)
    #: By source, whether it is in backlog: the switch comes after the last epoch before it.
    in_backlog: dict[str, bool] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)
    #: Folders of live file sources that are not there.
    folders_gone: list[str] = field(default_factory=list)
    #: Whether somebody has paused it.
    is_paused: bool = False
    #: Rows of the sources, and those that were late, of all its epochs.
    input_rows: int = 0
    late_rows: int = 0
    #: When it last got on: began a phase, applied an epoch, completed a checkpoint, or processed rows of a backlog or
    #: in real time.
    progressed_ms: int = 0
    #: When the first epoch of the stream was applied that is in no checkpoint; None: all are in one.
    unsaved_since_ms: int | None = None
    #: When the last epoch of the stream was applied; None: there was none.
    streamed_ms: int | None = None

    @property
    def phase(self) -> str:
        """The phase that it is in, or ended in."""
        return self.phases[-1].kind if self.phases else RECOVERY

    @property
    def open_epoch(self) -> RealTimeProgressed | None:
        """The epoch in Real-Time Mode that runs; None: none does, or nothing is known of it yet."""
        if self.ended is not None or self.phase != "live" or not self.real_time:
            return None
        last = self.real_time[-1]
        is_of_the_phase = last.at_ms >= self.phases[-1].began_ms
        return last if is_of_the_phase and not any(one.epoch >= last.epoch for one in self.epochs[-1:]) else None

    @property
    def until_ms(self) -> int:
        """When it ended, or was last heard of."""
        return self.seen_ms if self.ended is None else self.ended.at_ms

    def on(self, event: RunEvent) -> None:
        """Take one more event of this run."""
        self.seen_ms = max(self.seen_ms, event.at_ms)
        self.name, self.query_id = event.name or self.name, event.query_id
        match event:
            case RunBegan():
                self.began = event
                self._enter(RECOVERY, event.at_ms)
            case PhaseBegan():
                self._enter(event.phase, event.at_ms)
            case BacklogProgressed() | RealTimeProgressed():
                self._moved(event)
            case EpochApplied():
                self.epochs.append(event)
                self.input_rows += event.input_rows
                self.late_rows += event.late_rows
                self.progressed_ms = event.at_ms
                self.in_backlog.update((source.name, source.is_backlog) for source in event.sources)
                if event.mode == "streaming":
                    self._streamed(event.at_ms)
                self._locate(event.positions)
            case PositionsKnown():
                self._locate(event.positions)
            case CheckpointCompleted():
                self._saved(event.at_ms)
                self.checkpoints.append(event)
                self.progressed_ms = event.at_ms
            case SourceChanged():
                self.in_backlog[event.source] = event.is_backlog
            case CheckpointFailed():
                self.failed_checkpoints.append(event)
            case Noted():
                self._note(event)
            case RunEnded():
                self.ended, self.is_paused = event, False
                if self.phases:
                    self.phases[-1].ended_ms = event.at_ms
        # A checkpoint is one of many, but for the one of the switch.
        is_switch = isinstance(event, CheckpointCompleted) and event.trigger == "switch"
        words = None if isinstance(event, ROUTINE) and not is_switch else description_of(event)
        if words is not None:
            self.happenings.append(Happening(event.at_ms, words.event, words.detail))

    def _moved(self, event: BacklogProgressed | RealTimeProgressed) -> None:
        if isinstance(event, BacklogProgressed):
            is_further = not self.backlog or _counts(event) != _counts(self.backlog[-1])
            self.backlog.append(event)
        else:
            is_further = not self.real_time or _is_further(event, self.real_time[-1])
            self.real_time.append(event)
        if is_further:
            self.progressed_ms = event.at_ms

    def _note(self, event: Noted) -> None:
        match event.what:
            case "paused" | "resumed":
                self.is_paused, self.progressed_ms = event.what == "paused", event.at_ms
            case "folder-gone":
                self.folders_gone.append(event.text)
            case "folder-is-back":
                self.folders_gone = [folder for folder in self.folders_gone if folder != event.text]

    def _enter(self, kind: str, at_ms: int) -> None:
        if self.phases:
            self.phases[-1].ended_ms = at_ms
        self.phases.append(PhaseSpan(kind, at_ms))
        self.progressed_ms = at_ms

    # Epochs and checkpoints that come often are written when their stretch of time is over, each kind for itself: what
    # they say of their time counts, not their order.

    def _streamed(self, at_ms: int) -> None:
        self.streamed_ms = max(at_ms, self.streamed_ms or at_ms)
        is_saved = any(one.at_ms > at_ms for one in self.checkpoints[-1:])
        if self.unsaved_since_ms is None and not is_saved:
            self.unsaved_since_ms = at_ms

    def _saved(self, at_ms: int) -> None:
        later = self.streamed_ms is not None and self.streamed_ms > at_ms
        self.unsaved_since_ms = self.streamed_ms if later else None

    def _locate(self, positions: Iterable[SourcePosition]) -> None:
        for position in positions:
            self.positions[position.name] = position


def _counts(event: BacklogProgressed) -> tuple[object, ...]:
    """What grows while a sorted pass gets on."""
    return event.stage, event.rows_read, event.rows, event.shards_done, event.fraction, event.spilled_bytes


def _is_further(event: RealTimeProgressed, before: RealTimeProgressed) -> bool:
    """Whether rows were processed in between; one that has failed begins again."""
    return event.rows > (before.rows if event.epoch == before.epoch else 0)


def runs_of(events: Iterable[RunEvent]) -> list[RunRecord]:
    """The runs that events tell of, oldest first."""
    found: dict[str, RunRecord] = {}
    for event in events:
        run = found.get(event.run_id)
        if run is None:
            run = found[event.run_id] = RunRecord(event.run_id, event.at_ms, event.at_ms)
        run.on(event)
    return sorted(found.values(), key=lambda run: run.began_ms)


def since(runs: Iterable[RunRecord], moment_ms: int) -> list[RunRecord]:
    """What of the runs was at this moment or later."""
    found = []
    for run in runs:
        if run.until_ms < moment_ms:
            continue
        phases = [phase for phase in run.phases if phase.ended_ms is None or phase.ended_ms >= moment_ms]
        found.append(
            replace(
                run,
                began_ms=max(run.began_ms, moment_ms),
                phases=[replace(phase, began_ms=max(phase.began_ms, moment_ms)) for phase in phases],
                backlog=[one for one in run.backlog if one.at_ms >= moment_ms],
                real_time=[one for one in run.real_time if one.at_ms >= moment_ms],
                epochs=[one for one in run.epochs if one.at_ms >= moment_ms],
                checkpoints=[one for one in run.checkpoints if one.at_ms >= moment_ms],
                failed_checkpoints=[one for one in run.failed_checkpoints if one.at_ms >= moment_ms],
                happenings=[one for one in run.happenings if one.at_ms >= moment_ms],
            )
        )
    return found
