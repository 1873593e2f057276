"""Disturbed runs in Real-Time Mode, one after the other, on a broker of their own, and how many there were of each."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
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
    use = Use(folder / "broker", maven_jars.jars("broker"))
    jars = ",".join(map(str, maven_jars.jars("connector")))
    drivers = LiveDrivers(folder, use.bootstrap, jars, arguments.deadline)
    began, runs, epochs = time.monotonic(), 0, 0
    disturbances: list[LiveDisturbance] = []
    differences: list[int] = []
    try:
        for number in numbers(arguments, began):
            plan = plan_of(arguments.seed, number)
            if arguments.calm:
                plan = replace(plan, disturbances=())
            started, path = time.monotonic(), made(folder / f"run-{number}")
            run = LiveRun(plan, path, drivers, Broker(use.bootstrap))
            try:
                run.perform()
                verdict = "ok"
            except Wrong as wrong:
                differences.append(number)
                verdict = f"DIFFERENCE: {wrong}\n  files: {path}; to reproduce: {_again(arguments, number)}"
                drivers.end()
            runs, epochs = runs + 1, epochs + run.epochs
            disturbances += run.kills
            happened = ", ".join(map(str, run.kills)) or "nothing disturbed"
            counts = f"{run.lives} drivers, {run.checkpoints} checkpoints, {run.epochs} of epochs"
            took = f"{time.monotonic() - started:.0f} s, {counts}"
            ended = "".join(f"\n  ended {count} times: {error}" for error, count in run.errors.items())
            print(f"run {number}: {plan}: {happened}; {took}: {verdict}{ended}", flush=True)
            if verdict == "ok" and not arguments.keep:
                shutil.rmtree(path)
    finally:
        drivers.end()
        use.close()
        if differences or arguments.keep:
            print(f"files and logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(table(disturbances))
    for number in differences:
        print(f"to reproduce: {_again(arguments, number)}")
    said = f"{len(disturbances)} disturbances, {epochs} epochs"
    print(f"{runs} disturbed runs, {said}, {len(differences)} differences", flush=True)
    return 1 if differences else 0


def _again(arguments: argparse.Namespace, number: int) -> str:
    return f"{sys.executable} tests/chaos/chaos.py --realtime --seed {arguments.seed} --run {number}"
