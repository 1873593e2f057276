"""The current key's timers of one kind in time order, as far as the caller says, again and again.

A key's timers are read once; what is registered while the key is the current one joins them.  A timer that was deleted
meanwhile is found out when its turn comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator


class TimerWalk:
    """Invariant: of the current key's pending timers those that are not in the heap were not there to begin with.

    Args:
        is_pending: whether the current key has a timer of that time.
        delete: removes it.
    """

    def __init__(self, is_pending: Callable[[int], bool], delete: Callable[[int], None]) -> None:
        self._is_pending = is_pending
        self._delete = delete
        self._heap: list[int] = []

    def begin(self, waiting: list[int]) -> None:
        """Another key is the current one.

        Args:
            waiting: its timers from before that may come due, ascending, in ms.
        """
        self._heap = waiting  # ascending, hence a heap

    def registered(self, ts_ms: int) -> None:
        """The current key has got a timer."""
        heapq.heappush(self._heap, ts_ms)

    def due(self, upto_ms: int, *, newcomers: bool = True) -> Iterator[int]:
        """The times of timers up to ``upto_ms`` in order; each is deleted when the next is asked for.

        So registering the same time again while it is handled has no effect, as in Spark.

        Args:
            upto_ms: the last time that is due.
            newcomers: whether timers registered meanwhile are due as well; False: they are left alone.
        """
        heap = self._heap
        if not newcomers:
            heap = sorted(ts_ms for ts_ms in heap if ts_ms <= upto_ms)
        while heap and heap[0] <= upto_ms:
            ts_ms = heapq.heappop(heap)
            if self._is_pending(ts_ms):
                yield ts_ms
                self._delete(ts_ms)
