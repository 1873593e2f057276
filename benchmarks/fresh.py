"""What a job takes in a process that has done nothing yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from processes import cpu_s

#: Of what :func:`timed` has measured: from ``start()`` to the end, the same from the first call, and its CPU time.
SECONDS, FROM_READ_S, CPU_S = "seconds", "from_read_s", "cpu_s"


def timed(prepare: Callable[[], Callable[[], Any]]) -> dict[str, float]:
    """Describe a job, and run it.

    Args:
        prepare: describes the job; what it returns starts it, and comes back at its end.
    """
    used_s, begun = cpu_s(os.getpid()), time.perf_counter()
    run = prepare()
    started = time.perf_counter()
    run()
    ended = time.perf_counter()
    return {SECONDS: ended - started, FROM_READ_S: ended - begun, CPU_S: cpu_s(os.getpid()) - used_s}
