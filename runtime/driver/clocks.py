"""The two clocks of a run."""

from __future__ import annotations

import time


def clock_ms() -> int:
    """Monotonic clock of the checkpoint scheduler."""
    return round(time.monotonic() * 1000)


def now_ms() -> int:
    """Wall clock: processing time."""
    return round(time.time() * 1000)
