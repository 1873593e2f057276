"""The part of a query's handle that pauses, saves and stops the query."""

from __future__ import annotations

import logging
import os

from ...errors import StopTimeoutError
from ..checkpoints.savepoints.queue import SavepointRequest
from ..protocols.lifecycle.events import Stop
from ..storage.filesystem import path_text
from .query_run import QueryRun
from .timeouts import timeout_s

logger = logging.getLogger(__name__)

#: How long Spark may take to cancel the jobs of a run that is given up: it kills a Python worker after some seconds.
_CANCELLED_WITHIN_S = 20.0


class StoppableQuery:
    """A query that can be paused, saved and stopped."""

    _run: QueryRun

    def stop(self, timeout: float | None = None) -> None:
        """Stops the query and waits for its end.

            query.stop(timeout=60)

        In the live phase the running epoch is finished and a checkpoint is taken: all processed rows are visible.  A
        backlog at batch speed has no checkpoint; the next start reuses its finished shards.  Called from the query's
        own ``foreachBatch`` function, ``stop`` returns at once, and the query ends after that function.

        If a function or a task has not returned in time, its Spark jobs are cancelled and the run is given up: the
        location is free, and the next start processes again what has no checkpoint.  A Python function on the driver
        cannot be ended from outside: its thread stays until it returns, and its result is not used.

        Args:
            timeout: seconds to wait; None: as ``execution.stop.timeout`` says, by default without limit.

        Raises:
            StopTimeoutError: the run was given up.  The message names the function, or stage and shards, that hung.
            OptionError: the timeout is not a number of seconds greater than 0; the query continues.
        """
        timeout = timeout_s("stop", timeout)
        if self._run.ended.is_set():
            return
        self._run.runner.stopping.stop()
        if self._run.runner.stopping.is_inside:
            return
        limit_ms = self._run.job.settings.stop_timeout_ms
        if timeout is None and limit_ms is not None:
            timeout = limit_ms / 1000
        self._run.thread.join(timeout)
        if timeout is not None and self._run.thread.is_alive() and not self._run.ended.is_set():
            self._give_up(timeout)

    def _give_up(self, waited_s: float) -> None:
        """End the run although something of it does not return.

        Raises:
            StopTimeoutError: always; it says what that is.
        """
        hung = self._run.runner.stopping.what_hangs()
        self._run.runner.stopping.give_up()
        self._run.thread.join(_CANCELLED_WITHIN_S)
        if self._run.thread.is_alive():
            self._run.abandon()
        error = StopTimeoutError(
            f"query {self._run.label} was given up: after {waited_s:g} s stop() still waited for {hung}. Its"
            " Spark jobs are cancelled; the next start processes again what has no checkpoint"
        )
        logger.error("%s", error)
        raise error

    def pause(self) -> None:
        """Starts no further epoch; returns when the query stands still.

            query.pause()

        The running epoch is finished and a checkpoint is taken: all processed rows are visible, and nothing is pending.
        The query keeps its state, its source positions and its checkpointLocation; :meth:`resume` continues it.  During
        the pause :meth:`savepoint`, :meth:`stopWithSavepoint` and :meth:`stop` work.  In a backlog at batch speed
        running shards are finished and kept; there is no checkpoint before its end.

        Processing time continues: timers that become due, and state whose time to live ends, wait for the end of the
        pause.
        The pause does not count for ``pipeline.watermark.idle-timeout``.  A query that is started again is not paused.

        Raises:
            QueryError: the query has ended, is resumed or ends before it stands still; or its checkpoint fails within
                ``execution.checkpointing.tolerable-failed-checkpoints``, and the query continues.
        """
        self._run.check_outside("pause()")
        self._run.runner.requests.pause().result()

    def resume(self) -> None:
        """Continues after :meth:`pause`; has no effect if the query is not paused.

            query.resume()

        Raises:
            QueryError: the query has ended.
        """
        self._run.runner.requests.resume()

    def savepoint(self, path: str | os.PathLike[str], wait: bool = False) -> str:
        """Takes a savepoint while the query continues; returns its path when it is complete.

            query.savepoint("savepoints/7")

        It holds what was processed when the savepoint began.  The query continues while the files are copied, and does
        not end before they are.

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            wait: in a backlog without checkpoints (``execution.interval-during-backlog`` is 0), wait for the switch;
                False: raise an error.

        Raises:
            OptionError: ``path`` is not a path.
            CheckpointError: there is something at the path.
            QueryError: it cannot be taken now, or failed; the query continues.
        """
        return self._savepoint(SavepointRequest(path_text("path of savepoint()", path), wait=wait))

    def stopWithSavepoint(self, path: str | os.PathLike[str], drain: bool = False, wait: bool = False) -> str:
        """Ends the query with a savepoint; returns its path when it is complete and the query has ended.

            query.stopWithSavepoint("savepoints/7")

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            drain: first fire all event-time timers and open windows, as at the end of input, and finish the operators:
                for
                a job that ends for good.  Without it nothing fires, and a job that starts from the savepoint gives what
                an undisturbed one would.
            wait: as for :meth:`savepoint`.

        Raises:
            OptionError: ``path`` is not a path.
            CheckpointError: there is something at the path, or it cannot be written; the query continues.
            QueryError: it cannot be taken now (the query continues), or it failed, and the query with it.  Then nothing
                of
                it is visible, and the next start continues from the last checkpoint.  If the message says that the
                checkpoint is complete, the next start first writes the savepoint.
        """
        place = path_text("path of stopWithSavepoint()", path)
        found = self._savepoint(SavepointRequest(place, Stop.DRAIN if drain else Stop.SUSPEND, wait))
        self._run.thread.join()
        self._run.check()
        return found

    def _savepoint(self, request: SavepointRequest) -> str:
        self._run.check_outside(f"a {request}")
        self._run.runner.requests.savepoint(request)
        return request.answer.result()
