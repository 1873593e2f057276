"""Disturbed runs in Real-Time Mode, one after the other, on a broker, and how many there were of each."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import maven_jars
from drivers import Wrong
from kafka_broker import Broker, Use
from live_drivers import LiveDrivers
from live_plans import plan_of
from live_points import LiveDisturbance, table
from live_run import LiveRun
from series import made, numbers


def perform(arguments: argparse.Namespace) -> int:
    """Make the runs; returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that no driver is left behind
    folder = Path(tempfile.mkdtemp(prefix="mixedmode-chaos-"))
    use = None if arguments.brokers else Use(folder / "broker", maven_jars.jars("broker"))
    brokers = use.bootstrap if use is not None else arguments.brokers
    jars = ",".join(map(str, maven_jars.jars("connector")))
    drivers = LiveDrivers(folder, brokers, jars, arguments.deadline)
    series = _Series(arguments, folder, drivers, brokers)
    wanted, lock = numbers(arguments, time.monotonic()), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(wanted, None)
            if number is None:
                return
            series.make(number)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(arguments.jobs)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        drivers.close()
        if use is not None:
            use.close()
        if series.differences or arguments.keep:
            print(f"files and logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        series.show()
    return 1 if series.differences else 0


@dataclass
class _Series:
    arguments: argparse.Namespace
    folder: Path
    drivers: LiveDrivers
    brokers: str
    runs: int = 0
    checkpoints: int = 0
    epochs: int = 0
    disturbances: list[LiveDisturbance] = field(default_factory=list)
    differences: list[int] = field(default_factory=list)

    def make(self, number: int) -> None:
        """Make a run, and say what came of it."""
        plan = plan_of(self.arguments.seed, number)
        if self.arguments.calm:
            plan = replace(plan, disturbances=())
        started, path = time.monotonic(), made(self.folder / f"run-{number}")
        run = LiveRun(plan, path, self.drivers, Broker(self.brokers))
        try:
            run.perform()
            verdict = "ok"
        except Exception as wrong:
            self.differences.append(number)
            verdict = f"DIFFERENCE: {wrong!r}\n  files: {path}; to reproduce: {_again(self.arguments, number)}"
            if not isinstance(wrong, Wrong):
                traceback.print_exc()
        self.runs, self.epochs, self.checkpoints = (
            self.runs + 1,
            self.epochs + run.epochs,
            self.checkpoints + run.checkpoints,
        )
        self.disturbances += run.kills
        happened = ", ".join(map(str, run.kills)) or "nothing disturbed"
        counts = f"{run.lives} drivers, {run.checkpoints} checkpoints, {run.epochs} of epochs"
        took = f"{time.monotonic() - started:.0f} s, {counts}"
        ended = "".join(f"\n  ended {count} times: {error}" for error, count in run.errors.items())
        print(f"run {number}: {plan}: {happened}; {took}: {verdict}{ended}", flush=True)
        if verdict == "ok" and not self.arguments.keep:
            shutil.rmtree(path)

    def show(self) -> None:
        """Say what came of all of them."""
        print(table(self.disturbances))
        for number in self.differences:
            print(f"to reproduce: {_again(self.arguments, number)}")
        said = f"{len(self.disturbances)} disturbances, {self.checkpoints} checkpoints, {self.epochs} epochs"
        print(f"{self.runs} disturbed runs, {said}, {len(self.differences)} differences", flush=True)


def _again(arguments: argparse.Namespace, number: int) -> str:
    return f"{sys.executable} tests/chaos/chaos.py --realtime --seed {arguments.seed} --run {number}"
