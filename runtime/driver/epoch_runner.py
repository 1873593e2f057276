"""Runs epochs: one at a time, each over all stages, applied as a whole.

Invariants:
- Every epoch runs under :attr:`EpochRunner.turn`.
- ``JobState`` changes only after the jobs of all stages have succeeded; a failed epoch leaves no trace in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..checkpoints.store import CheckpointStore
from ..connectors.sources.inputs import Reach, look_at
from ..connectors.sources.live_query import Stopped
from ..connectors.staging import StagedFile
from ..metrics.backlog import BacklogProgress
from ..metrics.listeners import RowsDelivered, RunListener, ShardsReused
from ..operators.contract import EpochSpec
from ..platform.failpoints import failpoint
from ..protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..spec import JobSpec, Phase, StageSpec
from ..tasks.executor import EpochExecutor
from ..tasks.report import ShardReport
from .clocks import now_ms
from .epoch_facts import epoch_applied
from .epoch_specs import OBSERVED, last_epoch_of, sorted_pass_of, streaming_epoch_of
from .event_channels import JobEvents
from .job_state import JobState
from .pinned_backlog import PinnedBacklog
from .stage_state import StageState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class EpochRunner:
    """Executes epochs on behalf of the phases and of the clock.

    Args:
        job: what to do.
        state: where the job stands.
        store: says whether the location is still this run's.
        executors: by stage.
        listener: is told what happens.
        backlog: live progress of sorted passes.
        tag: Spark job tag of this run, by which its jobs can be cancelled.
        turn: the lock under which epochs run.
        stopping: set when the job is to stop.
        events: what goes between the coordinator and the shards.
        applied: called after each epoch.
    """

    job: JobSpec
    state: JobState
    store: CheckpointStore
    executors: Mapping[str, EpochExecutor]
    listener: RunListener
    backlog: BacklogProgress
    tag: str
    turn: threading.RLock
    stopping: threading.Event
    events: JobEvents
    applied: Callable[[], None]

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
                if asks and self.stage.operator.uses_event_time:
                    reach = self._look_ahead(frame)
                spec = sorted_pass_of(
                    self.state,
                    self.state.stage,
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
                finished = pin.finished(self.stage.uid, self.job.sink.staging)
                self.listener.on(ShardsReused(len(finished), len(self.state.stage.shards)))
            self.backlog.begin(None if reach is None else reach.rows, len(self.state.stage.shards))
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
            self.state.stage.watermark.advance(time_ms)
            reach = self._look_ahead(frame) if self._tells_inputs_apart else None
            spec = streaming_epoch_of(self.state, self.state.stage, time_ms, reach, in_order=self._in_order)
            self._execute(phase, frame, spec, shards, reach)
            self.deliver()
            failpoint("epoch-applied")

    def fire_all(self, phase: Phase) -> None:
        """MAX_WATERMARK: fire every event-time timer and every open window."""
        if self.job.keeps_state and self.state.stage.shards_due(MAX_WATERMARK, MIN_WATERMARK):
            self.sorted_pass(phase, None, MAX_WATERMARK, at_end=True)

    def finish_operators(self, phase: Phase) -> None:
        """Call endInput() and finish() of the operator on every shard, if it has them; their rows are output.

        This is the last epoch: events that still wait go with it, those that the coordinator sends later go nowhere.
        """
        if not self.stage.operator.has_end_hooks and not self.events.waiting:
            return
        with self.turn:
            self.check_stopped()
            spec = last_epoch_of(self.state, self.state.stage, now_ms(), keep_state=self.job.keeps_state)
            self._execute(phase, None, spec)

    def tick(self, phase: Phase, upto_ms: int | None = None, *, idle: bool = False) -> bool:
        """Fire what is due without new rows (None: due now), and send out events that wait; True if it ran an epoch.

        Args:
            phase: the phase it belongs to.
            upto_ms: timers up to here, and no events.
            idle: nothing waits at the live inputs; if nothing is due, either, that counts as fired (Spark runs a
                micro-batch without data for it).
        """
        stage = self.state.stage
        stage.watermark.advance(now_ms())
        due = stage.shards_due(stage.watermark.current_ms, now_ms() if upto_ms is None else upto_ms)
        if upto_ms is None:
            due = sorted({*due, *self.events.waiting})
        if due:
            self.streaming_epoch(phase, None, due)
        elif idle:
            stage.watermark.fired(stage.watermark.current_ms)
        return bool(due)

    def send_events(self, phase: Phase) -> None:
        """Send out events that wait, if any do, in an epoch of their own."""
        with self.turn:
            if waiting := self.events.waiting:
                self.streaming_epoch(phase, None, waiting)

    def deliver(self) -> None:
        """Hand rows to a sink that shows them at once; all others wait for the checkpoint."""
        if self.job.sink.shows_at_once:
            started = time.monotonic()
            self.store.guard()
            self.job.sink.deliver(self.state.epoch, self.state.pending)
            self.listener.on(RowsDelivered(time.monotonic() - started))
            self.state.pending = []

    def _execute(
        self,
        phase: Phase,
        frame: DataFrame | None,
        spec: EpochSpec,
        shards: list[int] | None = None,
        reach: Reach | None = None,
        **options: Any,
    ) -> None:
        """Run an epoch's job, then apply what it has done."""
        started, stage = time.monotonic(), self.state.stage
        if reach is None and self._tells_inputs_apart:
            reach = self._look_ahead(frame)
        visited = list(range(len(stage.shards))) if frame is not None or shards is None else shards
        fires_all = set(visited).issuperset(stage.shards_due(spec.firing_watermark_ms, MIN_WATERMARK))
        inboxes = self.events.take(visited, stage, with_events=not phase.holds_events_back)
        try:
            with self._labelled(f"{phase.kind}, epoch {spec.epoch}"):
                reports = self.executors[stage.uid].execute(
                    frame, spec, stage.lineages, sorter=phase.sorter, shards=visited, inboxes=inboxes, **options
                )
            late = self._stage_late(frame, spec, reports)
            failpoint("epoch-before-apply")
        except BaseException:
            self.events.fail(visited)
            raise
        self.events.accept(reports)
        self.state.apply(spec.epoch, {stage.uid: reports}, late)
        self._move_watermark(stage, spec, reports, reach, time.monotonic() - started)
        if fires_all:
            stage.watermark.fired(spec.firing_watermark_ms)
        if not phase.holds_events_back:
            failpoint("events-before-hand-over")
            self.events.hand_over()
        elapsed_s = time.monotonic() - started
        self.applied()
        applied = epoch_applied(
            self.state,
            stage,
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
        timers, stage = self.job.settings.timers, self.stage
        return timers == "in-order" and stage.operator.has_timers and stage.event_time is not None

    @property
    def stage(self) -> StageSpec:
        """The stage that reads the sources."""
        return self.job.stages[0]

    # -- event time --------------------------------------------------------------------------------------------------

    @property
    def _tells_inputs_apart(self) -> bool:
        return self.stage.event_time is not None and len(self.job.live_inputs) > 1

    def _look_ahead(self, frame: DataFrame | None) -> Reach | None:
        """Rows and event times of an epoch, before it starts.

        ``observed`` must know the end of the backlog, and the tasks do not tell several inputs apart.
        """
        if frame is None:
            return None
        assert self.stage.event_time is not None
        with self._labelled("looking for the greatest event time"):
            return look_at(frame, self.stage.event_time, self.job.live_inputs)

    def _move_watermark(
        self, stage: StageState, spec: EpochSpec, reports: list[ShardReport], reach: Reach | None, elapsed_s: float
    ) -> None:
        """Take over how far an epoch's event times went."""
        watermark, time_ms = stage.watermark, now_ms()
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
        rows = self.stage.operator.late_rows(frame, spec)
        if rows is None:
            return []
        with self._labelled(f"late rows of epoch {spec.epoch}"):
            return self.job.late_rows.stage(rows, spec.epoch, spec.late_watermark_ms, dropped)
