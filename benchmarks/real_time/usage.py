"""CPU time of the run's processes, and how long they waited for a processor, from ``/proc`` (Linux)."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from processes import descendants
from timeline import Timeline

_TICKS = os.sysconf("SC_CLK_TCK")
#: Threads of the JVMs that rows pass through.
_WAY_OF_ROWS = ("Executor task", "streaming-shuff", "data-plane", "time-based")


def cpu_s() -> float:
    """CPU-seconds of the driver, its JVM and its workers; not of broker and producer."""
    total = 0
    for pid, kind in _kinds().items():
        if kind not in ("broker", "producer"):
            try:
                total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            except OSError:
                continue
    return total / _TICKS


def threads_cpu_s() -> dict[str, float]:
    """CPU-seconds of each kind of thread, as they are now."""
    found: dict[str, float] = {}
    for pid, kind in _kinds().items():
        for task in Path(f"/proc/{pid}/task").glob("*/stat"):
            try:
                name, rest = task.read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            user, system = map(int, rest.split()[11:13])
            name = name.rstrip("0123456789-#: ") if kind in ("jvm", "worker") else ""
            key = f"{kind} {name}".strip()
            found[key] = found.get(key, 0) + (user + system) / _TICKS
    return found


class Waiting(threading.Thread):
    """Twice a second: how long threads that rows pass through waited for a processor, in ms, by kind of process.

    Args:
        log: the timeline, which has it.
    """

    def __init__(self, log: Timeline) -> None:
        super().__init__(daemon=True)
        self._log, self._ended = log, threading.Event()

    def run(self) -> None:
        """Until :meth:`end`."""
        known: dict[str, str] = {}
        looked, last = 0.0, dict[str, int]()
        while not self._ended.wait(0.5):
            if time.time() - looked > 5:
                known, looked = _way_of_rows(), time.time()
            sums: dict[str, float] = {}
            for path, kind in known.items():
                try:
                    waited = int(Path(path, "schedstat").read_text().split()[1])
                except (OSError, IndexError):
                    continue
                if path in last:
                    sums[kind] = sums.get(kind, 0) + (waited - last[path]) / 1e6
                last[path] = waited
            self._log("waiting", **{kind: round(ms) for kind, ms in sums.items()})

    def end(self) -> None:
        """No more of it."""
        self._ended.set()


def _kinds() -> dict[int, str]:
    """This process and all below it, by what they are."""
    found = {}
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            found[pid] = _kind(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            continue
    return found


def _kind(command: bytes) -> str:
    if b"kafka.Kafka" in command or b"kafka_broker" in command:
        return "broker"
    if b"producer.py" in command:
        return "producer"
    if b"java" in command:
        return "jvm"
    return "worker" if b"pyspark" in command else "driver"


def _way_of_rows() -> dict[str, str]:
    """Threads that rows pass through, by their folder, each with its kind of process."""
    found = {}
    for pid, kind in _kinds().items():
        for task in Path(f"/proc/{pid}/task").glob("*") if kind != "driver" else ():
            try:
                name = (task / "comm").read_text()
            except OSError:
                continue
            if kind in ("worker", "producer") or name.startswith(_WAY_OF_ROWS):
                found[str(task)] = kind
    return found
