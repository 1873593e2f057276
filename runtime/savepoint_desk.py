"""Takes savepoint requests of user threads; the runner serves them between two epochs.

Invariant: every request is answered, at the latest when the run ends.
"""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field

from ..errors import QueryError
from .lifecycle.events import Stop


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
    #: The savepoint's path, in the end.
    answer: Future[str] = field(default_factory=Future)

    def __str__(self) -> str:
        return "savepoint" if self.stop is None else f"stop-with-savepoint {self.stop.value}"


class SavepointDesk:
    """The open requests, in order; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[SavepointRequest] = []
        #: Why no request is taken (any more); None: they are taken.
        self._closed: str | None = None

    def ask(self, request: SavepointRequest) -> None:
        """Hand a request in.

        Raises:
            QueryError: the run has ended, or is being stopped by another request.
        """
        with self._lock:
            if self._closed is not None:
                raise QueryError(f"no {request} can be taken: {self._closed}")
            if request.stop is not None and any(other.stop is not None for other in self._open):
                raise QueryError(f"no {request} can be taken: another stop-with-savepoint is under way")
            self._open.append(request)

    @property
    def stop(self) -> SavepointRequest | None:
        """The request that is to end the job; None: there is none."""
        with self._lock:
            return next((request for request in self._open if request.stop is not None), None)

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
        with self._lock:
            taken = next((request for request in self._open if request.stop is not None), None)
            if taken is not None:
                self._open.remove(taken)
                self._closed = f"{taken} is under way"
        return taken

    def refuse_those_that_do_not_wait(self, reason: str) -> None:
        """Answer with an error what cannot be done now and does not want to wait."""
        with self._lock:
            refused = [request for request in self._open if not request.wait]
            self._open = [request for request in self._open if request.wait]
        for request in refused:
            request.answer.set_exception(QueryError(f"no {request} can be taken: {reason}"))

    def close(self, reason: str) -> None:
        """The run has ended: whatever is open will not be done."""
        with self._lock:
            left, self._open, self._closed = self._open, [], reason
        for request in left:
            request.answer.set_exception(QueryError(f"the {request} was not taken: {reason}"))
