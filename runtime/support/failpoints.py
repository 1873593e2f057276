"""Named points at which a test may kill or fail the process for real.

``MIXEDMODE_FAILPOINTS="name=kill;other=raise:3;third=kill-once:/tmp/flag"``: the process SIGKILLs itself when it
reaches ``name`` for the first time, raises when it reaches ``other`` for the third time, and dies at ``third`` if it
is the first process that manages to create the flag file (a retried task runs in a new process and must get through).
``stop`` instead of ``kill`` pauses the process (SIGSTOP) until somebody has it go on.
``kill-daemon-once:/tmp/flag`` takes the daemon along that the Python worker was forked from, and
``kill-executor-once:/tmp/flag`` the whole executor: the JVM that started the daemon.  ``kill-machine-once:/tmp/flag``
also takes the process that started the executor: a standalone cluster's worker.
``hold-once:/tmp/flag`` writes the process's id into the flag file, which must not exist, and waits until a file with
the suffix ``.go`` appears beside it: whoever looks on kills or stops what it wants meanwhile.
``kill-beside:other``: a thread that completes a checkpoint beside the epochs waits there until another thread reaches
``other``, and then the process dies; whoever has the turn goes on.
Unset (always, outside tests) a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter

VARIABLE = "MIXEDMODE_FAILPOINTS"

#: Which processes die with a worker: how many generations above it.
_ONCE = {"kill-once": 0, "kill-daemon-once": 1, "kill-executor-once": 2, "kill-machine-once": 3}

#: How names of threads begin that complete checkpoints beside the epochs.
BESIDE = "mixedmode-checkpoints-"

_hits: Counter[str] = Counter()


class InjectedFailure(RuntimeError):
    """Raised by a failpoint that was asked to ``raise``."""


def failpoint(name: str) -> None:
    """Die or raise here if the environment asks for it."""
    configured = os.environ.get(VARIABLE)
    if not configured:
        return
    _hits[name] += 1
    for item in configured.split(";"):
        point, _, action = item.strip().partition("=")
        if point != name:
            continue
        verb, _, argument = action.partition(":")
        if verb == "kill-beside":
            _kill_beside(argument)
        elif verb == "hold-once":
            _hold_once(argument)
        elif verb in _ONCE:
            _kill_once(argument, _ONCE[verb])
        elif _hits[name] == int(argument or 1):
            if verb == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if verb == "stop":
                # To this thread: one sent to the process may let it run on until another thread has seen it.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
                return
            raise InjectedFailure(f"failpoint {name!r}, hit {_hits[name]}")


def _kill_beside(other: str) -> None:
    if threading.current_thread().name.startswith(BESIDE):
        before = _hits[other]
        while _hits[other] == before:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)


def _hold_once(flag: str) -> None:
    try:
        descriptor = os.open(flag, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    while not os.path.exists(f"{flag}.go"):
        time.sleep(0.002)


def _kill_once(flag: str, generations: int) -> None:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    victims = [os.getpid()]
    for _ in range(generations):
        victims.append(_parent(victims[-1]))
    # From above, so that nobody starts anew what is below; the daemon ends with the executor that started it.
    for victim in (*(reversed(victims[2:]) if generations > 1 else victims[generations:]), os.getpid()):
        os.kill(victim, signal.SIGKILL)


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])
