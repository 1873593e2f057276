"""CPU time, memory and open handles of processes, read from ``/proc`` (Linux)."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Have processes below this one become its children when their parent ends: else what they have used is lost.

    Spark kills the daemon of its Python workers, which are nobody's then.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All living processes below a process."""
    parents = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                # The name in brackets may contain anything; what follows it is plain.
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    found, wanted = [], {pid}
    while wanted:
        below = {child for child, parent in parents.items() if parent in wanted}
        found += sorted(below)
        wanted = below
    return found


def python_workers() -> list[int]:
    """Spark's Python workers and their daemon below this process."""
    return [pid for pid in descendants(os.getpid()) if "pyspark" in _command(pid)]


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    # A JVM that runs Spark names pyspark too; a worker is a Python that runs a module of it.
    return words[2].decode() if len(words) > 2 and words[1] == b"-m" else ""


def cpu_s(pid: int) -> float:
    """CPU time of a process, of all below it, and of those below it that have ended."""
    ticks = 0
    for one in (pid, *descendants(pid)):
        try:
            words = (_PROC / str(one) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, words[11:15]))  # user and system, its own and that of children it has waited for
    return ticks / os.sysconf("SC_CLK_TCK")


def settle(pid: int, patience_s: float = 60) -> None:
    """Wait until a process and all below it do next to nothing: a query that was stopped may go on for a while.

    Args:
        pid: the process.
        patience_s: wait no longer, in seconds.
    """
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        before_s = cpu_s(pid)
        time.sleep(0.5)
        if cpu_s(pid) - before_s < 0.05:
            return


def memory_bytes(pid: int, peak: bool = False) -> int:
    """Resident memory now, or the most since :func:`reset_peak`; 0 if the process is gone."""
    name = "VmHWM:" if peak else "VmRSS:"
    try:
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def reset_peak(pid: int) -> None:
    """Let the peak begin at what the process holds now."""
    (_PROC / str(pid) / "clear_refs").write_text("5")


def open_handles(pid: int) -> int:
    """Open files, sockets and pipes; 0 if the process is gone."""
    try:
        return len(os.listdir(_PROC / str(pid) / "fd"))
    except OSError:
        return 0


def files_below(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every file below a folder with its inode, size and time of change."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            found[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def used_cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, without its children; 0 if it is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
