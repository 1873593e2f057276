"""What a user's type checker finds; mypy reads the same job in ``make lint``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("planner", "runtime", "sorter", "state", "testing")


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_finds_nothing_in_a_job(tmp_path: Path) -> None:
    """A typical job has no error, and each line of it that is wrong on purpose has one, as its comment says."""
    package = tmp_path / "mixedmode"
    package.mkdir()
    for part in [*ROOT.glob("*.py"), ROOT / "py.typed", *(ROOT / part for part in PARTS)]:
        if part.exists():
            (package / part.name).symlink_to(part)
    job = tmp_path / "typed_job.py"
    job.write_text((ROOT / "tests" / "typed_job.py").read_text())
    settings = {"include": ["typed_job.py"], "typeCheckingMode": "standard", "extraPaths": ["."]}
    settings |= {"enableTypeIgnoreComments": False, "reportUnnecessaryTypeIgnoreComment": "error"}  # mypy has its own
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))

    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )

    report = json.loads(done.stdout)
    found = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]]
    assert report["summary"]["filesAnalyzed"] == 1
    assert found == []
