"""Memory of a scan and of the merge behind it, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).parents[3] / "scan_memory_process.py"
#: Of a row: a text of 36 bytes with its offset, and a number.
_ROW_BYTES = 48
#: Pages and batches that are read, however small the budget is.
_READ_BYTES = 32 << 20


@pytest.mark.parametrize(
    ("memory_bytes", "times"), [pytest.param(8 << 20, 20, marks=pytest.mark.slow), (8 << 20, 4)], ids=["20x", "4x"]
)
def test_rows_of_many_times_the_budget_are_scanned_within_it(tmp_path: Path, memory_bytes: int, times: int) -> None:
    """Runs are written whenever the budget is used up, and merged a few buckets at a time; no row is lost."""
    rows = times * memory_bytes // _ROW_BYTES // 10 * 10
    arguments = [sys.executable, str(_PROGRAM), str(tmp_path), str(rows), str(memory_bytes)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert found["rows"] == rows
    assert found["runs"] >= times
    assert found["more_bytes"] <= 1.25 * memory_bytes + _READ_BYTES, f"{found['more_bytes'] / 2**20:.0f} MiB"
