"""Run a driver whose Python objects have numbers of their own in the JVM: ``python own_proxies.py <driver> <words>``.

py4j counts the objects of a driver that the JVM may call from ``p0``.  When the JVM drops its end of one, it tells the
driver that is connected then.  In a JVM of one driver after the other that is another driver, whose ``p0`` it would be.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import Any

from py4j.java_gateway import PythonProxyPool


def number_apart() -> None:
    """Count this process's objects from a number that no process before it has counted to.

    That is the machine's clock: numbers of processes come again, and nobody makes an object each nanosecond.
    """
    put, first = PythonProxyPool.put, time.monotonic_ns()

    def put_apart(pool: Any, proxy: object, force_id: str | None = None) -> Any:
        pool.next_id = max(pool.next_id, first)
        return put(pool, proxy, force_id)

    PythonProxyPool.put = put_apart


if __name__ == "__main__":
    number_apart()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
