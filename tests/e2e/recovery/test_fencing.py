"""Two real drivers on one location: one is paused with SIGSTOP, the other takes over, and the first one wakes up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import support
from driver_jvm import DriverJvm
from mixedmode.runtime.checkpoints.store import CheckpointStore
from paused_process import Process
from pyarrow import fs

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many queries, one after the other

EVENTS = support.stream_of(460, seed=29)
HISTORY = 200
#: In the order of a job's life.  (At every single access to the filesystem, also to one without rename, drivers are
#: paused in tests/runtime/driver/recovery/test_takeover.py, without Spark; real drivers right before a checkpoint's
#: metadata, on S3: test_s3_kill.py.)
POINTS = ["sink-between-files", "recovery-after-commit"]


class Pair:
    """Two drivers, and what lands for them."""

    def __init__(self, folder: Path, jvms: list[DriverJvm], rounds: int) -> None:
        self.folder = folder
        support.write(folder / "history.parquet", EVENTS[:HISTORY])
        self._world = support.World(None, folder)  # type: ignore[arg-type]
        self._rest = EVENTS[HISTORY:]
        self._share = len(self._rest) // (2 * rounds)
        self.first, self.second = (Process(folder, jvm, host) for jvm, host in zip(jvms, ("one", "two"), strict=True))
        for process in (self.first, self.second):
            assert process.answer() == "ready"

    def land(self, everything: bool = False) -> None:
        some, self._rest = (self._rest, []) if everything else (self._rest[: self._share], self._rest[self._share :])
        self._world.land(some)

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(fs.LocalFileSystem(), str(self.folder / "checkpoints"))

    def finish(self) -> None:
        """The next start works, and all rows were shown, each once."""
        self.land(everything=True)
        self._world.land(support.flush_after(EVENTS))
        assert self.first.ask("run ") == "done"
        assert self.first.ask("stop") == "stopped"
        assert self._world.results() == support.sessions_of(EVENTS)


@pytest.fixture
def pair(tmp_path: Path, driver_jvm: DriverJvm, second_driver_jvm: DriverJvm) -> Iterator[Pair]:
    made = Pair(tmp_path, [driver_jvm, second_driver_jvm], len(POINTS) + 2)
    yield made
    for process in (made.first, made.second):
        process.end()


def take_over(pair: Pair, point: str) -> None:
    """The first driver is paused; the second one recovers, runs an epoch and takes a checkpoint; the first wakes up."""
    pair.land()
    assert pair.second.ask("run ") == "done", point
    ours = pair.store.latest()
    pair.first.go_on()
    said = pair.first.answer()
    assert said.startswith("failed:") and "taken over" in said, f"{point}: {said}"
    assert pair.store.latest() == ours, point
    pair.land()
    assert pair.second.ask("stop") == "stopped", point


@pytest.mark.slow
def test_a_driver_that_wakes_up_behind_another_one(pair: Pair) -> None:
    """Paused in a checkpoint's commit, or in recovery, a driver that others have taken over from ends with an error
    that says so, changes nothing that counts, and what is committed is what an undisturbed run gives."""
    for point in POINTS:
        pair.first.tell(f"run {point}=stop")
        pair.first.wait_until_paused()
        take_over(pair, point)
    # One that is paused while it takes over itself.
    assert pair.second.ask("run ") == "done"
    pair.second.pause()
    pair.first.tell("run takeover-before-metadata=stop")
    pair.first.wait_until_paused()
    pair.second.go_on()
    # (A stop might come before it has noticed, and there is nothing that it would still have to write.)
    said = pair.second.ask("wait")
    assert said.startswith("failed:") and "taken over" in said, said
    take_over(pair, "takeover-before-metadata")
    pair.finish()
