"""Takes checkpoints: the one place where a checkpoint happens, from its trigger to the news of how it went.

1. :mod:`.checkpoint_cut`, under the turn: every task takes part, the gateways of the coordinators close, and all that
   the checkpoint holds is frozen.
2. :class:`~.async_checkpoint.PendingCheckpoint`, beside the epochs: ``_metadata`` is written.  From here on it counts;
   what fails before may be tolerated, and leaves everything as it was.  Gateways open, the sink commits.
3. Under the turn again, between two epochs: the job's state, its tasks and its users learn how it went.
4. :class:`~.housekeeping.Housekeeping`, beside the epochs and the next checkpoints: older checkpoints and files that
   nothing names are removed, and state files compacted.

A cut needs no task and copies no state: the files that the epochs wrote are already in the pool, so it is the list of
them.  One checkpoint is in flight at a time.  Whoever needs one that is complete waits for that one first, and
completes his own within his turn (:meth:`~CheckpointCoordinator.checkpoint`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from ....errors import CheckpointError
from ...checkpoints.corruption import explain_corruption
from ...checkpoints.lease.driver_lease import LocationLost
from ...checkpoints.metadata import CheckpointMetadata, DueSavepoint
from ...connectors.sources.live_query import Stopped
from ...jvm.spark_errors import what_happened
from ...metrics.events.events import CheckpointCompleted, CheckpointFailed
from ...metrics.events.facts import checkpoint_failed
from ...protocols.checkpoint_scheduler import CheckpointScheduler
from ...protocols.lifecycle.work import TaskWorker
from ...support.failpoints import failpoint
from ...support.ids import NO_CHECKPOINT, CheckpointId, EpochNumber
from ..clocks import clock_ms
from ..state.job_state import CheckpointCause, CheckpointSnapshot, JobState
from .async_checkpoint import CheckpointAbandoned, CheckpointServices, PendingCheckpoint
from .checkpoint_cut import Declined, frozen_state, take_part
from .checkpoint_reports import CheckpointReports
from .checkpoint_thread import wait_unless_given_up
from .housekeeping import Housekeeping

logger = logging.getLogger(__name__)


@dataclass
class CheckpointCoordinator:
    """Runs the checkpoint protocol for one job; every method is called under the turn of its run.

    Args:
        services: whom the completion of a checkpoint asks.
        scheduler: says when they are due.
        state: what they are taken of.
        tasks: the lifecycle of the job's tasks, and the work that it asks for.
        stage_result: has all of the result staged, where each checkpoint shows all of it.
        beside: has something done beside the epochs; whatever goes wrong in there is kept by it.
        housekeeping: tidies up behind those that are complete.
        on_completed: called with the report of each one that is complete.
        on_failed: called with each one that has come to nothing.
        beside_and_wait: as ``beside``, and returns when it is done.
    """

    services: CheckpointServices
    scheduler: CheckpointScheduler
    state: JobState
    tasks: TaskWorker
    stage_result: Callable[[], None]
    beside: Callable[[Callable[[], None]], None]
    housekeeping: Housekeeping
    on_completed: Callable[[CheckpointCompleted], None]
    on_failed: Callable[[CheckpointFailed], None]
    beside_and_wait: Callable[[Callable[[], None]], None] = lambda work: work()
    #: The last checkpoint that this run has completed.
    last: CheckpointMetadata | None = None
    _attempted_id: CheckpointId = NO_CHECKPOINT
    _failures: int = 0
    #: What is being completed beside the epochs; None: nothing is.
    _in_flight: PendingCheckpoint | None = None
    #: Last epoch that is in a checkpoint.
    _epoch: EpochNumber = field(init=False)
    #: How many shards each stage has in it.
    _shards: Mapping[str, int] = field(init=False)
    _reports: CheckpointReports = field(init=False)

    def __post_init__(self) -> None:
        self._epoch, self._shards = self.state.epoch, self.state.parallelism
        self._reports = CheckpointReports(self.state)

    # -- when --------------------------------------------------------------------------------------------------------

    def checkpoint_if_due(self, trigger: str = "interval", *, wait: bool = False) -> None:
        """Take over what was completed, and take a checkpoint if the scheduler says so.

        A periodic one that would hold nothing new is left out: copies of the last checkpoint would push out the older
        ones, which are the way back from damaged state.

        Args:
            trigger: why one is taken.
            wait: return when it is complete, for what depends on it; False: it is completed beside what comes next.
        """
        if wait:
            self.wait()
        else:
            self.look()
        if not self.scheduler.due(clock_ms(), changed=self.has_change):
            return
        if not self.scheduler.immediate and not self._has_news:
            self.scheduler.triggered(clock_ms())
        elif wait:
            self.checkpoint(trigger)
        elif (begun := self._begin(CheckpointCause(trigger))) is not None:
            self._go_on_beside(begun)

    def keep_up(self) -> None:
        """Wait for the checkpoint in flight if too many epochs have been processed since it was cut.

        Raises:
            CheckpointError: as of :meth:`look`.
        """
        self.look()
        one, most = self._in_flight, self.services.job.settings.max_pending_epochs
        if one is not None and self.state.epoch - one.cut.epoch >= most:
            self.wait()

    def checkpoint_if_behind(self, trigger: str, *, when_due: bool = False) -> bool:
        """Have all that was processed in a complete checkpoint; False if that failed tolerably.

        Args:
            trigger: why.
            when_due: after one that has failed, wait until the scheduler says that the next is due (False until then):
                for whoever asks with every step, which would use up the tolerated failures within seconds.
        """
        self.wait()
        if not self._has_news:
            return True
        if when_due and self._failures and not self.scheduler.due(clock_ms()):
            return False
        return self.checkpoint(trigger) is not None

    def checkpoint_beside(self, trigger: str) -> None:
        """Take a checkpoint now, and complete it beside what comes next; :meth:`look` tells how it went.

        One that is in flight is waited for.

        Args:
            trigger: why.

        Raises:
            CheckpointError: as of :meth:`checkpoint`.
        """
        self.wait()
        begun = self._begin(CheckpointCause(trigger))
        if begun is not None:
            self._go_on_beside(begun)

    def beside_if_behind(self, trigger: str) -> CheckpointId | None:
        """As :meth:`checkpoint_beside`, if none is in flight and one would hold anything new.

        Args:
            trigger: why.

        Returns:
            The id of the one that is in flight, or would be had it not failed tolerably; None: there is nothing new.

        Raises:
            CheckpointError: as of :meth:`checkpoint`.
        """
        if self._in_flight is not None or not self._has_news:
            return self.in_flight
        number = self.next_id
        self.checkpoint_beside(trigger)
        return number

    @property
    def has_change(self) -> bool:
        """Whether state, output or shards have changed since the last checkpoint, for which ``auto`` takes one."""
        return self.state.changed_epoch > self._epoch or self.state.parallelism != self._shards

    @property
    def _has_news(self) -> bool:
        """Whether a checkpoint would hold anything that the last one does not; none is in flight."""
        if self.state.parallelism != self._shards:  # without it a restart would find the shards that there were
            return True
        return bool(self.state.pending) or self.state.epoch > self._epoch or self.services.events.has_news

    @property
    def next_id(self) -> CheckpointId:
        """Id of the next checkpoint; that of one which failed is not used again."""
        return CheckpointId(max(self.state.checkpoint_id, self._attempted_id) + 1)

    # -- what --------------------------------------------------------------------------------------------------------

    def checkpoint(
        self, trigger: str, *, close: bool = True, drained: bool = False, savepoint: DueSavepoint | None = None
    ) -> CheckpointCompleted | None:
        """Take a checkpoint now, and complete it; None if it failed within the tolerated number of failures.

        One that is in flight is waited for.

        Args:
            trigger: why.
            close: let tasks close that have waited for it; False: the caller does.
            drained: whether a drain ends with it.
            savepoint: the savepoint that must not be missing if the checkpoint is there; the caller makes it, or else
                the next run.

        Raises:
            CheckpointError: more consecutive checkpoints failed than
                ``execution.checkpointing.tolerable-failed-checkpoints`` allows, or another driver has taken over.
        """
        self.wait()
        begun = self._begin(CheckpointCause(trigger, drained, savepoint))
        if begun is None:
            return None
        self.beside_and_wait(begun.work)
        return self._take_over(begun, close=close)

    def _begin(self, cause: CheckpointCause) -> PendingCheckpoint | None:
        """Cut; None if that failed tolerably."""
        number = self.next_id
        self._attempted_id = number
        self.scheduler.began(clock_ms())
        try:
            return PendingCheckpoint(self._cut(number, cause), self.services)
        except Exception as failure:
            self._failed(number, cause.trigger, failure)
            return None

    def _cut(self, number: CheckpointId, cause: CheckpointCause) -> CheckpointSnapshot:
        """Have every task take part, and freeze what the checkpoint holds."""
        take_part(self.tasks.lifecycle, number)
        failpoint("checkpoint-start")
        if self.state.epoch > self._epoch and not self.services.job.sink.shows_at_once:
            self.stage_result()
        return frozen_state(self.services, self.state, self.tasks.lifecycle, number, cause)

    # -- beside the epochs -------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> CheckpointId | None:
        """The id of the checkpoint that is being completed beside the epochs; None: there is none."""
        return None if self._in_flight is None else self._in_flight.cut.number

    def look(self) -> None:
        """Take over what was completed beside the epochs since somebody looked.

        Raises:
            CheckpointError: as of :meth:`checkpoint`, of the one that was in flight; or of
                :meth:`.housekeeping.Housekeeping.look`.
        """
        self.housekeeping.look()
        one = self._in_flight
        if one is not None and one.at_rest.is_set():
            self._in_flight = None
            self._take_over(one, close=True)

    def wait(self) -> None:
        """Return when no checkpoint is in flight; one that fails tolerably has been told.

        Raises:
            CheckpointError: as of :meth:`look`.
            Stopped: the run was given up.
        """
        while self._in_flight is not None:
            wait_unless_given_up(self._in_flight.at_rest, self.services.given_up)
            self.look()

    def _go_on_beside(self, one: PendingCheckpoint) -> None:
        self._in_flight = one
        one.at_rest.clear()
        self.beside(one.work)

    def give_up(self) -> None:
        """The run ends, because it has failed: a checkpoint in flight that is there is completed, another is not.

        Nothing is raised of what happens to it: that is not why the run ends.
        """
        self.services.failed.set()
        with suppress(Exception):  # where Spark is gone there is nothing to cancel
            self.services.compactor.give_up()
        self.housekeeping.give_up()
        one, self._in_flight = self._in_flight, None
        if one is None:
            return
        try:
            wait_unless_given_up(one.at_rest, self.services.given_up)
        except Stopped:
            return  # a user's function has it, and the next start goes on from what is there by then
        if one.metadata is not None and one.failure is None:
            self._take_over(one, close=False)
        elif one.metadata is None:
            why = one.failure or CheckpointAbandoned("the query has failed")
            self._abort(one.cut.number)
            self.scheduler.ended_checkpoint(clock_ms(), failed=True)
            self.on_failed(checkpoint_failed(one.cut.number, one.cut.cause.trigger, "aborted", why))

    def _take_over(self, one: PendingCheckpoint, *, close: bool) -> CheckpointCompleted | None:
        """Have the job's state, tasks and users learn how a checkpoint went; None: it has failed tolerably.

        Raises:
            CheckpointError: it was one failure too many, or the checkpoint is there and could not be completed.
        """
        cut, lifecycle = one.cut, self.tasks.lifecycle
        if one.metadata is None:
            assert one.failure is not None, "it is there, or something has failed"
            if isinstance(one.failure, LocationLost):  # what others have taken over is not this run's to tolerate
                self.on_failed(checkpoint_failed(cut.number, cut.cause.trigger, "aborted", one.failure))
            if isinstance(one.failure, LocationLost) or not isinstance(one.failure, Exception):
                raise one.failure
            self._failed(cut.number, cut.cause.trigger, one.failure)
            return None
        self._failures, self.last, self._epoch = 0, one.metadata, cut.epoch
        self._shards = {stage.uid: len(stage.shards) for stage in cut.stages}
        self.state.complete(cut)
        if one.failure is not None:
            raise one.failure
        if lifecycle.checkpointing:
            lifecycle.completed(cut.number)
            for commit in self.tasks.commits():  # which is done: the sink has shown it
                assert commit.up_to == cut.number, "one checkpoint at a time"
        self.scheduler.ended_checkpoint(clock_ms())
        report = self._reports.of(one)
        self.on_completed(report)
        self.housekeeping.follow(cut)
        if close:
            self.tasks.run()
        return report

    def _abort(self, number: CheckpointId) -> None:
        self.services.events.abort(number)
        self.tasks.lifecycle.aborted(number)

    def _failed(self, number: CheckpointId, trigger: str, failure: Exception) -> None:
        """Give a checkpoint up.

        Raises:
            CheckpointError: it was one too many.
        """
        error = explain_corruption(failure, self.services.store)
        self._abort(number)
        self._failures += 1
        self.scheduler.ended_checkpoint(clock_ms(), failed=True)
        tolerated = self.services.job.settings.tolerable_failed_checkpoints
        is_tolerated = self._failures <= tolerated
        outcome: Literal["declined", "failed"] = "declined" if isinstance(failure, Declined) else "failed"
        self.on_failed(
            checkpoint_failed(number, trigger, outcome, error, is_tolerated=is_tolerated, in_a_row=self._failures)
        )
        if not is_tolerated:
            raise CheckpointError(
                f"checkpoint {number} failed ({what_happened(error)}); {self._failures} in a row, "
                f"execution.checkpointing.tolerable-failed-checkpoints is {tolerated}"
            ) from error
        next_ms = self.scheduler.next_trigger_ms()
        due = "with the backlog's end" if next_ms is None else f"in {max(next_ms - clock_ms(), 0) / 1000:.1f} s"
        logger.warning(
            "checkpoint %s failed; the job continues, and the next checkpoint is due %s: %s", number, due, error
        )
