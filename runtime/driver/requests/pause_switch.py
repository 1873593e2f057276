"""Switches a run's pause: users turn it on and off, and the run says when it is paused.

A run that stands still begins no epoch.  It has nothing pending, as far as its phase has checkpoints, keeps its state
and its place in the sources, holds its location, and goes on where it was.  A pause is a run's: the next run begins
without.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from ....errors import QueryError


class PauseSwitch:
    """The switch; thread-safe.

    Args:
        changed: called when users have changed it.
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._wanted = False
        #: When the run has come to a stand (ms); None: it has not.
        self._since_ms: int | None = None
        self._open: list[Future[None]] = []
        #: Why there is nothing to pause any more; None: there is.
        self._closed: str | None = None
        #: How often a pause was begun.
        self.times = 0

    @property
    def is_wanted(self) -> bool:
        """Whether users want a pause."""
        return self._wanted

    @property
    def stands(self) -> bool:
        """Whether the run stands still."""
        return self._since_ms is not None

    def ask(self) -> Future[None]:
        """Begin a pause; answered when the run stands still.

        Raises:
            QueryError: the run has ended.
        """
        answer: Future[None] = Future()
        with self._lock:
            if self._closed is not None:
                raise QueryError(f"it cannot be paused: {self._closed}")
            if not self._wanted:
                self._wanted, self.times = True, self.times + 1
            if self._since_ms is not None:
                answer.set_result(None)
            else:
                self._open.append(answer)
        self._changed()
        return answer

    def lift(self) -> bool:
        """End the pause; False: there is none.

        Raises:
            QueryError: the run has ended.
        """
        with self._lock:
            if self._closed is not None:
                raise QueryError(f"it cannot be resumed: {self._closed}")
            was_wanted, self._wanted = self._wanted, False
            left, self._open = self._open, []
        _refuse(left, "somebody has resumed it before")
        self._changed()
        return was_wanted

    # -- the run's side ----------------------------------------------------------------------------------------------

    def stand(self, now_ms: int) -> bool:
        """The run stands still; False: nobody wants it any more."""
        with self._lock:
            if not self._wanted:
                return False
            if self._since_ms is None:
                self._since_ms = now_ms
            answered, self._open = self._open, []
        for answer in answered:
            answer.set_result(None)
        return True

    def refuse(self, reason: str) -> None:
        """The run cannot come to a stand now, and goes on."""
        with self._lock:
            self._wanted = False
            left, self._open = self._open, []
        _refuse(left, reason)

    def go_on(self, now_ms: int) -> int:
        """The run goes on; returns how long it has stood still (ms)."""
        with self._lock:
            since_ms, self._since_ms = self._since_ms, None
        return 0 if since_ms is None else max(now_ms - since_ms, 0)

    def close(self, reason: str) -> None:
        """The run has ended."""
        with self._lock:
            left, self._open, self._closed = self._open, [], reason
            self._wanted, self._since_ms = False, None
        _refuse(left, reason)


def _refuse(answers: list[Future[None]], reason: str) -> None:
    for answer in answers:
        answer.set_exception(QueryError(f"the query was not paused: {reason}"))
