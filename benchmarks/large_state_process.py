"""Run as a process of its own: makes a large state, or goes on from it, and prints times and peaks of memory.

    python large_state_process.py (load|restart) <folder> <history's shape> <live shape> <job> <shards>

``load``: a backlog of all keys, and its checkpoint.  ``restart``: from ``start()`` to the end of a small micro-batch,
in as many shards as are asked for, which may be others than there were.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dataset import Shape, dataset
from processes import descendants, memory_bytes, python_workers
from restart_process import OURS, Restarts
from sessions import new_session
from workload import aggregate, processor

JOBS = {"aggregate": aggregate(), "processor": processor}
_MIB = 1 << 20
_LOOK_S = 0.2


class Memory:
    """Peaks of this process, of the JVM, and of all Python workers together."""

    def __init__(self) -> None:
        self._workers_bytes, self._ends = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ends.wait(_LOOK_S):
            self._workers_bytes = max(self._workers_bytes, sum(map(memory_bytes, python_workers())))

    def end(self) -> dict[str, int]:
        """The peaks in MiB."""
        self._ends.set()
        self._thread.join()
        others = set(descendants(os.getpid())) - set(python_workers())
        jvm_bytes = max((memory_bytes(pid, peak=True) for pid in others), default=0)
        driver_bytes = memory_bytes(os.getpid(), peak=True)
        return {
            "driver": driver_bytes // _MIB,
            "JVM": jvm_bytes // _MIB,
            "workers": self._workers_bytes // _MIB,
        }


def main() -> None:
    """Do what is asked."""
    what, folder, (history, live) = sys.argv[1], Path(sys.argv[2]), map(json.loads, sys.argv[3:5])
    job, shards = JOBS[sys.argv[5]], sys.argv[6]
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        sets = dataset(Shape(**history)), dataset(Shape(**live))
        options = {"pipeline.parallelism": shards, "execution.checkpointing.interval": "1 h"}
        query = Restarts(spark, OURS, folder / "job", *sets, job, options)
        memory, began = Memory(), time.perf_counter()
        found: dict[str, Any] = {}
        if what == "load":
            query.load()
            found["seconds"] = time.perf_counter() - began
            found["checkpoint"] = query.checkpoints[-1]
        else:
            found["seconds"], found["parts"] = query.restart()
        found["memory"] = memory.end()
    print(json.dumps(found), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def arguments(what: str, folder: Path, history: Shape, live: Shape, job: str, shards: int) -> list[str]:
    """The command line of a process."""
    shapes = [json.dumps(asdict(shape)) for shape in (history, live)]
    return [sys.executable, str(Path(__file__)), what, str(folder), *shapes, job, str(shards)]


if __name__ == "__main__":
    main()
