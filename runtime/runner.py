"""Drives a job through the phases of its plan, on a thread of its own.

Invariants:
- Epochs, checkpoints and deliveries happen one at a time, under :attr:`JobRunner.turn`.
- ``JobState`` changes only after an epoch's Spark job has succeeded.
- The runner decides nothing about modes: it executes ``job.phases`` in order, and a phase that a recovered job has
  behind it is skipped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .checkpointer import Checkpointer, CheckpointReport
from .checkpoints.metadata import SourceState
from .checkpoints.scheduler import CheckpointScheduler
from .checkpoints.store import CheckpointStore
from .epochs import EpochExecutor
from .failpoints import failpoint
from .filesystem import resolve, uri
from .history import HistoryCut, cut, event_time_us
from .live import LiveSource, Stopped, delivers_one_batch
from .progress import BacklogProgress
from .recorder import Recorder
from .recovery import identify, recover
from .shard_task import ShardReport
from .spec import MAX_WATERMARK, MIN_WATERMARK, EpochSpec, JobSpec, Phase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: Longest nap of the live phase's clock between two looks at timers and checkpoints.
_CLOCK_NAP_S = 1.0


class JobRunner:
    """Executes one job from recovery to its end.

    Args:
        job: what to do.
        location: the checkpoint location (a temporary folder for sinks that allow none).
        run_id: id of this run; new with every start.
        recorder: takes progress records and lifecycle events.
    """

    def __init__(self, job: JobSpec, location: str, run_id: str, recorder: Recorder) -> None:
        self.job = job
        self.recorder = recorder
        self.run_id = run_id
        #: Held during an epoch, a checkpoint or a delivery.
        self.turn = threading.RLock()
        self.stopping = threading.Event()
        self.phase: Phase | None = None
        filesystem, path = resolve(location)
        self.store = CheckpointStore(filesystem, path)
        self.backlog = BacklogProgress(filesystem, f"{self.store.root}/progress")
        self._wake = threading.Event()
        self.live: LiveSource | None = None
        if job.live is not None:
            spark_checkpoint = uri(location, self.store.spark_location)
            self.live = LiveSource(job.live, spark_checkpoint, job.name, self.turn, self.stopping)

    # -- start and end -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Recover, then execute the phases; returns at the end of input or when stopped."""
        job, store = self.job, self.store
        identity = identify(job, store)
        job.sink.open(job.spark, store.filesystem, store.output, identity.job_id)
        recovered = recover(job, store, identity)
        self.state = recovered.state
        self.recovered = recovered.checkpoint
        if self.recovered is not None:
            self.recorder.event("restored", f"checkpoint {self.recovered.checkpoint_id}, epoch {self.state.epoch}")
        if self.state.finished:
            self.recorder.event("finished", "the job had reached its end in an earlier run")
            return
        settings = job.settings
        self.scheduler = CheckpointScheduler(
            interval_ms=settings.checkpoint_interval_ms,
            interval_during_backlog_ms=settings.interval_during_backlog_ms
            if settings.runtime_mode != "streaming"
            else settings.interval_during_backlog_ms or settings.checkpoint_interval_ms,
            min_pause_ms=settings.checkpoint_min_pause_ms,
            now_ms=_clock_ms(),
            sources=frozenset(self.state.sources),
        )
        for name, source in self.state.sources.items():
            self.scheduler.set_backlog(name, source.is_backlog and not source.finished, _clock_ms())
        self.checkpointer = Checkpointer(
            job, store, self.scheduler, self.state, self.run_id, with_state=self._keeps_state
        )
        output_filesystem, output_folder = job.sink.staging
        self.executor = EpochExecutor(
            spark=job.spark,
            operator=job.operator,
            settings=settings,
            job_id=identity.job_id,
            run_id=self.run_id,
            max_parallelism=identity.max_parallelism,
            state_filesystem=store.filesystem,
            state_pool=store.pool(job.operator.uid),
            output_filesystem=output_filesystem,
            output_folder=output_folder,
            progress_folder=self.backlog.folder,
        )
        phases: dict[str, Callable[[Phase], None]] = {
            "backlog": self._run_backlog,
            "history": self._run_history,
            "catch-up": self._run_catch_up,
            "switch": self._run_switch,
            "live": self._run_live,
            "finish": self._run_finish,
        }
        for phase in job.phases:
            if self.stopping.is_set():
                return
            self.phase = phase
            self.recorder.event("phase", phase.kind)
            failpoint(f"phase-{phase.kind}")
            phases[phase.kind](phase)

    def stop(self) -> None:
        """End the run: what the live phase has processed is checkpointed, an unfinished backlog leaves nothing."""
        self.stopping.set()
        self._wake.set()
        if self.phase is None or self.phase.kind != "live":
            self.job.spark.sparkContext.cancelJobsWithTag(self._tag)
            if self.live is not None:
                self.live.stop()

    @property
    def _tag(self) -> str:
        return f"mixedmode-{self.run_id}"

    # -- phases ------------------------------------------------------------------------------------------------------

    def _run_backlog(self, phase: Phase) -> None:
        """History and waiting live data as sorted passes over batch keyed state."""
        if self.recovered is not None and self._has_phase("live"):
            return  # the switch is behind us: what waits at the source is the stream's
        history = self._unread_history()
        final_ms = self._final_watermark
        if self.job.live is None or self.live is None:
            self._sorted_pass(phase, history, final_ms)
            return
        passes = 0
        one_batch = delivers_one_batch(self.job.live)

        def on_batch(batch: DataFrame, batch_id: int) -> None:
            nonlocal passes, history
            if batch_id <= self.state.batch_id:
                return
            frame = batch if history is None else history.unionByName(batch)
            self._sorted_pass(phase, frame, final_ms if one_batch else None)
            self.state.batch_id = batch_id
            history = None
            passes += 1

        self.live.drain(on_batch)
        if passes == 0 and (history is not None or self.state.epoch == 0):
            self._sorted_pass(phase, self._empty() if history is None else history, final_ms)
        elif passes and not one_batch:
            self._sorted_pass(phase, None, final_ms)

    def _run_history(self, phase: Phase) -> None:
        """Streaming mode: the history in slices, each an epoch of its own."""
        history = self._unread_history()
        if history is None:
            return
        position = self.state.sources["history"].position
        if position is None:
            where = cut(history, self.job.event_time, self.job.settings.history_rows_per_epoch)
        else:
            where = HistoryCut.from_json(position)
        while not where.done:
            with self.turn:
                self._check_stopped()
                self._streaming_epoch(phase, where.take(history, self.job.event_time))
                where = replace(where, next=where.next + 1)
                self.state.set_source("history", position=where.to_json())
                self._checkpoint_if_due()
        self._source_ended("history")

    def _run_catch_up(self, phase: Phase) -> None:
        """Streaming mode: what the live source holds at the start, with isBacklog still true."""
        if self.live is None or not self.state.sources["live"].is_backlog:
            return

        def on_batch(batch: DataFrame, batch_id: int) -> None:
            if batch_id > self.state.batch_id:
                self._streaming_epoch(phase, batch)
                self.state.batch_id = batch_id
                self._checkpoint_if_due()

        self.live.drain(on_batch)

    def _run_switch(self, phase: Phase) -> None:
        """isBacklog turns false: rows become visible, and under interval 0 a checkpoint is taken at once."""
        with self.turn:
            if not self.state.is_backlog and self._has_phase("live"):
                return
            for name in self.state.sources:
                self.state.set_source(name, is_backlog=False, finished=name == "history")
                self.scheduler.set_backlog(name, False, _clock_ms())
            if not self._has_phase("live"):
                self.scheduler.request()  # nothing comes after the switch: this is the last chance
            self.recorder.event("switch", f"epoch {self.state.epoch}: isBacklog=false")
            self._deliver(phase)
            self._checkpoint_if_due("switch")

    def _run_live(self, phase: Phase) -> None:
        """Micro-batches until the query is stopped; a clock of our own fires timers and checkpoints in between."""
        live = self.live
        assert live is not None
        query = live.start(self._on_live_batch(phase), self.job.trigger or {"processingTime": "0 seconds"})
        try:
            while query.isActive and not self.stopping.is_set():
                self._wake.wait(self._nap_s())
                self._wake.clear()
                with self.turn:
                    if not self.stopping.is_set() and not live.failed:
                        self.tick(phase)
                        self._checkpoint_if_due()
        finally:
            # The epoch in hand is finished first; a micro-batch that still waits for its turn is refused.
            with self.turn:
                live.stop()
        live.raise_failure()
        with self.turn:
            if self.state.pending or self.state.epoch > self._checkpointed_epoch:
                self._checkpoint("stop")

    def _run_finish(self, phase: Phase) -> None:
        """End of input: MAX_WATERMARK fires what is left, the final checkpoint commits the last rows."""
        with self.turn:
            self._check_stopped()
            self.state.watermark.end_of_input()
            self.recorder.event("MAX_WATERMARK", "all sources have ended")
            if self._keeps_state and self.state.shards_due(MAX_WATERMARK, MIN_WATERMARK):
                self._sorted_pass(phase, None, MAX_WATERMARK)
            for name in self.state.sources:
                self.state.set_source(name, is_backlog=False, finished=True)
                self.scheduler.source_ended(name, _clock_ms())
            self.state.finished = True
            self._deliver(phase)
            self._checkpoint("end of input")
            self.recorder.event("finished", f"checkpoint {self.state.checkpoint_id}")

    # -- epochs ------------------------------------------------------------------------------------------------------

    def _sorted_pass(self, phase: Phase, frame: DataFrame | None, final_ms: int | None) -> None:
        """One epoch over batch keyed state, keys in order.

        Args:
            phase: the phase it belongs to.
            frame: its rows; None for a pass that only fires timers.
            final_ms: final watermark of the keys; None: more of the backlog follows, nothing fires yet;
                MIN_WATERMARK with ``observed``: found out here.
        """
        with self.turn:
            self._check_stopped()
            observed = final_ms == MIN_WATERMARK
            watermark = self.state.watermark
            reach_ms, total = (None, None)
            if frame is not None and observed and self.job.operator.uses_event_time:
                reach_ms, total = self._look_ahead(frame)
            firing_ms = MIN_WATERMARK if final_ms is None else watermark.would_reach(reach_ms) if observed else final_ms
            catching_up = self.phase is not None and self.phase.kind == "live"
            now_ms = _now_ms()
            spec = EpochSpec(
                epoch=self.state.epoch + 1,
                style="sorted",
                watermark_ms=MIN_WATERMARK,
                firing_watermark_ms=firing_ms,
                late_watermark_ms=watermark.current_ms if catching_up else MIN_WATERMARK,
                processing_time_ms=now_ms,
                processing_timers_upto_ms=MIN_WATERMARK if self._keeps_state else MAX_WATERMARK,
                keep_state=self._keeps_state,
                ignore_new_timers=firing_ms == MAX_WATERMARK,
                first=self.state.epoch == 0,
            )
            self.backlog.begin(total, len(self.state.shards))
            try:
                self._execute(phase, frame, spec)
            finally:
                self.backlog.end()
            failpoint("backlog-epoch-applied")

    def _streaming_epoch(self, phase: Phase, frame: DataFrame | None, shards: list[int] | None = None) -> None:
        """One epoch over RocksDB state: rows, then what is due by the watermark so far."""
        with self.turn:
            self._check_stopped()
            watermark_ms, now_ms = self.state.watermark.current_ms, _now_ms()
            spec = EpochSpec(
                epoch=self.state.epoch + 1,
                style="random",
                watermark_ms=watermark_ms,
                firing_watermark_ms=watermark_ms,
                late_watermark_ms=watermark_ms,
                processing_time_ms=now_ms,
                processing_timers_upto_ms=now_ms,
                first=self.state.epoch == 0,
            )
            self._execute(phase, frame, spec, shards)
            self._deliver(phase)
            failpoint("epoch-applied")

    def _execute(
        self, phase: Phase, frame: DataFrame | None, spec: EpochSpec, shards: list[int] | None = None
    ) -> list[ShardReport]:
        context = self.job.spark.sparkContext
        label = f"{self.job.name or 'mixedmode'}: {phase.kind} epoch {spec.epoch}"
        started = time.monotonic()
        context.addJobTag(self._tag)
        context.setJobDescription(label)
        try:
            reports = self.executor.execute(frame, spec, self.state.lineages, sorter=phase.sorter, shards=shards)
        finally:
            context.removeJobTag(self._tag)
            context.setJobDescription(None)  # type: ignore[arg-type]
        failpoint("epoch-before-apply")
        self.state.apply(spec.epoch, reports, keep_output=True)
        self.recorder.epoch(self, phase, spec, reports, time.monotonic() - started)
        return reports

    def _look_ahead(self, frame: DataFrame) -> tuple[int | None, int]:
        """Greatest event time (ms) and number of rows of a backlog: ``observed`` must know the end before it starts."""
        assert self.job.event_time is not None
        row = frame.agg(F.max(event_time_us(frame, self.job.event_time)), F.count("*")).first()
        assert row is not None
        return None if row[0] is None else row[0] // 1000, row[1]

    def tick(self, phase: Phase | None = None) -> bool:
        """Fire what is due without new rows; True if something was."""
        due = self.state.shards_due(self.state.watermark.current_ms, _now_ms())
        if not due:
            return False
        phase = phase or self.phase
        assert phase is not None
        self._streaming_epoch(phase, None, due)
        return True

    def _on_live_batch(self, phase: Phase) -> Callable[[DataFrame, int], None]:
        def on_batch(batch: DataFrame, batch_id: int) -> None:
            if batch_id <= self.state.batch_id:
                return
            self._note_lag()
            if self.state.sources["live"].is_backlog and self._backlog_is_sorted:
                self._sorted_pass(phase, batch, MIN_WATERMARK)
                self._deliver(phase)
            else:
                self._streaming_epoch(phase, batch)
            self.state.batch_id = batch_id
            self._note_lag()
            self._checkpoint_if_due()
            self._wake.set()

        return on_batch

    def _note_lag(self) -> None:
        """isBacklog by watermark lag (FLIP-328), evaluated when the watermark may have moved."""
        if self.job.settings.watermark_lag_threshold_ms is None:
            return
        is_backlog = self.state.watermark.is_backlog(_now_ms())
        if is_backlog != self.state.sources["live"].is_backlog:
            self.recorder.event("switch", f"epoch {self.state.epoch}: live isBacklog={str(is_backlog).lower()} by lag")
            self.state.set_source("live", is_backlog=is_backlog)
            self.scheduler.set_backlog("live", is_backlog, _clock_ms())

    # -- checkpoints and delivery ------------------------------------------------------------------------------------

    _checkpointed_epoch = 0

    def _checkpoint_if_due(self, trigger: str = "interval") -> None:
        if self.scheduler.due(_clock_ms()):
            self._checkpoint("requested" if trigger == "interval" and self.scheduler.immediate else trigger)

    def _checkpoint(self, trigger: str) -> CheckpointReport | None:
        report = self.checkpointer.take(trigger, _clock_ms())
        if report is not None:
            self._checkpointed_epoch = self.state.epoch
            self.recorder.checkpoint(report)
        return report

    def commit_now(self) -> None:
        """Make everything processed so far visible (processAllAvailable)."""
        with self.turn:
            while self.tick():
                pass
            if self.state.pending or self.state.epoch > self._checkpointed_epoch:
                self._checkpoint("requested")

    def _deliver(self, phase: Phase) -> None:
        """Hand rows to an at-least-once sink; exactly-once sinks wait for the checkpoint."""
        if self.job.sink.guarantee == "at-least-once":
            self.job.sink.deliver(self.state.epoch, self.state.pending)
            self.state.pending = []

    # -- small things ------------------------------------------------------------------------------------------------

    def _check_stopped(self) -> None:
        if self.stopping.is_set():
            raise Stopped

    def _has_phase(self, kind: str) -> bool:
        return any(phase.kind == kind for phase in self.job.phases)

    @property
    def _keeps_state(self) -> bool:
        """False in batch mode, where the state of a key is forgotten at its end."""
        return self.job.settings.runtime_mode != "batch"

    @property
    def _backlog_is_sorted(self) -> bool:
        return any(phase.kind == "backlog" for phase in self.job.phases)

    @property
    def _final_watermark(self) -> int:
        """MAX, or MIN_WATERMARK as the request to find out the observed one."""
        if self._has_phase("finish"):
            return MAX_WATERMARK
        if self.recovered is not None or self.job.settings.final_watermark == "observed":
            return MIN_WATERMARK
        return MAX_WATERMARK

    def _unread_history(self) -> DataFrame | None:
        source: SourceState | None = self.state.sources.get("history")
        return None if source is None or source.finished else self.job.history

    def _source_ended(self, name: str) -> None:
        self.state.set_source(name, is_backlog=False, finished=True)
        self.scheduler.source_ended(name, _clock_ms())

    def _empty(self) -> DataFrame:
        frame = self.job.history if self.job.history is not None else self.job.live
        assert frame is not None
        return self.job.spark.createDataFrame([], frame.schema)

    def _nap_s(self) -> float:
        with self.turn:
            wakes = [self.scheduler.next_trigger_ms()]
            naps = [(wake - _clock_ms()) / 1000 for wake in wakes if wake is not None]
            timer_ms = self.state.next_processing_timer_ms()
            if timer_ms is not None:
                naps.append((timer_ms - _now_ms()) / 1000)
        return max(0.01, min([_CLOCK_NAP_S, *naps]))


def _clock_ms() -> int:
    """Monotonic clock of the checkpoint scheduler."""
    return round(time.monotonic() * 1000)


def _now_ms() -> int:
    """Wall clock: processing time."""
    return round(time.time() * 1000)
