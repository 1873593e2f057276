"""Does the work that a job's lifecycle asks for, through handlers of those who can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....errors import QueryError
from .actions import Abort, Commit, Fail, Work
from .job import JobLifecycle, TaskWork, TriggerCheckpoint

Handler = Callable[[TaskWork], None]


class TaskWorker:
    """Asks what is next and has it done, in order.

    Work without a handler is none: the sources read through Spark and have no operators of ours to fire or finish.

    Args:
        lifecycle: says what is next.
    """

    def __init__(self, lifecycle: JobLifecycle) -> None:
        self.lifecycle = lifecycle
        self._handlers: dict[tuple[str, type], Handler] = {}

    def on(self, vertex: str, kind: type[Work], handler: Handler) -> None:
        """Have one kind of a vertex's work done by a handler."""
        self._handlers[vertex, kind] = handler

    def run(self) -> bool:
        """Do everything that is at hand; True if the final checkpoint is to be taken now.

        Raises:
            QueryError: a task cannot go on.
        """
        while (work := self.lifecycle.next()) is not None:
            if isinstance(work, TriggerCheckpoint):
                return True
            self._do(work)
        return False

    def commits(self) -> Iterator[Commit]:
        """What a completed checkpoint commits, each of which is done when the next is asked for.

        What it aborts has nothing to be done: the rest is left for :meth:`run`.
        """
        while isinstance(work := self.lifecycle.next(), TaskWork) and isinstance(work.work, Commit | Abort):
            if isinstance(work.work, Commit):
                yield work.work
            self.lifecycle.done(work)

    def _do(self, work: TaskWork) -> None:
        if isinstance(work.work, Fail):
            raise QueryError(f"{work.vertex}: {work.work.reason}")
        handler = self._handlers.get((work.vertex, type(work.work)))
        if handler is not None:
            handler(work)
        self.lifecycle.done(work)
