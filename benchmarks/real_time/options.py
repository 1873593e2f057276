"""What a run is told on its command line."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

_RUNS = Path(__file__).resolve().parents[2] / "build" / "real_time"
#: A small heap of young objects and the quick compiler alone: both leave the two cores to the rows.
_JVM = "-XX:+UseSerialGC -Xmn128m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


@dataclass(frozen=True)
class Options:
    """One run.

    Args:
        rate: rows per second.
        seconds: how long they come.
        epoch_s: the length of an epoch (the trigger ``realTime``).
        keys: how many keys there are; all have state before the run.
        warm_up_s: how long a query of the same plan runs before, as a job's backlog would.
        check: wait for the end of the last epoch and compare the committed state with a plain batch.
        jvm: more options of the JVM.
        folder: where all files of the run are; it is made anew.
    """

    rate: float
    seconds: float
    epoch_s: float
    keys: int
    warm_up_s: float
    check: bool
    jvm: str
    folder: str


def from_command_line() -> Options:
    """The options of this process."""
    parser = argparse.ArgumentParser(description="A live phase in Real-Time Mode with the commit protocol.")
    parser.add_argument("--rate", type=float, default=1000, help="rows per second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=135, help="how long they come (%(default)s)")
    parser.add_argument(
        "--epoch", type=float, default=60, help="seconds of an epoch (%(default)s); job.py takes 0 for micro-batches"
    )
    parser.add_argument("--keys", type=int, default=100_000, help="keys, all with state (%(default)s)")
    parser.add_argument("--warm-up", type=float, default=20, help="seconds; 0: none (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the committed state with a plain batch")
    parser.add_argument("--jvm", default=_JVM, help="more options of the JVM, as --jvm=-XX:+UseG1GC (%(default)s)")
    parser.add_argument("--folder", help="where files of the run are, made anew (build/real_time/<time>)")
    told = parser.parse_args()
    folder = os.path.abspath(told.folder or _RUNS / time.strftime("%H%M%S"))
    return Options(told.rate, told.seconds, told.epoch, told.keys, told.warm_up, told.check, told.jvm, folder)
