"""A bounded queue with a thread of its own, so that whoever puts something in never waits for what is done with it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


def _never() -> float | None:
    return None


class Mailbox(Generic[_T]):
    """Hands things to a function, one after the other, in the order in which they were put in.

    When it is full the oldest thing that may be dropped is; what may not be goes in nevertheless, so whoever puts such
    things in puts few.  A failure of the function is logged with its traceback the first time, and counted after that.

    Args:
        owner: what it is called in logs and in the thread's name.
        take: gets the things, on the thread.
        may_drop: whether a thing may be dropped.
        size: how many things it holds.
        idle: called when it is empty; says after how many seconds it is to be called again, None: not before there was
            something in it again.
    """

    def __init__(
        self,
        owner: str,
        take: Callable[[_T], None],
        may_drop: Callable[[_T], bool],
        *,
        size: int = 1_000,
        idle: Callable[[], float | None] = _never,
    ) -> None:
        self._owner, self._take, self._may_drop, self._size, self._idle = owner, take, may_drop, size, idle
        self._changed = threading.Condition()
        self._things: deque[_T] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        #: How many have been put in, and how many are done with or dropped.
        self._put, self._done = 0, 0
        self.dropped = 0
        self.failures = 0

    def put(self, thing: _T) -> None:
        """Put something in, from any thread."""
        with self._changed:
            if self._is_closed:
                return
            if len(self._things) >= self._size and not self._make_room(thing):
                return
            self._things.append(thing)
            self._put += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"mixedmode-{self._owner}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _make_room(self, thing: _T) -> bool:
        """Drop something; False: it is the thing itself."""
        place = next((at for at, one in enumerate(self._things) if self._may_drop(one)), None)
        if place is None and not self._may_drop(thing):
            return True
        self.dropped += 1
        if self.dropped == 1:
            logger.warning(
                "%s is too slow: %s events wait for it, and the oldest frequent ones are dropped",
                self._owner,
                self._size,
            )
        if place is None:
            return False
        del self._things[place]
        self._done += 1
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait until all that has been put in so far is done with; False: it took too long."""
        if threading.current_thread() is self._thread:
            return False  # it would wait for itself
        deadline = time.monotonic() + timeout_s
        with self._changed:
            upto = self._put
            while self._done < upto:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, *, forget: bool = True) -> None:
        """Take nothing more, and let the thread end; if it is not to forget it, when all that is in it is done with."""
        with self._changed:
            self._is_closed = True
            if forget:
                self._things.clear()
                self._done = self._put
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                found = [self._things.popleft()] if self._things else []
                if not found and self._is_closed:
                    return
            if found:
                try:
                    self._take(found[0])
                except BaseException:
                    self._failed()
                with self._changed:
                    self._done += 1
                    self._changed.notify_all()
                continue
            wait_s = self._until_next()
            with self._changed:
                if not self._things and not self._is_closed:
                    self._changed.wait(wait_s)

    def _until_next(self) -> float | None:
        try:
            return self._idle()
        except Exception:
            self._failed()
            return None

    def _failed(self) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.exception(
                "%s has failed; no job is concerned, and more failures of it are only counted", self._owner
            )
