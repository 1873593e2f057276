"""Holds what user threads ask of a run until the run serves it, between two epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class UserRequest(Protocol):
    """Something that somebody waits for."""

    @property
    def wait(self) -> bool:
        """Whether it may wait for the end of a backlog, instead of being refused."""

    def refuse(self, reason: str) -> None:
        """It cannot be taken: raise, or answer."""

    def fail(self, reason: str) -> None:
        """Answer that it will not be done."""


R = TypeVar("R", bound=UserRequest)


class RequestQueue(Generic[R]):
    """The open requests, in order; thread-safe.  Every one is answered, at the latest when the run ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[R] = []
        #: Why no request is taken any more; None: they are.
        self._closed: str | None = None

    def ask(self, request: R) -> None:
        """Hand a request in; one that cannot be taken, as the run has ended, is refused."""
        with self._lock:
            reason = self._closed or self._objection(request)
            if reason is None:
                self._open.append(request)
        if reason is not None:
            request.refuse(reason)

    def _objection(self, request: R) -> str | None:
        """Why a request cannot be taken beside those that are open; called with the lock."""
        return None

    @property
    def is_empty(self) -> bool:
        """True if nothing is open."""
        return not self._open

    def pending(self) -> list[R]:
        """The requests that are open now."""
        with self._lock:
            return list(self._open)

    def withdraw(self, request: R) -> bool:
        """Take a request back; False: it is too late for that."""
        with self._lock:
            if request not in self._open:
                return False
            self._open.remove(request)
            return True

    def take(self, is_wanted: Callable[[R], bool] = lambda _: True) -> list[R]:
        """Take requests out, which are the caller's to answer."""
        with self._lock:
            taken = [request for request in self._open if is_wanted(request)]
            self._open = [request for request in self._open if request not in taken]
        return taken

    def refuse_those_that_do_not_wait(self, reason: str) -> None:
        """Answer with an error what cannot be done now and does not want to wait."""
        for request in self.take(lambda request: not request.wait):
            request.fail(reason)

    def close(self, reason: str) -> None:
        """The run has ended: whatever is open will not be done."""
        with self._lock:
            left, self._open, self._closed = self._open, [], reason
        for request in left:
            request.fail(reason)
