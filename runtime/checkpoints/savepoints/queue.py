"""Takes savepoint requests of user threads; the runner serves them between two epochs.

Invariants: every request is answered, at the latest when the run ends; what ends the job has a place for its savepoint
that nobody else can take.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ....errors import CheckpointError, QueryError
from ...protocols.lifecycle.events import Stop


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


class SavepointQueue:
    """The open requests, in order; thread-safe.

    Args:
        take_place: claims the place of a request that ends the job; raises CheckpointError if it is not to be had.
    """

    def __init__(self, take_place: Callable[[SavepointRequest], None] = lambda request: None) -> None:
        self._take_place = take_place
        self._lock = threading.Lock()
        self._open: list[SavepointRequest] = []
        #: Why no request is taken (any more); None: they are taken.
        self._closed: str | None = None
        self._stop_was_taken = False

    def ask(self, request: SavepointRequest) -> None:
        """Hand a request in.

        Raises:
            QueryError: the run has ended, or is being stopped by another request.
        """
        with self._lock:
            if self._closed is not None:
                raise QueryError(f"no {request} can be taken: {self._closed}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
            if request.stop is not None and any(other.stop is not None for other in self._open):
                raise QueryError(
                    f"no {request} can be taken: another stop-with-savepoint is under way",
                    code="MIXEDMODE_SAVEPOINT_NOT_TAKEN",
                )
            self._open.append(request)

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
                request.answer.set_exception(
                    QueryError(
                        f"the {request} was not taken: {error}; the query goes on", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN"
                    )
                )
                return None
            request.has_place = True
            return request

    @property
    def ends_the_job(self) -> bool:
        """Whether a request that ends the job is open, or being served."""
        return self._stop_was_taken or self.ready_stop() is not None

    @property
    def is_empty(self) -> bool:
        return not self._open

    def take_plain(self) -> list[SavepointRequest]:
        """The requests that do not end the job; they are the caller's to answer."""
        with self._lock:
            taken = [request for request in self._open if request.stop is None]
            self._open = [request for request in self._open if request.stop is not None]
        return taken

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
        with self._lock:
            refused = [request for request in self._open if not request.wait]
            self._open = [request for request in self._open if request.wait]
        for request in refused:
            request.answer.set_exception(
                QueryError(f"no {request} can be taken: {reason}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
            )

    def close(self, reason: str) -> None:
        """The run has ended: whatever is open will not be done."""
        with self._lock:
            left, self._open, self._closed = self._open, [], reason
        for request in left:
            request.answer.set_exception(
                QueryError(f"the {request} was not taken: {reason}", code="MIXEDMODE_SAVEPOINT_NOT_TAKEN")
            )
