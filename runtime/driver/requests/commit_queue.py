"""Takes what user threads ask for in ``processAllAvailable``: that all which is processed be made visible.

They only ask.  The runner does it between two epochs, like everything else of the job, so what fails in it fails the
query by the same rules, and is told by the query.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future


class CommitQueue:
    """The open wishes; thread-safe.  Each is answered: True when it is done, False if the run has ended instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Future[bool]] = []
        self._closed = False

    def ask(self) -> Future[bool]:
        """Hand a wish in."""
        wish: Future[bool] = Future()
        with self._lock:
            if not self._closed:
                self._open.append(wish)
                return wish
        wish.set_result(False)
        return wish

    def pending(self) -> list[Future[bool]]:
        """The wishes that are open now."""
        with self._lock:
            return list(self._open)

    def grant(self, wishes: list[Future[bool]]) -> None:
        """They are done."""
        with self._lock:
            self._open = [wish for wish in self._open if wish not in wishes]
        for wish in wishes:
            wish.set_result(True)

    def close(self) -> None:
        """The run has ended."""
        with self._lock:
            left, self._open, self._closed = self._open, [], True
        for wish in left:
            wish.set_result(False)
