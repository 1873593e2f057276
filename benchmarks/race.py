"""A race: several ways of doing one thing, run in turn round by round, so that noise of the machine hits all alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from processes import cpu_s, settle


@dataclass
class Race:
    """The ways by name, how often each is run, and the seconds that it took.

    Args:
        ways: what is run; the order is that of a round.
        rounds: timed rounds of each way.
        outside: wraps a run outside of its measured time (makes and removes folders).
    """

    ways: Mapping[str, Callable[[Any], None]]
    rounds: Mapping[str, int]
    outside: Callable[[], Any] = nullcontext
    seconds: dict[str, list[float]] = field(default_factory=dict)
    #: CPU time of this process, Spark's JVM and Python workers in each of the runs.
    cpu_s: dict[str, list[float]] = field(default_factory=dict)

    def round(self) -> None:
        """Run every way that still has rounds to go, each when what was before it has come to rest."""
        for name, way in self.ways.items():
            if len(self.seconds.setdefault(name, [])) >= self.rounds[name]:
                continue
            with self.outside() as given:
                settle(os.getpid())
                used_s, started = cpu_s(os.getpid()), time.perf_counter()
                way(given)
                self.seconds[name].append(time.perf_counter() - started)
                self.cpu_s.setdefault(name, []).append(cpu_s(os.getpid()) - used_s)

    def run(self, benchmark: Any) -> dict[str, list[float]]:
        """All rounds under pytest-benchmark, whose own figure is the time of a whole round."""
        benchmark.pedantic(self.round, rounds=max(self.rounds.values()))
        benchmark.extra_info["seconds"] = self.seconds
        return self.seconds

    @property
    def cpu_note(self) -> str:
        """The medians of CPU time by way, in a line."""
        return f"CPU-seconds: {', '.join(f'{name} {median(each):.3g}' for name, each in self.cpu_s.items())}"


def ratio(seconds: Mapping[str, list[float]], way: str, baseline: str) -> float:
    """How many times faster ``way`` is than ``baseline``, by medians."""
    return median(seconds[baseline]) / median(seconds[way])
