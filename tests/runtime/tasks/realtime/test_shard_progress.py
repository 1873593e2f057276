"""What a shard tells while its epoch runs: once in a while, only what is new, and never at a row's expense."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from mixedmode.runtime.support.ids import BatchId
from mixedmode.runtime.tasks.realtime import shard_progress
from mixedmode.runtime.tasks.realtime.run_folder import RunFolder, run_folder
from mixedmode.runtime.tasks.realtime.shard_progress import ShardProgress
from mixedmode.state.keys.keygroups import ShardId
from pyarrow import fs

LOCAL = fs.LocalFileSystem()


class Clock:
    """Stands until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(shard_progress, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return round(self.now_s * 1e9)

    def messages(self, *ages_ms: int) -> pa.Array:
        """The times of messages of these ages."""
        return pa.array([round(self.now_s * 1000) - age for age in ages_ms], pa.int64())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def no_wait(seconds: float) -> bool:
    raise AssertionError(f"there is nothing to tell, so nobody waits for {seconds} s")


def test_a_shard_tells_once_a_second_what_is_new(folder: RunFolder, clock: Clock) -> None:
    """A busy shard tells between two portions, and a second later again if there is more."""
    progress = ShardProgress(folder, 4, 1)
    progress.add(clock.messages(5, 7))
    progress.look()
    assert folder.progress(4, 1) is None, "it is not time"
    clock.now_s += 1
    progress.look()
    first = folder.progress(4, 1)
    assert first is not None
    assert (first.rows, first.latencies.percentile_ms(50), first.latencies.max_ms) == (2, 5, 7)
    progress.add(clock.messages(11))
    progress.look()
    assert folder.progress(4, 1) == first
    clock.now_s += 1
    progress.look()
    second = folder.progress(4, 1)
    assert second is not None and (second.rows, second.latencies.max_ms) == (3, 11)
    assert folder.progress(3, 1) is folder.progress(4, 0) is None, "nobody else has told anything"
    assert progress.finish() == second


def test_a_shard_that_waits_tells_what_it_has(folder: RunFolder, clock: Clock) -> None:
    """Rows that come interrupt the wait; if none come for the rest of a second, it is told."""
    progress = ShardProgress(folder, 0, 0)
    progress.before_wait(no_wait)
    progress.add(clock.messages(3))
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 1

    progress.before_wait(wait)
    assert folder.progress(0, 0) is None
    clock.now_s += 0.75
    progress.before_wait(wait)
    assert waits == [1.0, 0.25]
    found = folder.progress(0, 0)
    assert found is not None and found.rows == 1
    progress.before_wait(no_wait)


def test_a_run_that_is_over_gets_no_progress(folder: RunFolder, clock: Clock) -> None:
    """A task that outlives its query goes on without its folder."""
    LOCAL.delete_dir(folder.path)
    progress = ShardProgress(folder, 0, 0)
    progress.add(clock.messages(3))
    clock.now_s += 1
    progress.look()
    assert folder.progress(0, 0) is None
    assert progress.finish().rows == 1


def test_elsewhere_a_thread_writes(tmp_path: Path, clock: Clock) -> None:
    """Where a write takes long the task does not wait for it, and a second one does not begin before it has ended."""
    far = fs.SubTreeFileSystem(str(tmp_path), LOCAL)
    folder = run_folder(far, "home", "run")
    folder.make()
    began, told = [], []

    class Slow(RunFolder):
        def write_progress(self, batch: BatchId, shard: ShardId, data: bytes) -> None:
            began.append(data)
            while not told:
                time.sleep(0.001)
            super().write_progress(batch, shard, data)

    progress = ShardProgress(Slow(folder.filesystem, folder.path), 0, 0)
    for _ in range(3):
        progress.add(clock.messages(3))
        clock.now_s += 5
        progress.look()
    told.append(True)
    until = time.monotonic() + 60
    while (found := folder.progress(0, 0)) is None and time.monotonic() < until:  # type: ignore[arg-type]
        time.sleep(0.001)
    assert found is not None and found.rows == 1
    assert len(began) == 1
    assert progress.finish().rows == 3
