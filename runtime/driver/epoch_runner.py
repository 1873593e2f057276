"""The steps of a running job: an epoch, a delivery, a checkpoint; one at a time.

Invariants:
- Every step runs under :attr:`Stepper.turn`.
- ``JobState`` changes only after an epoch's Spark job has succeeded; a failed epoch leaves no trace in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..checkpoints.metadata import WantedSavepoint
from ..connectors.sources.inputs import Reach, look_at
from ..connectors.sources.live_query import Stopped
from ..connectors.staging import StagedFile
from ..metrics.backlog import BacklogProgress
from ..metrics.checkpoint import CheckpointReport
from ..metrics.listeners import CheckpointCompleted, RowsDelivered, RunListener, ShardsReused, SourceChanged
from ..operators.contract import EpochSpec
from ..platform.failpoints import failpoint
from ..protocols.backlog_gate import LagGates
from ..protocols.checkpoint_scheduler import CheckpointScheduler
from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..protocols.lifecycle.work import TaskWorker
from ..spec import JobSpec, Phase
from ..tasks.executor import EpochExecutor
from ..tasks.report import ShardReport
from .checkpoint_coordinator import Checkpointer
from .epoch_facts import epoch_applied
from .epoch_specs import OBSERVED, last_epoch_of, sorted_pass_of, streaming_epoch_of
from .event_channels import JobEvents
from .job_state import JobState
from .pinned_backlog import PinnedBacklog
from .task_graph import source_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Stepper:
    """Executes steps on behalf of the phases and of the clock.

    Args:
        job: what to do.
        state: where the job stands.
        scheduler: when checkpoints are due.
        checkpointer: takes them.
        executor: runs epochs.
        listener: is told what happens.
        backlog: live progress of sorted passes.
        tag: Spark job tag of this run, by which its jobs can be cancelled.
        turn: the lock under which steps run.
        stopping: set when the job is to stop.
        tasks: does what the lifecycle of the job's tasks asks for.
        events: what goes between the job's coordinator and the shards.
    """

    job: JobSpec
    state: JobState
    scheduler: CheckpointScheduler
    checkpointer: Checkpointer
    executor: EpochExecutor
    listener: RunListener
    backlog: BacklogProgress
    tag: str
    turn: threading.RLock
    stopping: threading.Event
    tasks: TaskWorker
    events: JobEvents
    _checkpointed_epoch: int = field(init=False)
    #: isBacklog by watermark lag; None: lag has no effect.
    _lag: LagGates | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._checkpointed_epoch = self.state.epoch
        settings = self.job.settings
        if settings.watermark_lag_threshold_ms is not None:
            self._lag = LagGates(settings.watermark_lag_threshold_ms, calm_ms=settings.checkpoint_interval_ms)

    def check_stopped(self) -> None:
        """Raise Stopped if the job is to stop."""
        if self.stopping.is_set():
            raise Stopped

    # -- epochs ------------------------------------------------------------------------------------------------------

    def sorted_pass(
        self,
        phase: Phase,
        frame: DataFrame | None,
        final_ms: int | None,
        *,
        drop_late: bool = False,
        at_end: bool = False,
        pin: PinnedBacklog | None = None,
        live_position: str | None = None,
    ) -> None:
        """One epoch over batch keyed state, keys in order.

        Args:
            phase: the phase it belongs to.
            frame: its rows; None for a pass that only fires timers.
            final_ms: final watermark of the keys; None: more of the backlog follows, nothing fires yet;
                ``OBSERVED``: the greatest watermark that the backlog itself reaches.
            drop_late: rows behind what has fired are late (a stream that fell back into backlog).
            at_end: all input ends with it.
            pin: keeps finished shards for a restarted driver; None: this pass is not the whole backlog.
            live_position: Spark's offsets entry of the live batch in ``frame``.
        """
        with self.turn:
            self.check_stopped()
            spec, reach = (None if pin is None else pin.load(live_position)), None
            finished: dict[int, ShardReport] = {}
            if spec is None:
                asks = final_ms == OBSERVED or (final_ms is not None and self._in_order)
                if asks and self.job.operator.uses_event_time:
                    reach = self._look_ahead(frame)
                spec = sorted_pass_of(
                    self.state,
                    now_ms(),
                    final_ms,
                    reach,
                    drop_late=drop_late,
                    keep_state=self.job.keeps_state,
                    in_order=self._in_order,
                    at_end=at_end,
                    has_rows=frame is not None,
                )
                if pin is not None:
                    pin.save(spec, live_position)
            elif pin is not None:
                finished = pin.finished(self.job.operator.uid, self.job.sink.staging)
                self.listener.on(ShardsReused(len(finished), len(self.state.shards)))
            self.backlog.begin(None if reach is None else reach.rows, len(self.state.shards))
            try:
                folder = None if pin is None else pin.reports
                self._execute(phase, frame, spec, reach=reach, finished=finished, report_folder=folder)
            finally:
                self.backlog.end()
            failpoint("backlog-epoch-applied")

    def streaming_epoch(self, phase: Phase, frame: DataFrame | None, shards: list[int] | None = None) -> None:
        """One epoch over RocksDB state: rows, then what is due by the watermark so far; delivered at once."""
        with self.turn:
            self.check_stopped()
            time_ms = now_ms()
            self.state.watermark.advance(time_ms)
            reach = self._look_ahead(frame) if self._tells_inputs_apart else None
            spec = streaming_epoch_of(self.state, time_ms, reach, in_order=self._in_order)
            self._execute(phase, frame, spec, shards, reach)
            self.deliver()
            failpoint("epoch-applied")

    def fire_all(self, phase: Phase) -> None:
        """MAX_WATERMARK: fire every event-time timer and every open window."""
        if self.job.keeps_state and self.state.shards_due(MAX_WATERMARK, MIN_WATERMARK):
            self.sorted_pass(phase, None, MAX_WATERMARK, at_end=True)

    def finish_operators(self, phase: Phase) -> None:
        """Call endInput() and finish() of the operator on every shard, if it has them; their rows are output.

        This is the last epoch: events that still wait go with it, those that the coordinator sends later go nowhere.
        """
        if not self.job.operator.has_end_hooks and not self.events.waiting:
            return
        with self.turn:
            self.check_stopped()
            spec = last_epoch_of(self.state, now_ms(), keep_state=self.job.keeps_state)
            self._execute(phase, None, spec)

    def tick(self, phase: Phase, upto_ms: int | None = None, *, idle: bool = False) -> bool:
        """Fire what is due without new rows (None: due now), and send out events that wait; True if it ran an epoch.

        Args:
            phase: the phase it belongs to.
            upto_ms: timers up to here, and no events.
            idle: nothing waits at the live inputs; if nothing is due, either, that counts as fired (Spark runs a
                micro-batch without data for it).
        """
        self.state.watermark.advance(now_ms())
        due = self.state.shards_due(self.state.watermark.current_ms, now_ms() if upto_ms is None else upto_ms)
        if upto_ms is None:
            due = sorted({*due, *self.events.waiting})
        if due:
            self.streaming_epoch(phase, None, due)
        elif idle:
            self.state.watermark.fired(self.state.watermark.current_ms)
        return bool(due)

    def send_events(self, phase: Phase) -> None:
        """Send out events that wait, if any do, in an epoch of their own."""
        with self.turn:
            if waiting := self.events.waiting:
                self.streaming_epoch(phase, None, waiting)

    def _execute(
        self,
        phase: Phase,
        frame: DataFrame | None,
        spec: EpochSpec,
        shards: list[int] | None = None,
        reach: Reach | None = None,
        **options: Any,
    ) -> None:
        started = time.monotonic()
        if reach is None and self._tells_inputs_apart:
            reach = self._look_ahead(frame)
        visited = list(range(len(self.state.shards))) if frame is not None or shards is None else shards
        fires_all = set(visited).issuperset(self.state.shards_due(spec.firing_watermark_ms, MIN_WATERMARK))
        # Nothing of a backlog is for anybody before the switch, and nobody interferes with it.
        in_backlog = phase.kind == "backlog"
        inboxes = self.events.take(visited, self.state, with_events=not in_backlog)
        try:
            with self._labelled(f"{phase.kind}, epoch {spec.epoch}"):
                reports = self.executor.execute(
                    frame, spec, self.state.lineages, sorter=phase.sorter, shards=visited, inboxes=inboxes, **options
                )
            late = self._stage_late(frame, spec, reports)
            failpoint("epoch-before-apply")
        except BaseException:
            self.events.fail(visited)
            raise
        self.events.accept(reports)
        self.state.apply(spec.epoch, reports)
        self.state.pending_late += late
        self._move_watermark(spec, reports, reach, time.monotonic() - started)
        if fires_all:
            self.state.watermark.fired(spec.firing_watermark_ms)
        if not in_backlog:
            failpoint("events-before-hand-over")
            self.events.hand_over()
        elapsed_s = time.monotonic() - started
        applied = epoch_applied(
            self.state,
            self.job.operator.uid,
            phase,
            spec,
            reports,
            elapsed_s=elapsed_s,
            now_ms=now_ms(),
            coordinator=self.events.counts,
        )
        self.listener.on(applied)

    @contextmanager
    def _labelled(self, what: str) -> Iterator[None]:
        """Spark jobs in here can be cancelled by :meth:`JobRunner.stop` and say in Spark's UI what they are."""
        context = self.job.spark.sparkContext
        context.addJobTag(self.tag)
        context.setJobDescription(f"{self.job.name or 'mixedmode'}: {what}")
        try:
            yield
        finally:
            context.removeJobTag(self.tag)
            context.setJobDescription(None)  # type: ignore[arg-type]

    @property
    def _in_order(self) -> bool:
        """Whether event-time timers fire between the rows of their key."""
        return (
            self.job.settings.timers == "in-order" and self.job.operator.has_timers and self.job.event_time is not None
        )

    # -- event time --------------------------------------------------------------------------------------------------

    @property
    def _tells_inputs_apart(self) -> bool:
        return self.job.event_time is not None and len(self.job.live_inputs) > 1

    def _look_ahead(self, frame: DataFrame | None) -> Reach | None:
        """Rows and event times of an epoch, before it starts.

        ``observed`` must know the end of the backlog, and the tasks do not tell several inputs apart.
        """
        if frame is None:
            return None
        assert self.job.event_time is not None
        with self._labelled("looking for the greatest event time"):
            return look_at(frame, self.job.event_time, self.job.live_inputs)

    def _move_watermark(
        self, spec: EpochSpec, reports: list[ShardReport], reach: Reach | None, elapsed_s: float
    ) -> None:
        """Take over how far an epoch's event times went."""
        watermark, time_ms = self.state.watermark, now_ms()
        watermark.pause(round(elapsed_s * 1000))
        if self._tells_inputs_apart:
            watermark.observe({} if reach is None else reach.seen, time_ms)
        else:
            times = [report.counters.max_event_time_ms for report in reports]
            watermark.observe(max((time for time in times if time is not None), default=None), time_ms)
        if spec.style == "random":
            watermark.advance(time_ms)
            return
        # Rows for what a sorted pass has fired must be late from now on, whatever else holds the watermark back.
        fired_ms = spec.firing_watermark_ms if spec.firing_watermark_ms < MAX_WATERMARK else MIN_WATERMARK
        watermark.advance_to(max(fired_ms, watermark.would_reach(None)), time_ms)

    def _stage_late(self, frame: DataFrame | None, spec: EpochSpec, reports: list[ShardReport]) -> list[StagedFile]:
        """Late rows of an epoch for the side output, if the job has one."""
        dropped = sum(report.counters.rows_late for report in reports)
        if self.job.late_rows is None or frame is None or not dropped:
            return []
        rows = self.job.operator.late_rows(frame, spec)
        if rows is None:
            return []
        with self._labelled(f"late rows of epoch {spec.epoch}"):
            return self.job.late_rows.stage(rows, spec.epoch, spec.late_watermark_ms, dropped)

    # -- sources -----------------------------------------------------------------------------------------------------

    def set_backlog(self, source: str, is_backlog: bool, why: str) -> None:
        """A source's isBacklog changes."""
        if self.state.sources[source].is_backlog == is_backlog:
            return
        self.state.set_source(source, is_backlog=is_backlog)
        self.scheduler.set_backlog(source, is_backlog, clock_ms())
        self.listener.on(SourceChanged(source, is_backlog, self.state.epoch, why))

    def source_ended(self, source: str) -> None:
        """A source will give no more rows."""
        self.state.set_source(source, is_backlog=False, finished=True)
        self.scheduler.source_ended(source, clock_ms())
        lifecycle = self.tasks.lifecycle
        if lifecycle.knows(source_task(source)):  # not if the job was restored without it
            lifecycle.source_ended(source_task(source))
        if not all(known.finished for known in self.state.sources.values()):
            self.tasks.run()  # the end of the last source is the end of the job, which is another's work

    def note_lag(self) -> None:
        """isBacklog by watermark lag (FLIP-328), evaluated whenever the watermark may have moved."""
        if self._lag is not None:
            for one in self.job.live_inputs:
                lags = self.state.watermark.is_backlog(now_ms(), one.name)
                self.set_backlog(one.name, self._lag.of(one.name).judge(lags, clock_ms()), "watermark lag")

    def note_drained(self) -> None:
        """Nothing waits at the live inputs: one whose watermark lags now is old, not behind."""
        if self._lag is not None:
            for one in self.job.live_inputs:
                self.set_backlog(one.name, self._lag.of(one.name).drained(clock_ms()), "nothing waits at the source")

    # -- delivery and checkpoints ------------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Hand rows to a sink that shows them at once; all others wait for the checkpoint."""
        if self.job.sink.shows_at_once:
            started = time.monotonic()
            self.checkpointer.store.guard()
            self.job.sink.deliver(self.state.epoch, self.state.pending)
            self.listener.on(RowsDelivered(time.monotonic() - started))
            self.state.pending = []

    def checkpoint_if_due(self, trigger: str = "interval") -> None:
        """Take a checkpoint if the scheduler says so.

        A periodic one that would hold nothing new is left out: copies of the last checkpoint would push out the older
        ones, which are the way back from damaged state.
        """
        if not self.scheduler.due(clock_ms()):
            return
        if self.scheduler.immediate or self._has_news:
            self.checkpoint(trigger)
        else:
            self.scheduler.triggered(clock_ms())

    @property
    def _has_news(self) -> bool:
        return bool(self.state.pending) or self.state.epoch > self._checkpointed_epoch or self.events.has_news

    def checkpoint(
        self, trigger: str, *, close: bool = True, drained: bool = False, savepoint: WantedSavepoint | None = None
    ) -> CheckpointReport | None:
        """Take a checkpoint now; None if it failed tolerably.

        Args:
            trigger: why.
            close: let tasks close that have waited for it; False: the caller does.
            drained: whether a drain ends with it.
            savepoint: the savepoint that must not be missing if the checkpoint is there.
        """
        report = self.checkpointer.take(trigger, clock_ms(), drained=drained, savepoint=savepoint)
        if report is not None:
            self._checkpointed_epoch = self.state.epoch
            self.listener.on(CheckpointCompleted(report))
            if close:
                self.tasks.run()
        return report

    def checkpoint_if_behind(self, trigger: str) -> bool:
        """Take a checkpoint if there was an epoch since the last one; False if it failed tolerably."""
        with self.turn:
            return not self._has_news or self.checkpoint(trigger) is not None

    def commit_now(self, phase: Phase) -> bool:
        """Fire what is due and make everything processed so far visible; nothing waits at the live inputs.

        Returns:
            False if that failed tolerably.
        """
        with self.turn:
            upto_ms = now_ms()  # fixed: a timer that registers the next one again and again must not keep us here
            self.send_events(phase)  # once: a coordinator that answers each event with another must not either
            while self.tick(phase, upto_ms, idle=True):
                pass
            return self.checkpoint_if_behind("requested")


def clock_ms() -> int:
    """Monotonic clock of the checkpoint scheduler."""
    return round(time.monotonic() * 1000)


def now_ms() -> int:
    """Wall clock: processing time."""
    return round(time.time() * 1000)
