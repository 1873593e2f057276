"""Real SIGKILLs while a job drains or writes a savepoint: all of it has happened, or nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mixedmode
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from mixedmode import CheckpointError
from mixedmode.runtime.checkpoints.savepoints.store import open_savepoint

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_endings.py"
EVENTS = support.stream_of(200, seed=8)
#: What has come when a job is drained.
UNTIL = 150


class Job:
    """The folders of one job, and the processes that run it, one after the other."""

    def __init__(self, folder: Path, jvm: DriverJvm) -> None:
        self.folder = folder
        self.jvm = jvm
        support.write_inputs(folder, EVENTS[:100], EVENTS[100:UNTIL], EVENTS[UNTIL:], support.flush_after(EVENTS))

    def run(self, how: str, failpoints: str = "") -> int:
        """Run the driver to its end; the savepoint goes to a folder that is named after the failpoint."""
        return self.jvm.run(DRIVER, self.folder, how, self.savepoint(failpoints), failpoints).returncode

    def savepoint(self, failpoints: str) -> Path:
        return self.folder / failpoints.partition("=")[0]

    @property
    def output(self) -> list[tuple]:
        return support.without_flush(support.committed(self.folder / "out"))


@pytest.mark.slow
def test_killed_before_the_checkpoint_of_a_drain(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed when a drain has fired, while a savepoint is copied, and before the drain's checkpoint: nothing that a
    drain fires is visible, no folder is a savepoint, and in the end the output is that of the undisturbed run."""
    job = Job(tmp_path, driver_jvm)
    seen = []
    for how, point in (
        ("drain", "stop-before-copy=kill"),
        ("savepoint", "savepoint-copy=kill:2"),
        ("drain", "checkpoint-before-metadata=kill"),
    ):
        assert job.run(how, point) == KILLED, point
        seen.append(job.output)
        with pytest.raises(CheckpointError, match="never finished"):
            open_savepoint(str(job.savepoint(point)))
    assert seen == [seen[0]] * 3
    assert set(support.sessions_of(EVENTS[:UNTIL])) - set(seen[0]), "some sessions were open"
    assert job.run("on") == 0
    assert job.output == support.sessions_of(EVENTS)


@pytest.mark.slow
def test_killed_after_the_checkpoint_of_a_drain(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed right behind the drain's checkpoint, around the savepoint's own metadata, and again while the next run
    makes up for it: the drain has happened, so its savepoint is made before anything else is done."""
    job = Job(tmp_path, driver_jvm)
    asked: list[str] = []

    def made() -> list[str]:
        return [point for point in asked if (job.savepoint(point) / "_metadata").exists()]

    for how, point in (
        ("drain", "checkpoint-after-metadata=kill"),
        ("drain", "savepoint-before-metadata=kill"),
        ("on", "savepoint-copy=kill"),
        ("drain", "savepoint-after-metadata=kill"),
    ):
        assert job.run(how, point) == KILLED, point
        if how == "drain":
            assert made() == asked, "the run has made those before it"
            asked.append(point)
            if point == "checkpoint-after-metadata=kill":
                assert job.output != support.sessions_of(EVENTS[:UNTIL])
                continue
        assert job.output == support.sessions_of(EVENTS[:UNTIL])
        assert (made() == asked) == (point == "savepoint-after-metadata=kill"), point
    assert job.run("on") == 0
    for point in asked:
        (found,) = mixedmode.state_reader(str(job.savepoint(point))).checkpoints(verify=True)
        assert (found.kind, found.drained, found.damage) == ("savepoint", True, None)
        assert not (job.savepoint(point) / "_unfinished").exists()
    two_jobs = sorted([*support.sessions_of(EVENTS[:UNTIL]), *support.sessions_of(EVENTS[UNTIL:])], key=repr)
    assert two_jobs != support.sessions_of(EVENTS)
    assert job.output == two_jobs


@pytest.mark.slow
def test_killed_after_the_checkpoint_of_a_stop_without_drain(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """The savepoint of a suspended job is finished by command, without the job; one that begins from it elsewhere gives
    what an undisturbed run would."""
    job = Job(tmp_path, driver_jvm)
    point = "savepoint-before-metadata=kill"
    assert job.run("suspend", point) == KILLED
    command = [sys.executable, "-m", "mixedmode", "savepoint", "checkpoints", "--complete", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["savepoint"] == str(job.savepoint(point))
    before = job.output
    assert set(support.sessions_of(EVENTS[:UNTIL])) - set(before), "some sessions are open"
    assert job.run("restored", point) == 0
    after = support.without_flush(support.committed(tmp_path / "restored" / "out"))
    assert job.output == before
    assert sorted([*before, *after], key=repr) == support.sessions_of(EVENTS)
