"""The two clocks of a run: a monotonic one for checkpoints, and the wall clock of processing time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Another wall clock, for those who test a job; the run's threads have the context of whoever started it.
_wall: ContextVar[Callable[[], int] | None] = ContextVar("mixedmode_wall_clock", default=None)


def clock_ms() -> int:
    """Monotonic clock of the checkpoint scheduler."""
    return round(time.monotonic() * 1000)


def now_ms() -> int:
    """Wall clock: processing time."""
    wall = _wall.get()
    return round(time.time() * 1000) if wall is None else wall()


@contextmanager
def processing_time(wall_ms: Callable[[], int]) -> Iterator[None]:
    """While inside, epochs and the runs that are started here have this processing time."""
    token = _wall.set(wall_ms)
    try:
        yield
    finally:
        _wall.reset(token)
