"""Who drives a checkpoint location."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.driver_lease import DriverLease
from mixedmode.state.owner import process_start_time
from pyarrow import fs


def lease(folder: Path, run: str) -> DriverLease:
    return DriverLease(fs.LocalFileSystem(), str(folder), run)


def held_by(folder: Path, **changes: object) -> None:
    """The location is held by run ``first``, as ``changes`` say."""
    lease(folder, "first").take()
    path = folder / "driver.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_living_driver_keeps_the_location(tmp_path: Path) -> None:
    """A second run is refused while the first one lives, and admitted once it has released the location."""
    first, second = lease(tmp_path, "first"), lease(tmp_path, "second")
    first.take()
    with pytest.raises(CheckpointError, match=r"another driver \(run first, in this process\)"):
        second.take()
    first.check()
    second.release()
    first.check()
    first.release()
    second.take()
    second.check()


def test_another_process_is_named(tmp_path: Path) -> None:
    """The refusal says which process has the location; a dead process has nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        held_by(tmp_path, pid=other.pid, started=process_start_time(other.pid) or 0)
        with pytest.raises(CheckpointError, match=f"process {other.pid} on this host"):
            lease(tmp_path, "second").take()
        other.kill()
        other.wait()
        lease(tmp_path, "second").take()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"run": "first"'])
def test_a_damaged_file_holds_nobody_off(tmp_path: Path, body: bytes) -> None:
    """A file that was cut off in a crash is no claim."""
    (tmp_path / "driver.json").write_bytes(body)
    lease(tmp_path, "second").take()
    lease(tmp_path, "second").check()


def test_a_driver_elsewhere_loses_the_location(tmp_path: Path) -> None:
    """A run on another host cannot be asked whether it lives: the newcomer takes over, and the old run is told."""
    held_by(tmp_path, place="elsewhere.1")
    lease(tmp_path, "second").take()
    with pytest.raises(CheckpointError, match=r"run second\) has taken over"):
        lease(tmp_path, "first").check()
