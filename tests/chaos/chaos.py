"""Runs random jobs, kills what they consist of, and compares what they commit with what their rows must give.

``python tests/chaos/chaos.py --seconds 300 --seed 1`` (or ``make chaos SECONDS=300 SEED=1``); the last line is
``N disturbed runs, K kills, E epochs beside checkpoints, D differences``.  ``--seed 1 --run 17`` repeats one of them.

With ``--realtime`` the jobs are in Real-Time Mode, from topic to topic of a broker, and their processes are also
stopped, and go on (``live_run.py``).  The last line then is
``N disturbed runs, K disturbances, C checkpoints, E epochs, D differences``.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))

from dataclasses import replace

import live_series
from drivers import Drivers, Wrong
from plans import Plan, plan_of
from run import Run
from series import made, numbers


def main() -> int:
    arguments = _parse()
    if arguments.realtime:
        return live_series.perform(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that no driver is left behind
    folder = Path(tempfile.mkdtemp(prefix="mixedmode-chaos-"))
    drivers = Drivers(folder, arguments.deadline)
    began = time.monotonic()
    runs = kills = overlaps = 0
    differences: list[int] = []
    try:
        for number in numbers(arguments, began):
            plan = _plan(arguments, number)
            run, started = Run(plan, made(folder / f"run-{number}"), drivers), time.monotonic()
            try:
                run.perform()
                verdict = "ok"
            except Wrong as wrong:
                differences.append(number)
                verdict = (
                    f"DIFFERENCE: {wrong}\n  files: {folder}/run-{number}; to reproduce: {_again(arguments, number)}"
                )
                drivers.drop()
            runs += 1
            kills += len(run.kills)
            overlaps += run.overlaps
            killed = ", ".join(map(str, run.kills)) or "nothing killed"
            took = f"{time.monotonic() - started:.0f} s, {run.lives} drivers, {run.overlaps} epochs beside checkpoints"
            print(f"run {number}: {plan}: {killed}; {took}: {verdict}", flush=True)
            if verdict == "ok" and not arguments.keep:
                shutil.rmtree(folder / f"run-{number}")
    finally:
        drivers.close()
        if differences or arguments.keep:
            print(f"files and logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for number in differences:
        print(f"to reproduce: {_again(arguments, number)}")
    beside = f"{overlaps} epochs beside checkpoints"
    print(f"{runs} disturbed runs, {kills} kills, {beside}, {len(differences)} differences", flush=True)
    return 1 if differences else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what all runs follow from (default: 1)")
    parser.add_argument("--seconds", type=float, help="begin no run later than this")
    parser.add_argument("--runs", type=int, help="how many runs")
    parser.add_argument("--run", type=int, help="only the run of this number")
    parser.add_argument("--cluster-every", type=int, default=8, help="every how manieth run is on a cluster; 0: none")
    parser.add_argument("--deadline", type=float, default=300, help="the most that a step may take, in seconds")
    parser.add_argument("--keep", action="store_true", help="keep files and logs of all runs")
    parser.add_argument("--realtime", action="store_true", help="jobs in Real-Time Mode")
    parser.add_argument("--brokers", help="of the topics, in Real-Time Mode; without it a broker is started")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at once, in Real-Time Mode")
    parser.add_argument("--calm", action="store_true", help="kill nothing: is it the job, or the kills?")
    arguments = parser.parse_args()
    if arguments.seconds is None and arguments.runs is None and arguments.run is None:
        arguments.seconds = 60
    return arguments


def _plan(arguments: argparse.Namespace, number: int) -> Plan:
    cluster = bool(arguments.cluster_every) and number % arguments.cluster_every == arguments.cluster_every - 1
    plan = plan_of(arguments.seed, number, cluster=cluster)
    return replace(plan, steps=[replace(step, disturbances=()) for step in plan.steps]) if arguments.calm else plan


def _again(arguments: argparse.Namespace, number: int) -> str:
    every = arguments.cluster_every
    return f"{sys.executable} tests/chaos/chaos.py --seed {arguments.seed} --run {number} --cluster-every {every}"


if __name__ == "__main__":
    sys.exit(main())
