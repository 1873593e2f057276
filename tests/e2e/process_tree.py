"""The processes below a driver, found in ``/proc``, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Processes that a process has started, and that are not dead."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent_and_state(int(entry.name)) in [(pid, state) for state in "RSDTI"]:
            found.append(int(entry.name))
    return sorted(found)


def below(pid: int) -> list[int]:
    """All processes that descend from a process."""
    return [found for child in children(pid) for found in (child, *below(child))]


def find(driver: int, victim: str) -> list[int]:
    """The processes of a kind below a driver: ``driver``, ``jvm``, ``executor``, ``daemon`` or ``worker``."""
    if victim == "driver":
        return [driver]
    jvms = [pid for pid in children(driver) if _is_java(pid)]
    if victim == "jvm":
        return jvms
    executors = [pid for jvm in jvms for pid in children(jvm) if _is_java(pid)]
    if victim == "executor":
        return executors or jvms
    daemons = [pid for jvm in (executors or jvms) for pid in children(jvm) if not _is_java(pid)]
    return daemons if victim == "daemon" else [pid for daemon in daemons for pid in children(daemon)]


def kill(pids: list[int]) -> None:
    """SIGKILL; those that are gone already are fine."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_java(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java"
    return False


def _parent_and_state(pid: int) -> tuple[int, str] | None:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(fields[1]), fields[0]
    return None


def of_session(session: int) -> list[int]:
    """All processes of a session: a driver's, also after it has died and they are nobody's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found
