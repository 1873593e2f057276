"""The part of a query's handle that has the query stand still or end, with a savepoint or without."""

from __future__ import annotations

import os
import threading

from ...errors import QueryError
from ..checkpoints.savepoints.queue import SavepointRequest
from ..platform.filesystem import path_text
from ..protocols.lifecycle.events import Stop
from .awaited import AwaitedQuery


class EndedQuery(AwaitedQuery):
    """A query that can be paused, saved and stopped."""

    _thread: threading.Thread

    def stop(self) -> None:
        """Stop the query and wait for its end.

        In the live phase the epoch in hand is finished and a checkpoint is taken: all processed rows are visible.
        A backlog that is stopped leaves nothing and starts again from its beginning.  Called from the query's own
        ``foreachBatch`` function it returns at once, and the query ends after that function.
        """
        if not self._ended.is_set():
            self._runner.stop()
            if not self._runner.is_inside:
                self._thread.join()

    def pause(self) -> None:
        """Begin no further epoch; returns when the query stands still.

        The epoch in hand is finished and a checkpoint is taken: all processed rows are visible, nothing is pending.
        The query keeps its state, its place in the sources, and its checkpointLocation; :meth:`resume` has it go on.
        Meanwhile :meth:`savepoint`, :meth:`stopWithSavepoint` and :meth:`stop` work.  In a backlog at batch speed the
        shards in hand are finished and kept; there is no checkpoint before its end.

        Processing time goes on: its timers that become due in a pause, and state whose time to live ends in it, wait
        for its end.  For ``pipeline.watermark.idle-timeout`` it does not.  A query that is started again is not paused.

        Raises:
            QueryError: the query has ended, is resumed or ends before it stands still, or its checkpoint fails within
                ``execution.checkpointing.tolerable-failed-checkpoints``, and the query goes on.
        """
        if self._runner.is_inside:
            raise QueryError("pause() in the query's own foreachBatch function would wait for itself")
        self._runner.ask_pause().result()

    def resume(self) -> None:
        """Go on after :meth:`pause`; nothing happens if the query is not paused.

        Raises:
            QueryError: the query has ended.
        """
        self._runner.resume()

    def savepoint(self, path: str | os.PathLike[str], wait: bool = False) -> str:
        """Take a savepoint, and go on; returns its path when it is complete.

        It holds what was processed before it was taken up; the query goes on while the files are copied, and does not
        end before they are.

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            wait: in a backlog without checkpoints (``execution.interval-during-backlog`` is 0) wait for the switch;
                False: that is an error.

        Raises:
            OptionError: it is no path.
            CheckpointError: there is something at the path.
            QueryError: it cannot be taken now, or failed; the query goes on.
        """
        return self._savepoint(SavepointRequest(path_text("path of savepoint()", path), wait=wait))

    def stopWithSavepoint(self, path: str | os.PathLike[str], drain: bool = False, wait: bool = False) -> str:
        """End the query with a savepoint; returns its path when it is complete and the query has ended.

        Args:
            path: a folder that is empty or does not exist, local or a URI.
            drain: first fire all event-time timers and open windows, as at the end of input, and finish the operators:
                for a job that is to end for good.  Without it nothing fires, and a job that goes on from the savepoint
                gives what an undisturbed one would.
            wait: as for :meth:`savepoint`.

        Raises:
            OptionError: it is no path.
            CheckpointError: there is something at the path, or it cannot be written to; the query goes on.
            QueryError: it cannot be taken now (the query goes on), or it failed (and the query with it: nothing of it
                is visible, and the next start goes on from the last checkpoint as if it had not been asked for; unless
                its checkpoint is complete, which the message says: then the next start writes the savepoint first).
        """
        place = path_text("path of stopWithSavepoint()", path)
        found = self._savepoint(SavepointRequest(place, Stop.DRAIN if drain else Stop.SUSPEND, wait))
        self._thread.join()
        self._raise()
        return found

    def _savepoint(self, request: SavepointRequest) -> str:
        if self._runner.is_inside:
            raise QueryError(
                f"a {request} from the query's own foreachBatch function would wait for itself",
                code="MIXEDMODE_WAITS_FOR_ITSELF",
            )
        self._runner.ask_savepoint(request)
        return request.answer.result()
