"""A short chaos run; ``make chaos`` makes long ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(1800)]  # several drivers, one after the other

CHAOS = Path(__file__).with_name("chaos.py")
RUNS = 2


def test_random_jobs_survive_random_kills() -> None:
    """Whatever was killed, each job has committed what its rows give, once, and its state is what it must be."""
    command = [sys.executable, str(CHAOS), "--seed", "1", "--runs", str(RUNS), "--cluster-every", "0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1750)
    assert done.returncode == 0, done.stdout
    said = re.fullmatch(r"(\d+) disturbed runs, (\d+) kills, (\d+) differences", done.stdout.splitlines()[-1])
    assert said is not None, done.stdout
    runs, kills, differences = map(int, said.groups())
    assert (runs, differences) == (RUNS, 0), done.stdout
    assert kills >= RUNS, done.stdout
