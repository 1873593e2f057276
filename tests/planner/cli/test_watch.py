"""``mixedmode watch`` from another process: what it prints into a pipe, and its exit codes; without Spark."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from event_support import RUN, a_run, began, common, epoch, phase, put
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.metrics.events.event_reader import HistoryTail
from mixedmode.runtime.metrics.events.events import RunEnded, RunEvent
from pyarrow import fs
from typer.testing import CliRunner


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[DriverLease]:
    lease = DriverLease(fs.LocalFileSystem(), f"{tmp_path}/mixedmode", RUN[:8])
    lease.take()
    yield lease
    lease.release()


@pytest.mark.parametrize(("how", "code"), [("stopped", 0), ("finished", 0), ("failed", 1)])
def test_the_exit_code_tells_how_the_run_ended(tmp_path: Path, lease: DriverLease, how: Any, code: int) -> None:
    """0 for one that ended well, 1 for one that failed."""
    put(a_run(tmp_path).part(1), began(), phase("live", 1), epoch(1, 2), RunEnded(**common(3), how=how, error="boom"))
    done = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert done.exit_code == code, done.output
    assert "1970-01-01 00:00:00 phase      live" in done.stdout and f" {how} " in done.stdout


def test_without_a_job_the_last_run_is_shown(tmp_path: Path) -> None:
    """Exit code 3, and what the last run has left."""
    put(a_run(tmp_path).part(1), began(), phase("live", 1), RunEnded(**common(3), how="failed", error="boom"))
    done = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert done.exit_code == 3 and "boom" in done.stdout and "no job is running" in done.stderr


def test_ctrl_c_leaves_the_job_alone(tmp_path: Path, lease: DriverLease) -> None:
    """The command ends with exit code 130, the run goes on."""
    put(a_run(tmp_path).part(1), began(), phase("live", 1), epoch(1, 2))
    command = [sys.executable, "-m", "mixedmode", "watch", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        while "phase" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "the job still runs" in process.stderr.read()
    lease.check(look=True)
    with contextlib.redirect_stdout(io.StringIO()):
        assert CliRunner().invoke(app, ["status", str(tmp_path)]).exit_code == 0


def test_a_location_that_cannot_be_read_any_more_is_said(
    tmp_path: Path, lease: DriverLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, and the reason, instead of a traceback."""

    def lost(tail: HistoryTail) -> list[RunEvent]:
        raise OSError("the store is gone")

    monkeypatch.setattr(HistoryTail, "new_events", lost)
    done = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert done.exit_code == 1 and "cannot be read: the store is gone" in done.stderr
