"""The small examples run as they are, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("script", "said"),
    [("quickstart.py", "live"), ("quiet_customers.py", "EQUAL to one batch over everything: 20 alerts")],
)
def test_example_runs(script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script ends well and says what the README promises of it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script)], cwd=tmp_path, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
