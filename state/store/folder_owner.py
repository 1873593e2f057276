"""Names a process's folder for local copies after the process, and removes folders whose process is dead.

A killed process cannot clean up.  A folder's name has host, pid namespace, pid and start time of its owner, so that a
process that got the same pid later, or one in another container, is not taken for it.
"""

from __future__ import annotations

import os
import shutil
import socket

#: Tests set it, to have a process on this machine count as one of another host.
PLACE_VARIABLE = "MIXEDMODE_PLACE"
_PREFIX = "replicas"


def own_folder(local_root: str) -> str:
    """The folder of this process below ``local_root``."""
    pid = os.getpid()
    return os.path.join(local_root, f"{_PREFIX}.{place()}-{pid}-{process_start_time(pid) or 0}")


def remove_folders_of_dead_processes(local_root: str) -> list[str]:
    """Delete what dead processes of this host left behind; folders that cannot be judged stay."""
    removed = []
    here = f"{_PREFIX}.{place()}"
    for name in os.listdir(local_root):
        found, _, rest = name.partition("-")
        pid, _, started = rest.partition("-")
        if found != here or not (pid.isdigit() and started.isdigit()) or is_alive(int(pid), int(started)):
            continue
        shutil.rmtree(os.path.join(local_root, name), ignore_errors=True)
        removed.append(name)
    return removed


def place() -> str:
    """The host and pid namespace of this process: where its pid means something."""
    elsewhere = os.environ.get(PLACE_VARIABLE)
    if elsewhere:
        return elsewhere
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname().replace('-', '_')}.{namespace}"


def boot_id() -> str:
    """What the kernel calls the time since it was started; empty: it does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def process_start_time(pid: int) -> int | None:
    """Start time in clock ticks since boot; None: no such process, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name may contain anything; it ends at the last parenthesis.
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def is_alive(pid: int, started: int) -> bool:
    """True if the process that had this pid and start time still runs; ``started`` 0: start time unknown."""
    if os.path.isdir("/proc/self") and started:
        return process_start_time(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
