"""A running job is asked from outside of its process: real commands, a real driver, real signals."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import support
from driver_jvm import KILLED, DriverJvm
from mixedmode.errors import QueryError
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.savepoints.store import open_savepoint
from mixedmode.runtime.driver.requests.remote_client import ask
from mixedmode.runtime.support.failpoints import VARIABLE
from support import World
from typer.testing import CliRunner

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_requests.py"
EVENTS = support.stream_of(120, seed=4)


class Job:
    """A folder, and the process that runs its job."""

    def __init__(self, folder: Path, jvm: DriverJvm) -> None:
        self.folder = folder
        self.jvm = jvm
        self.checkpoints = folder / "checkpoints"
        (folder / "landing").mkdir()
        support.write(folder / "history.parquet", EVENTS[:60])
        support.write(folder / "landing" / "00000.parquet", EVENTS[60:90])
        self.process: subprocess.Popen[str] | None = None

    def start(self, failpoints: str = "") -> None:
        """Start the driver and wait until it is live."""
        failing = {VARIABLE: failpoints}
        self.process = self.jvm.start(DRIVER, self.folder, environment=failing, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "live\n"

    def command(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the job's folder, with JSON; the run is in another process."""
        words = [str(argument) for argument in arguments]
        waits = ["--timeout", "300"] if words[0] in ("savepoint", "stop", "pause", "resume", "rescale") else []
        with pytest.MonkeyPatch.context() as there:
            there.chdir(self.folder)
            done = CliRunner().invoke(app, [*words, "--json", *waits])
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)

    def ended(self) -> int:
        """Wait for the driver's end; its exit code."""
        assert self.process is not None
        code = self.process.wait(300)
        self.jvm.settle()
        return code

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.jvm.settle()


@pytest.fixture
def job(tmp_path: Path, driver_jvm: DriverJvm) -> Iterator[Job]:
    made = Job(tmp_path, driver_jvm)
    yield made
    made.kill()


def test_savepoint_and_stop_by_command(job: Job, tmp_path: Path) -> None:
    """A job takes a savepoint in a pause, goes on, with other shards, and stops with another savepoint; started
    again and drained, nothing is missing."""
    job.start()
    paused = job.command("pause", job.checkpoints)
    assert (paused.returncode, json.loads(paused.stdout)) == (0, {"paused": True})
    first = job.command("savepoint", job.checkpoints, "first")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == {"savepoint": str(tmp_path / "first"), "stopped": False, "drained": False}
    again = job.command("savepoint", job.checkpoints, "first")
    assert again.returncode == 1 and "holds a savepoint" in again.stdout
    resumed = job.command("resume", job.checkpoints)
    assert (resumed.returncode, json.loads(resumed.stdout)) == (0, {"paused": False})
    rescaled = job.command("rescale", job.checkpoints, 3)
    assert (rescaled.returncode, json.loads(rescaled.stdout)) == (0, {"shards": 3, "stage": None})
    too_many = job.command("rescale", job.checkpoints, 999, "--stage", "sessions")
    assert too_many.returncode == 1 and "is 999; it must be a whole number from 1 to 128" in too_many.stdout
    assert job.process is not None and job.process.poll() is None
    stopped = job.command("stop", job.checkpoints, "--savepoint", tmp_path / "last")
    assert stopped.returncode == 0, stopped.stdout
    assert job.ended() == 0
    assert not list((job.checkpoints / "mixedmode" / "requests").iterdir())
    assert open_savepoint(str(tmp_path / "last")).latest().kind == "checkpoint"

    job.start()  # from the savepoint's checkpoint, with the shards that it has
    ended = job.command("stop", job.checkpoints, "--savepoint", tmp_path / "end", "--drain")
    assert ended.returncode == 0, ended.stdout
    assert job.ended() == 0
    assert support.committed(job.folder / "out") == support.sessions_of(EVENTS[:90])


@pytest.mark.slow
def test_driver_killed_while_it_writes_a_savepoint(job: Job) -> None:
    """The one who asked is told, nothing looks like a savepoint, and the job starts again with nothing missing.

    It is stopped and started once more, and ends by a drain: every open session is closed.
    """
    job.start("savepoint-before-metadata=kill")
    failed = job.command("savepoint", job.checkpoints, "sp")
    assert failed.returncode == 1 and "ended without an answer" in failed.stdout
    assert job.ended() == KILLED
    looked_at = job.command("inspect", "sp")
    assert looked_at.returncode == 2
    job.start()
    assert not list((job.checkpoints / "mixedmode").glob("requests/*.request"))
    stopped = job.command("stop", job.checkpoints)
    assert json.loads(stopped.stdout) == {"savepoint": None, "stopped": True, "drained": False}
    assert job.ended() == 0
    job.start()
    done = job.command("stop", job.checkpoints, "--savepoint", "other", "--drain")
    assert done.returncode == 0, done.stdout
    assert job.ended() == 0
    assert support.committed(job.folder / "out") == support.sessions_of(EVENTS[:90])
    _tells_its_three_runs(job)


def _tells_its_three_runs(job: Job) -> None:
    """The event log has them all: the one that was killed has no end, each of the others counts as a restart."""
    told = json.loads(job.command("history", job.checkpoints).stdout)
    began = [one for one in told if one["event"] == "RunBegan"]
    assert [one["generation"] for one in began] == [1, 2, 3]
    assert len({one["query_id"] for one in began}) == 1
    killed, stopped, drained = ([one for one in told if one["run_id"] == run["run_id"]] for run in began)
    assert "live" in [one["phase"] for one in killed if one["event"] == "PhaseBegan"]
    assert sum(one["input_rows"] for one in killed if one["event"] == "EpochApplied") == 90
    assert [one["how"] for one in killed if one["event"] == "RunEnded"] == []
    assert [one["event"] for one in stopped if one["event"] in ("RunRestored", "RunEnded")] == [
        "RunRestored",
        "RunEnded",
    ]
    (end,) = [one for one in drained if one["event"] == "RunEnded"]
    assert (end["how"], end["savepoint"], end["drained"]) == ("stopped", str(job.folder / "other"), True)
    assert job.command("history", job.checkpoints, "--run", began[1]["run_id"][:8]).stdout.count('"RunBegan"') == 1


def test_a_run_without_remote_control_looks_for_nothing(world: World) -> None:
    """With execution.remote-control = off a command is answered at once, and the query's own methods still work."""
    options = {"execution.remote-control": "off"}
    query = world.start(support.sessions(world.history(EVENTS[:20]), world.live()), options)
    assert query._requests is None
    support.live(query)
    with pytest.raises(QueryError, match="takes no requests"):
        ask(str(world.checkpoints), "stop")
    support.stop(query)
