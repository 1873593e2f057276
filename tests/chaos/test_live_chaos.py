"""A few disturbed runs in Real-Time Mode; ``make chaos ARGS=--realtime`` makes many."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_broker import Broker

sys.path.append(str(Path(__file__).parent))
from live_plans import plan_of
from live_points import CASES

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.kafka, pytest.mark.timeout(1800)]

CHAOS = Path(__file__).with_name("chaos.py")
#: A driver dies, and another one takes its place while the JVM of the first is stopped; and a worker is stopped.
SEED, RUNS = 1017, 2
_LAST = r"(\d+) disturbed runs, (\d+) disturbances, (\d+) checkpoints, (\d+) epochs, (\d+) differences"


def test_runs_go_through_all_cases() -> None:
    """A seed makes the same plans again, and as many runs as there are cases have each of them."""
    plans = [plan_of(SEED, number) for number in range(len(CASES))]
    assert plans == [plan_of(SEED, number) for number in range(len(CASES))]
    firsts = [plan.disturbances[0] for plan in plans]
    assert {(one.point, one.victim, one.way) for one in firsts} == set(CASES)


@pytest.mark.slow
def test_a_torn_epoch_is_never_committed(kafka: Broker) -> None:
    """Whatever was killed or stopped, each committed state is that of a batch, and the output has what counts."""
    command = [sys.executable, str(CHAOS), "--realtime", "--brokers", kafka.bootstrap]
    command += ["--seed", str(SEED), "--runs", str(RUNS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1750)
    assert done.returncode == 0, done.stdout
    said = re.fullmatch(_LAST, done.stdout.splitlines()[-1])
    assert said is not None, done.stdout
    runs, disturbances, _, epochs, differences = map(int, said.groups())
    assert (runs, differences) == (RUNS, 0), done.stdout
    assert disturbances >= RUNS, done.stdout
    assert epochs >= RUNS, done.stdout
