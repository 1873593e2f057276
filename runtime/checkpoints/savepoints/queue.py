"""Takes savepoint requests of user threads; the runner serves them between two epochs.

Invariants: every request is answered, at the latest when the run ends; what ends the job has a place for its savepoint
that nobody else can take.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NoReturn

from ....errors import CheckpointError, QueryError
from ...protocols.lifecycle.events import Stop
from ...support.request_queue import RequestQueue


@dataclass(eq=False)
class SavepointRequest:
    """A savepoint that somebody asked for."""

    path: str
    #: How it ends the job; None: the job goes on.
    stop: Stop | None = None
    #: In a backlog without checkpoints: wait for its end, instead of being refused.
    wait: bool = False
    #: The id that the savepoint will have.
    savepoint_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: True once nobody else can have its place.
    has_place: bool = False
    #: The savepoint's path, in the end.
    answer: Future[str] = field(default_factory=Future)

    def __str__(self) -> str:
        return "savepoint" if self.stop is None else f"stop-with-savepoint {self.stop.value}"

    def refusal(self, reason: str) -> QueryError:
        """Says that it cannot be taken."""
        return QueryError(f"no {self} can be taken: {reason}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")

    def refuse(self, reason: str) -> NoReturn:
        """Raise QueryError: it cannot be taken."""
        raise self.refusal(reason)

    def fail(self, reason: str) -> None:
        """Answer that it will not be done."""
        self.answer.set_exception(
            QueryError(f"the {self} was not taken: {reason}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
        )

    def report_failure(self, reason: object) -> None:
        """Answer that it was begun, and not completed."""
        self.answer.set_exception(QueryError(f"the {self} failed: {reason}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN"))


class SavepointQueue(RequestQueue[SavepointRequest]):
    """The open requests, in order; thread-safe.

    Args:
        take_place: claims the place of a request that ends the job; raises CheckpointError if it is not to be had.
    """

    def __init__(self, take_place: Callable[[SavepointRequest], None] = lambda request: None) -> None:
        super().__init__()
        self._take_place = take_place
        self._stop_was_taken = False

    def _objection(self, request: SavepointRequest) -> str | None:
        if request.stop is not None and any(other.stop is not None for other in self._open):
            return "another stop-with-savepoint is under way"
        return None

    def ready_stop(self) -> SavepointRequest | None:
        """The request that is to end the job, from here on with a place of its own; None: there is none.

        One whose place is not to be had (any more: it may have waited for the whole of a backlog) is refused before
        anything is done for it, and the job goes on.
        """
        with self._lock:
            request = next((request for request in self._open if request.stop is not None), None)
            if request is None or request.has_place:
                return request
            try:
                self._take_place(request)
            except CheckpointError as error:
                self._open.remove(request)
                request.fail(f"{error}; the query goes on")
                return None
            request.has_place = True
            return request

    @property
    def ends_the_job(self) -> bool:
        """Whether a request that ends the job is open, or being served."""
        return self._stop_was_taken or self.ready_stop() is not None

    def take_plain(self) -> list[SavepointRequest]:
        """The requests that do not end the job; they are the caller's to answer."""
        return self.take(lambda request: request.stop is None)

    def take_stop(self) -> SavepointRequest | None:
        """The request that ends the job; it is the caller's to answer, and no other is taken."""
        taken = self.ready_stop()
        with self._lock:
            if taken is None or taken not in self._open:
                return None
            self._open.remove(taken)
            self._stop_was_taken = True
            self._closed = f"{taken} is under way"
        return taken

    def refuse_those_that_do_not_wait(self, reason: str) -> None:
        """Answer with an error what cannot be done now and does not want to wait."""
        for request in self.take(lambda request: not request.wait):
            request.answer.set_exception(request.refusal(reason))
