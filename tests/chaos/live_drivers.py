"""Drivers of jobs in Real-Time Mode: each serves one run after the other, and two work while one is stopped."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import process_tree
from drivers import DriverProcess, Lost, Wrong
from mixedmode.state.store.folder_owner import PLACE_VARIABLE


class LiveDrivers:
    """All drivers.

    Args:
        folder: takes a folder for each.
        brokers: of the topics.
        jars: of Spark's connector.
        deadline_s: see :class:`DriverProcess`.
    """

    def __init__(self, folder: Path, brokers: str, jars: str, deadline_s: float) -> None:
        self._folder, self._brokers, self._jars, self._deadline_s = folder, brokers, jars, deadline_s
        self._lock, self._checking = threading.Lock(), threading.Lock()
        #: None: it is being started.
        self._all: list[DriverProcess | None] = []
        self._idle: list[DriverProcess] = []

    def check(self, **where: str) -> dict[str, Any]:
        """Have a driver that nobody disturbs now compare what a run has committed."""
        with self._checking:
            checker = self.take()
            found: dict[str, Any] = checker.ask(do="compare", **where)
            self.give_back(checker)
            return found

    def take(self) -> DriverProcess:
        """One that has nothing to do."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            number = len(self._all)
            self._all.append(None)
        driver = DriverProcess(
            self._folder / f"driver-{number}",
            False,
            self._deadline_s,
            script="live_driver.py",
            arguments=[self._brokers, self._jars],
            more={
                # The daemon that forks the workers.
                "PYTHONPATH": str(Path(process_tree.__file__).parent),
                # Each counts as one of another host: one that is stopped has not died, and its place can be taken.
                PLACE_VARIABLE: f"host{number}.1",
            },
        )
        self._all[number] = driver
        return driver

    def give_back(self, driver: DriverProcess) -> None:
        """One is idle again; the dead are forgotten."""
        with suppress(Lost, Wrong, KeyError):
            if driver.ask(do="status")["jvm"]:
                self._idle.append(driver)
                return
        driver.end()

    def close(self) -> None:
        for driver in self._all:
            if driver is not None:
                driver.close()


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal; those that are gone are fine."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def victims(driver: DriverProcess, held: int, victim: str) -> list[int]:
    """The processes of a kind that a disturbance is for.

    Args:
        driver: whose.
        held: the process that is held: the victim if it is a worker.
        victim: the kind.
    """
    return [held] if victim == "worker" else process_tree.find(driver.pid, victim)


def state_of(driver: DriverProcess) -> dict[str, Any]:
    """How its job is.

    Raises:
        Lost: the driver or its JVM has died.
    """
    status: dict[str, Any] = driver.ask(do="status")
    if not status["jvm"]:
        driver.end()
        raise Lost
    return status
