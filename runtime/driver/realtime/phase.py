"""The live phase in Spark's Real-Time Mode: a batch of Spark's query is an epoch, and its shards output rows at once.

1. The driver makes a folder for the run, and in it Spark's log with the committed position.
2. It starts the query, and writes the order of the first epoch.  Shards process rows as they arrive, and send what
   comes of them.
3. When Spark says that a batch has succeeded, and the reports of all shards are whole (:mod:`.epoch_check`), the epoch
   is applied and a checkpoint is taken, as behind an epoch of micro-batches.  That is the commit: ``_metadata`` names
   the shards' files and the position, and the lease keeps older drivers from writing one.
4. The order of the next epoch is written.  Its shards have been waiting for it.

What ends the query within an epoch, or keeps an epoch from being committed, costs that epoch: its messages may be in
the output, and the next query begins where the last commit is: another one of this driver's, or that of the next run,
in Real-Time Mode or with micro-batches.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from ....errors import MixedModeError, PlanError, QueryError
from ...catalyst.spark_cluster import most_task_failures
from ...catalyst.spark_plans import analyzed, frame_of
from ...checkpoints.metadata import SparkPosition
from ...jobs.realtime.live_rows import LiveRows, NotLiveRows
from ...jobs.stage_epoch import StageEpoch, StageResult
from ...jvm.job_cancellation import is_stopped
from ...metrics.events.events import RealTimeProgressed
from ...operators.contract import EpochSpec
from ...storage.spark_paths import spark_uri
from ...support.failpoints import failpoint
from ...support.ids import NO_BATCH, BatchId, EpochNumber
from ...tasks.realtime.change_segments import SegmentPolicy
from ...tasks.realtime.latency_histogram import EpochProgress
from ...tasks.realtime.realtime_task import RealTimeTask
from ...tasks.realtime.run_folder import (
    EpochOrder,
    RealTimeReport,
    RunFolder,
    remove_other_runs,
    run_folder,
    runs_folder,
)
from ..clocks import now_ms
from ..epochs.epoch_specs import streaming_epoch_of
from ..epochs.stage_runs import StageRequest
from ..run.idle_wait import wait_until_due
from ..run.running_job import RunningJob
from ..run.shutdown import Ending
from .epoch_check import check_whole
from .epoch_watch import EpochWatch, latencies_of, summed_up
from .live_input import live_rows
from .live_output import live_messages, live_output
from .output_waits import OutputWaits
from .realtime_query import BatchEnd, RealTimeQuery, SourcePosition, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...spec import Phase, StageSpec
    from ..state.stage_state import StageState

logger = logging.getLogger(__name__)

#: How often the driver looks for reports, and for what Spark says behind them.
_LOOK_EVERY_S, _ASK_EVERY_S = 0.02, 0.005
#: Cancelled tasks hold their slots for some seconds: so long, and so often, the first epoch asks for slots.
_SLOTS_WITHIN_S, _SLOTS_EVERY_S = 60.0, 1.0
#: When shards write what they change.
SEGMENTS = SegmentPolicy()
#: More queries than a run ever has.
_MOST_ATTEMPTS = 1_000_000
#: The trigger of its checkpoints.
_TRIGGER = "end of a real-time epoch"
_NOT_NOW = "the query is in Real-Time Mode, where its Spark query holds the shards; stop it, and start it again"


def run_real_time(run: RunningJob, ending: Ending, phase: Phase) -> None:
    """Epochs in Real-Time Mode until the query is stopped.

    Spark ends a query in this mode when one of its tasks fails.  A new query begins where the last commit is, as often
    as Spark would have tried that task for a micro-batch: an epoch fails for good as often in a row.
    """
    most, failures = most_task_failures(run.job.spark), 0
    for attempt in count():
        real_time = _attempt(run, ending, phase, attempt)
        try:
            real_time.perform()
            return
        except EpochFailed as failed:
            failures = 1 if real_time.has_committed else failures + 1
            if failures >= most:
                raise failed.error from failed.error.__cause__
            logger.warning(
                "%s: epoch %d in Real-Time Mode has failed (%d of %d times, spark.task.maxFailures) and begins again"
                " behind the last checkpoint: %s",
                run.job.name or "the query",
                run.state.epoch + 1,
                failures,
                most,
                failed.error,
            )


def _attempt(run: RunningJob, ending: Ending, phase: Phase, attempt: int) -> RealTimePhase:
    """The phase with a query, a token and a folder that no other has; what older ones still say goes nowhere."""
    context, live = run.context, run.job.live
    assert live is not None and phase.real_time_ms is not None, "the plan has such a phase for a live source"
    store = context.store
    folder = run_folder(store.filesystem, store.home, f"{context.run_id}-{attempt}")
    folder.make()
    remove_other_runs(store.filesystem, runs_folder(store.home), os.path.basename(folder.path))
    uri = spark_uri(run.job.spark, store.location, f"{folder.path}/spark")
    query = RealTimeQuery(live.sparkSession, uri, run.job.name, phase.real_time_ms)
    return RealTimePhase(run, ending, phase, folder, query, attempt)


class EpochFailed(Exception):
    """An epoch has failed by itself: it may begin again.

    Args:
        error: why.
    """

    def __init__(self, error: MixedModeError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class RealTimePhase:
    """Commits epochs, one after the other.

    Args:
        run: the run.
        ending: takes savepoints.
        phase: the phase.
        folder: what the driver and the shards tell each other.
        query: Spark's.
        attempt: how many queries the run has had before.
    """

    run: RunningJob
    ending: Ending
    phase: Phase
    folder: RunFolder
    query: RealTimeQuery
    attempt: int
    #: Whether an epoch of this attempt is committed.
    has_committed: bool = field(init=False, default=False)
    #: What is committed; None: the source has not begun.
    _position: SourcePosition | None = field(init=False, default=None)
    #: The batch in hand, and what its shards are told.
    _batch: BatchId = field(init=False, default=NO_BATCH)
    _spec: EpochSpec | None = field(init=False, default=None)
    _began_s: float = field(init=False, default=0.0)
    #: The rows of the stage.
    _rows: LiveRows = field(init=False)
    #: Until when an epoch may find too few slots.
    _slots_until_s: float = field(init=False, default=0.0)
    #: Tells how far the epoch in hand is.
    _watch: EpochWatch = field(init=False)
    #: Who waits for output.
    _output_waits: OutputWaits = field(init=False)

    def __post_init__(self) -> None:
        self._output_waits = OutputWaits(self.run.job, self.run.context.commits)

    def _tell(self, progress: RealTimeProgressed) -> None:
        """Have everybody who looks or listens know how far the epoch in hand is."""
        context = self.run.context
        context.published.real_time = progress
        context.listener.on(progress)

    def perform(self) -> None:
        """Commit epochs until the query is stopped.

        Raises:
            EpochFailed: the query has ended by itself, or an epoch is not whole.
        """
        self._watch = EpochWatch(self.folder, len(self._stage[1].shards), self._tell)
        try:
            with self._watch.running():
                with self.run.context.turn:
                    self._begin()
                self._go_on()
        finally:
            self.run.context.published.real_time = None
            self.query.stop()
            self.query.close()

    def _begin(self) -> None:
        """Start the query where the last commit is, and have its first epoch begin."""
        run, store = self.run, self.run.context.store
        run.checkpoints.wait()
        stage, held = self._stage
        held.watermark.watch(now_ms(), stage.delays_ms)
        position, batch = _committed(run)
        self._position = position
        if position is not None:
            write_log(store.filesystem, f"{self.folder.path}/spark", batch, position)
        try:
            self._rows = live_rows(run.job, held.max_parallelism)
        except NotLiveRows as why:
            raise PlanError(f"trigger(realTime=…) is not supported for this job: {why}") from why
        self._slots_until_s = time.monotonic() + _SLOTS_WITHIN_S
        self._start()
        failpoint("realtime-query-started")
        self._order(BatchId(batch + 1))

    def _start(self) -> None:
        shards = len(self._stage[1].shards)

        def in_shards(session: SparkSession) -> DataFrame:
            return frame_of(session, analyzed(self._rows.in_shards(shards)))

        self.query.start(in_shards, self._task(self._rows))

    def _start_again(self) -> None:
        """Start a query again that has found too few slots before its first epoch.

        Raises:
            EpochFailed: it has ended otherwise.
            QueryError: there are too few slots after all, or the application is over.
        """
        lacks_slots = self.query.lacks_slots
        if is_stopped(self.run.job.spark) or (lacks_slots and time.monotonic() >= self._slots_until_s):
            raise self.query.failure
        if not lacks_slots:
            raise EpochFailed(self.query.failure)
        logger.info("%s waits for task slots", self.run.job.name or "the query")
        self.run.context.wake.wait(_SLOTS_EVERY_S)
        self._start()

    def _go_on(self) -> None:
        """Commit what is whole, until the query is stopped or fails."""
        context = self.run.context
        shards = len(self._stage[1].shards)
        while not context.stopping.is_set() and context.savepoints.ready_stop() is None:
            if not self.query.is_active:
                self._start_again()
            with context.turn:
                self._look()
            if self.folder.has_reports(self._batch, shards):
                self._commit_when_succeeded(shards)
            context.wake.wait(_LOOK_EVERY_S)
            context.wake.clear()

    def _commit_when_succeeded(self, shards: int) -> None:
        """Wait for Spark's word on a batch of which all shards have reported, and commit it."""
        context = self.run.context
        while (told := self.query.succeeded(self._batch)) is None:
            if context.stopping.is_set() or context.savepoints.ready_stop() is not None or not self.query.is_active:
                return
            time.sleep(_ASK_EVERY_S)
        reports = self.folder.reports(self._batch, shards)
        failpoint("realtime-before-check")
        try:
            check_whole(self._batch, self._position, told, reports)
        except QueryError as error:
            raise EpochFailed(error) from error
        with context.turn:
            if not context.stopping.is_set():
                self._commit(told, reports)

    def _commit(self, told: BatchEnd, shards: list[RealTimeReport]) -> None:
        run, state, batch = self.run, self.run.state, self._batch
        assert self._spec is not None, "the batch has had its order"
        failpoint("realtime-before-commit")
        self._watch.end()
        moved = self._position is None or told.end.offsets != self._position.offsets
        state.spark = SparkPosition(batch_id=batch, offset_entry=told.end.entry(state.spark))
        state.batch_id, self._position = batch, told.end
        stage, graph = self._stage[0], run.epochs.graph
        reports, progress = [one.report for one in shards], summed_up(one.progress for one in shards)
        done = graph.times.stage_run(stage, StageRequest(self._spec), StageResult(reports), {})
        graph.apply(self.phase, self._spec, {stage.uid: done}, [], self._began_s, latencies_of(progress.latencies))
        if moved or state.changed_epoch == state.epoch:
            while run.checkpoints.checkpoint(_TRIGGER) is None:
                wait_until_due(run)  # many failures in a row are not tolerated
                if run.context.savepoints.ready_stop() is not None:
                    return
        failpoint("realtime-committed")
        self._slots_until_s, self.has_committed = 0.0, True
        self._output_waits.grant(told.end.offsets)
        self.ending.serve(self.phase)
        self._order(BatchId(batch + 1), progress)
        self.folder.forget(batch, len(shards))

    def _look(self) -> None:
        """What the driver does between two commits."""
        run, context = self.run, self.run.context
        context.lease.check()
        run.checkpoints.look()
        run.events.check()
        if context.pause.is_wanted:
            context.pause.refuse(_NOT_NOW)
        if not context.rescales.is_idle:
            context.rescales.begin()
            context.rescales.refuse_begun(_NOT_NOW)

    def _order(self, batch: BatchId, before: EpochProgress | None = None) -> None:
        """Have an epoch begin, perhaps behind another one."""
        run, self._batch = self.run, batch
        stage, held = self._stage
        held.watermark.advance(now_ms())
        in_order = run.epochs.graph.times.in_order(stage)
        self._spec = streaming_epoch_of(run.state, held, now_ms(), None, in_order=in_order, has_input=True)
        self._began_s = time.monotonic()
        self.folder.write_order(batch, EpochOrder(self._spec, tuple(held.manifests)))
        self._watch.begin(batch, self._spec.epoch, before)
        self._output_waits.note()

    def _task(self, rows: LiveRows) -> RealTimeTask:
        run = self.run
        stage, held = self._stage
        spec = streaming_epoch_of(run.state, held, now_ms(), None, in_order=False, has_input=True)
        shard_task = run.executors[stage.uid].task(StageEpoch(spec, held.manifests), ())
        return RealTimeTask(
            run_id=run.context.run_id,
            folder=self.folder,
            operator=shard_task.operator,
            states=shard_task.states.emptied(),
            rows=rows.portions,
            output=live_output(run.job),
            messages=live_messages(run.job.sink, run.job.spark, self._number, EpochNumber(run.state.epoch + 1)),
            segments=SEGMENTS,
        )

    @property
    def _number(self) -> int:
        """Greater than those of all attempts before, of this run and of others."""
        claim = self.run.context.lease.claim
        assert claim is not None, "the run has claimed its location"
        return claim.generation * _MOST_ATTEMPTS + self.attempt

    @property
    def _stage(self) -> tuple[StageSpec, StageState]:
        (stage,) = self.run.job.stages
        return stage, self.run.state.stages[stage.uid]


def _committed(run: RunningJob) -> tuple[SourcePosition | None, BatchId]:
    """Where the source stands behind the last commit, and the batch that it is behind."""
    state, log = run.state, run.context.store.spark_log
    known = state.spark
    if known is None and state.batch_id >= 0:
        known = log.position(state.batch_id)
    if known is not None:
        return SourcePosition.of(known.offset_entry.splitlines()[2]), known.batch_id
    first = log.first_offset(0)
    return (None, NO_BATCH) if first is None else (SourcePosition.of(first), BatchId(0))
