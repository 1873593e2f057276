"""Takes what users ask of a run, from any thread: savepoints, commits, other numbers of shards, pauses."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from ...checkpoints.savepoints.destination import check_wanted, probe_destination
from ...checkpoints.savepoints.queue import SavepointRequest
from ...spec import JobSpec
from ...storage.filesystem import delete_quietly, write_atomically
from ..requests.commit_queue import CommitRequest
from ..requests.rescale_queue import RescaleRequest
from .phases import IN_BACKLOG
from .rescaling import IN_BACKLOG as NO_RESCALE_IN_BACKLOG
from .rescaling import check_rescale
from .run_context import RunContext

logger = logging.getLogger(__name__)


class UserRequests:
    """Hands requests to the run's queues, and wakes it.

    Args:
        job: what runs.
        context: of its run.
    """

    def __init__(self, job: JobSpec, context: RunContext) -> None:
        self._job = job
        self._context = context
        #: Held by whoever begins or ends a pause.
        self._pausing = threading.Lock()

    def savepoint(self, request: SavepointRequest) -> None:
        """Hand in a request for a savepoint, which is answered between two epochs.

        Raises:
            CheckpointError: there is something at the savepoint's path, or it cannot be written to.
            QueryError: the query cannot take one now, or has ended.
        """
        if not self._job.keeps_state:
            request.refuse("execution.runtime-mode is batch, which keeps no state")
        check_wanted(request.path, self._job.checkpoint_location)
        phase = self._context.published.now.phase
        if not request.wait and phase is not None and not phase.takes_savepoints:
            request.refuse(IN_BACKLOG)
        if request.stop is not None:
            probe_destination(request.path)  # later it would cost the job's run
        self._context.savepoints.ask(request)
        self._context.wake.set()

    def rescale(self, request: RescaleRequest) -> None:
        """Hand in a request for another number of shards, which is answered between two epochs.

        Raises:
            QueryError: it cannot be done now, or ever.
            ValueError: there cannot be so many shards.
        """
        check_rescale(self._job, request)
        phase = self._context.published.now.phase
        if not request.wait and phase is not None and phase.kind == "backlog":
            request.refuse(NO_RESCALE_IN_BACKLOG)
        self._context.rescales.ask(request)
        self._context.wake.set()

    def withdraw_rescale(self, request: RescaleRequest) -> bool:
        """Take a request back; False: the run has begun with it."""
        return self._context.rescales.withdraw(request)

    def commit(self) -> Future[bool]:
        """Have all that is processed made visible; False: the run has ended instead."""
        request = CommitRequest()
        self._context.commits.ask(request)
        self._context.wake.set()
        return request.answer

    def pause(self) -> Future[None]:
        """Have the run stand still; answered when it does.

        Raises:
            QueryError: the run has ended.
        """
        with self._pausing:
            context, phase = self._context, self._context.published.now.phase
            # Before the first task can see the marker: the pass must know that it was not told of all shards.
            answer = context.pause.ask()
            if phase is not None and phase.kind == "backlog" and not context.stopping.is_set():
                self._hold_shards()
                if not context.backlog.has_begun:
                    # It reads yet: no shard is lost by beginning again.
                    self._job.spark.sparkContext.cancelJobsWithTag(context.pass_pause.tag)
        return answer

    def _hold_shards(self) -> None:
        """Keep tasks that have not begun with their shard from it."""
        marker = self._context.marker
        try:
            write_atomically(marker.filesystem, marker.path, b"")
        except OSError as error:
            logger.warning("the backlog runs to its end before the pause: %s", error)

    def resume(self) -> bool:
        """Have the run go on after a pause; False: there was none.

        Raises:
            QueryError: the run has ended.
        """
        with self._pausing:
            self.let_shards_begin()
            return self._context.pause.lift()

    def let_shards_begin(self) -> None:
        """Keep no task from its shard any more."""
        marker = self._context.marker
        delete_quietly(marker.filesystem, marker.path)
