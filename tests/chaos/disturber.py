"""Kills processes from inside a driver when its job reaches failpoints, and has workers kill at theirs.

A point of a task is armed by removing a flag file: the worker that gets there first makes it again and dies (or its
daemon, or its executor).  So the workers' environment is the same for the whole life of a driver.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import process_tree
from mixedmode.runtime.support import failpoints
from points import TASK_LIVE, TASK_START, TASK_VICTIMS, Disturbance


def flag_of(folder: Path, one: Disturbance) -> Path:
    """The flag file of a disturbance in a task."""
    return folder / f"{one.point}.{one.victim}"


def prepare_workers(folder: Path) -> None:
    """Before Spark is started: tell what will be its workers where they may be killed, and that nobody is yet."""
    items = []
    for point in {*TASK_START, *TASK_LIVE}:
        for victim, verb in TASK_VICTIMS.items():
            flag = flag_of(folder, Disturbance(point, victim))
            flag.touch()
            items.append(f"{point}={verb}:{flag}")
    os.environ[failpoints.VARIABLE] = ";".join(items)


class Disturber:
    """The disturbances at points in the driver.

    Args:
        kills: file with a line for each kill: the number of the disturbance, and where it happened.
        overlaps: file with a byte for each epoch that was applied while a checkpoint was completed beside it.
    """

    def __init__(self, kills: Path, overlaps: Path) -> None:
        self._kills = kills
        self._overlaps = overlaps
        #: How much longer each step takes of a checkpoint that is completed beside epochs.
        self.beside_s = 0.0
        self._are_held = 0
        self._lock = threading.Lock()
        self._armed: list[tuple[int, Disturbance, Counter[str]]] = []
        self._waiting: list[threading.Thread] = []

    def install(self) -> None:
        """Hear of every failpoint that this process reaches."""
        original = failpoints.failpoint
        for module in list(sys.modules.values()):
            if getattr(module, "failpoint", None) is original:
                module.failpoint = self.reached  # type: ignore[attr-defined]

    def arm(self, number: int, one: Disturbance) -> None:
        """Disturb, besides what is armed already."""
        with self._lock:
            self._armed.append((number, one, Counter()))

    def disarm(self) -> None:
        """Disturb no more."""
        with self._lock:
            self._armed.clear()
        for thread in self._waiting:
            thread.join()
        self._waiting.clear()

    def reached(self, name: str) -> None:
        """In place of :func:`mixedmode.runtime.support.failpoints.failpoint`."""
        due = []
        with self._lock:
            for entry in list(self._armed):
                number, one, hits = entry
                if one.point in ("*", name):
                    hits[one.point] += 1
                    if hits[one.point] == one.nth:
                        self._armed.remove(entry)
                        due.append((number, one))
        for number, one in due:
            if one.after_ms:
                thread = threading.Timer(one.after_ms / 1000, self._kill, [number, one, name])
                self._waiting.append(thread)
                thread.start()
            else:
                self._kill(number, one, name)
        if threading.current_thread().name.startswith(failpoints.BESIDE):
            self._take_long()
        elif name == "epoch-applied" and self._are_held:
            with open(self._overlaps, "ab") as overlaps:
                overlaps.write(b".")

    def _take_long(self) -> None:
        if self.beside_s:
            self._are_held += 1  # one thread completes checkpoints
            time.sleep(self.beside_s)
            self._are_held -= 1

    def _kill(self, number: int, one: Disturbance, name: str) -> None:
        found = process_tree.find(os.getpid(), one.victim)
        if found:
            with open(self._kills, "a", encoding="utf-8") as kills:
                kills.write(f"{number} {name}\n")
            process_tree.kill([found[number % len(found)]])
