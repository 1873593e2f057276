"""What passes remember whose tasks have read files in vain; no Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import PlanError
from mixedmode.runtime.jobs.scan_pass import ScanPass, ScanPlace
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyarrow import fs


def scan_pass(folder: Path, engine: str = "auto") -> ScanPass:
    """A pass whose unfinished backlog leaves things in a folder."""
    nobody: Any = SimpleNamespace(uid="stage", backlog_engine=engine)
    local = fs.LocalFileSystem()
    place = ScanPlace(str(folder / "runs"), str(folder / "stopped"))
    return ScanPass(nobody, nobody, nobody, local, place, 128, "run")


def test_a_scan_that_was_stopped_is_not_begun_again(tmp_path: Path) -> None:
    """The next run of the same backlog knows the reason; another scan, another stage's and no scan at all do not."""
    scan_pass(tmp_path).check_not_stopped(["a.parquet"])
    scan_pass(tmp_path).leave_to_spark(NotTakenError("row 7 überläuft"), scans=["a.parquet"])
    with pytest.raises(NotTakenError, match="an earlier run was stopped: row 7 überläuft"):
        scan_pass(tmp_path).check_not_stopped(["a.parquet"])
    scan_pass(tmp_path).check_not_stopped(["a.parquet", "b.parquet"])


def test_what_was_never_scanned_is_not_remembered(tmp_path: Path) -> None:
    """Spark may read a plan that tasks cannot, and tasks the next one."""
    scan_pass(tmp_path).leave_to_spark(NotTakenError("a UDF"))
    scan_pass(tmp_path).check_not_stopped(["a.parquet"])


def test_who_asks_for_arrow_gets_the_error_each_time(tmp_path: Path) -> None:
    """``execution.backlog.engine`` = ``arrow`` neither remembers nor asks."""
    scan_pass(tmp_path).leave_to_spark(NotTakenError("why"), scans=["a.parquet"])
    with pytest.raises(PlanError, match="cannot be had"):
        scan_pass(tmp_path, "arrow").leave_to_spark(NotTakenError("why"), scans=["a.parquet"])
    scan_pass(tmp_path, "arrow").check_not_stopped(["a.parquet"])
