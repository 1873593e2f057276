"""A driver that gets SIGTERM: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import support
from driver_jvm import DriverJvm
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.savepoints.store import open_savepoint
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.support.failpoints import VARIABLE
from pyarrow import fs

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_sigterm.py"
EVENTS = support.stream_of(160, seed=4)
TERMINATED = -signal.SIGTERM


class Job:
    """A folder, and the process that runs its job."""

    def __init__(self, folder: Path, jvm: DriverJvm) -> None:
        self.folder, self.jvm = folder, jvm
        self.go, self.waiting = folder / "go", folder / "waiting"
        (folder / "landing").mkdir()
        support.write(folder / "history.parquet", EVENTS[:60])
        self.landed = 0
        self.process: subprocess.Popen[str] | None = None

    def land(self, first: int, last: int, more: list[support.Event] | None = None) -> None:
        path = self.folder / "landing" / f".{self.landed:05d}.parquet"
        support.write(path, EVENTS[first:last] + (more or []))
        path.rename(path.with_name(path.name[1:]))
        self.landed += 1

    def start(self, how: str = "", failpoints: str = "", *, own_jvm: bool = False) -> None:
        """Start the driver: in a process group of its own, perhaps with a JVM of its own in it."""
        around = {VARIABLE: failpoints, "TEST_GO": str(self.go)}
        pipes = {"stdout": subprocess.PIPE, "start_new_session": True}
        self.process = self.jvm.start(DRIVER, self.folder, how, environment=around, own_jvm=own_jvm, **pipes)

    def said(self) -> str:
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait_until(self, holds: Callable[[], object]) -> None:
        assert self.process is not None
        while not holds():
            assert self.process.poll() is None, "it has ended"
            time.sleep(0.02)

    def is_stopped(self) -> bool:
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def signal(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self) -> int:
        assert self.process is not None
        code = self.process.wait(120)
        self.jvm.settle()
        return code

    def latest(self) -> CheckpointMetadata:
        metadata = CheckpointStore(fs.LocalFileSystem(), str(self.folder / "checkpoints")).latest()
        assert metadata is not None
        return metadata

    def output(self) -> list[tuple[object, ...]]:
        return support.without_flush(support.committed(self.folder / "out"))


@pytest.fixture
def job(tmp_path: Path, driver_jvm: DriverJvm) -> Iterator[Job]:
    made = Job(tmp_path, driver_jvm)
    yield made
    if made.process is not None and made.process.poll() is None:
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()
        made.jvm.settle()


@pytest.mark.slow
def test_sigterm_ends_a_job_wherever_it_is(job: Job) -> None:
    """Each run of the job is ended by SIGTERM at another place, and the next one goes on; the result is right.

    In the backlog it ends soon, and finished shards are kept.  An epoch in hand, or a checkpoint, is completed, also
    when the JVM gets the signal as well.  A second signal ends the process at once, whatever the program does with the
    first.  Several queries end, each with a savepoint of its own where one is wanted.
    """
    job.start()  # in the backlog, of which one shard waits
    job.wait_until(lambda: list(job.folder.glob("checkpoints/mixedmode/backlog/*/*.report")) and job.waiting.exists())
    job.signal()
    assert (job.ended(), job.said()) == (0, "ended")
    assert not job.output()

    job.go.touch()  # in an epoch, and the whole process group gets it
    job.start(own_jvm=True)
    assert job.said() == "live"
    epoch = job.latest().epoch
    job.go.unlink()
    job.waiting.unlink()
    job.land(60, 90)
    job.wait_until(job.waiting.exists)
    assert job.process is not None
    os.killpg(job.process.pid, signal.SIGTERM)
    job.go.touch()
    assert (job.ended(), job.said()) == (0, "ended 1 of 2 shards were finished")
    assert job.latest().epoch > epoch, "the epoch in hand is in it"
    rows, stopped = len(job.output()), job.latest().checkpoint_id

    job.start(failpoints="checkpoint-start=stop")  # in a checkpoint
    assert job.said() == "live"
    job.land(90, 120)
    job.wait_until(job.is_stopped)
    job.signal()
    job.signal(signal.SIGCONT)
    assert (job.ended(), job.said()) == (0, "ended")
    assert job.latest().checkpoint_id > stopped and len(job.output()) > rows

    job.start("told")  # twice
    assert job.said() == "live"
    job.go.unlink()
    job.waiting.unlink()
    job.land(120, 140)
    job.wait_until(job.waiting.exists)
    job.signal()
    assert job.said() == "told"
    job.signal()
    assert (job.ended(), job.said()) == (TERMINATED, "")

    job.go.touch()  # while nothing is to be done
    job.land(140, 160, support.flush_after(EVENTS))
    job.start("two")
    assert job.said() == "live"
    job.signal()
    assert (job.ended(), job.said()) == (0, "ended")
    assert job.output() == support.sessions_of(EVENTS)
    assert len(support.committed(job.folder / "unique")) == len({(key, value) for key, _, value in EVENTS[60:]}) + 1
    savepoints = [open_savepoint(str(path)).latest() for path in (job.folder / "sp").iterdir()]
    assert sorted(one.operators[0].uid for one in savepoints if one is not None) == ["keyed-0", "sessions"]
