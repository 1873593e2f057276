"""One chaos run; ``make chaos`` makes many."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(1800)]  # several drivers, one after the other

CHAOS = Path(__file__).with_name("chaos.py")
#: One in which a JVM is killed, a driver, daemons and workers, and epochs run beside checkpoints that take long.
SEED, RUN, LEAST_BESIDE = 201, 1, 2
#: The last line of what it prints.
_LAST = r"(\d+) disturbed runs, (\d+) kills, (\d+) epochs beside checkpoints, (\d+) differences"


@pytest.mark.slow
def test_a_random_job_survives_random_kills() -> None:
    """Whatever was killed, the job has committed what its rows give, once, and its state is what it must be."""
    command = [sys.executable, str(CHAOS), "--seed", str(SEED), "--run", str(RUN), "--cluster-every", "0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1750)
    assert done.returncode == 0, done.stdout
    said = re.fullmatch(_LAST, done.stdout.splitlines()[-1])
    assert said is not None, done.stdout
    runs, kills, beside, differences = map(int, said.groups())
    assert (runs, differences) == (1, 0), done.stdout
    assert kills >= 2, done.stdout
    assert beside >= LEAST_BESIDE, done.stdout
