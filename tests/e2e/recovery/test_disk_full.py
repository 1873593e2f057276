"""Disks that are really full: a small file system of memory, filled to the last page while a job runs."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedModeError, MixedQuery
from mixedmode.runtime.checkpoints.store import CheckpointStore
from pyarrow import fs
from pyspark.sql import functions as F
from refusing import NO_SPACE, Refusing
from support import World

EVENTS = support.stream_of(240, seed=23)
OPTIONS = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}
EAGER = {**OPTIONS, "execution.checkpointing.interval": "1 ms"}


class Disk:
    """A small disk that can be filled up and emptied again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / ".ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with open(self._ballast, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Disk]:
    """A disk of 16 MiB; skips where this user may not mount one."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no small disk can be mounted: {done.stderr.decode().strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk."""
    with mounted(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Disk]]:
    """Three of them."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(mounted(tmp_path / f"disk-{number}")) for number in range(3)]


def failure(query: MixedQuery) -> str:
    """What a failed query says."""
    assert query._run.ended.wait(300)
    assert query.exception() is not None
    return str(query.exception())


def assert_tells_of_full_disk(message: str, folder: Path) -> None:
    assert "No space left on device" in message
    assert str(folder) in message


def finish(world: World, query: MixedQuery) -> None:
    """Land the row that closes every session and compare with stock Spark."""
    support.live(query)
    world.land(support.flush_after(EVENTS))
    support.finish(query)
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_full_in_the_stream(world: World, disks: list[Disk]) -> None:
    """An epoch that cannot write its local copy, its output or its state fails the job; the next run repeats it."""
    local, out, checkpoints = disks
    world.checkpoints, world.out = checkpoints.folder / "checkpoints", out.folder / "out"
    options = {**OPTIONS, "state.local-dir": str(local.folder / "local")}
    history, live = world.history(EVENTS[:80]), world.live()
    for number, disk in enumerate(disks):
        query = support.live(world.start(support.sessions(history, live), options))
        query.processAllAvailable()
        shown = world.output()
        disk.fill()
        world.land(EVENTS[80 + 40 * number :][:40])
        assert_tells_of_full_disk(failure(query), disk.folder)
        assert world.output() == shown
        disk.free()
    world.land(EVENTS[200:])
    finish(world, world.start(support.sessions(history, live), options))


@pytest.mark.slow
def test_full_in_the_backlog(world: World, disks: list[Disk]) -> None:
    """A backlog that cannot write is not begun (state), or fails (what is sorted, output); nothing is visible, and the
    next run takes every row once."""
    checkpoints, spill, out = disks
    world.checkpoints, world.out = checkpoints.folder / "checkpoints", out.folder / "out"
    sorter = {"sorter.engine": "arrow", "sorter.memory": "1 MiB", "sorter.spill-dir": str(spill.folder)}
    many = world.spark.range(30_000).select(
        F.concat(F.lit("n"), F.col("id").cast("string")), F.lit(support.at(0)), F.lit(1).cast("long")
    )
    history, live = world.history(EVENTS[:160]), world.live()
    history = history.union(many).toDF(*history.columns)

    def start() -> MixedQuery:
        return world.start(support.sessions(history, live), {**OPTIONS, **sorter})

    for disk in disks:
        disk.fill()
        said = str(support.refusal(start)) if disk is checkpoints else failure(start())
        assert_tells_of_full_disk(said, disk.folder)
        assert world.output() == []
        disk.free()
    world.land(EVENTS[160:])
    query = start()
    support.live(query)
    world.land(support.flush_after(EVENTS))
    support.finish(query)
    found = world.results()
    assert len([row for row in found if row[0].startswith("n")]) == 30_000
    assert [r for r in found if r[0].startswith("k")] == world.expected(EVENTS)
    assert not [name for name in os.listdir(spill.folder) if name != "mixedmode"]


class FullWhileWriting:
    """Fills the disk while the checkpoints with these numbers (of the attempts made) write their metadata."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disk: Disk, attempts: set[int]) -> None:
        self.attempts = 0
        write = CheckpointStore.write

        def full(store: CheckpointStore, metadata: Any) -> None:
            self.attempts += 1
            if self.attempts not in attempts:
                write(store, metadata)
                return
            disk.fill()
            try:
                write(store, metadata)
            finally:
                disk.free()

        monkeypatch.setattr(CheckpointStore, "write", full)


@pytest.mark.slow
def test_full_during_checkpoints_that_may_fail(world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints fail within the tolerated number, the job goes on, and their rows come with the next one."""
    world.checkpoints = disk.folder / "checkpoints"
    # Spark writes its log whenever it likes, beside a checkpoint too: it must not meet the full disk.
    world.checkpoints.mkdir()
    (world.folder / "log").mkdir()
    (world.checkpoints / "spark").symlink_to(world.folder / "log")
    full = FullWhileWriting(monkeypatch, disk, {2, 3, 4})
    options = {**EAGER, "execution.checkpointing.tolerable-failed-checkpoints": "3"}
    query = support.live(world.start(support.sessions(world.history(EVENTS[:80]), world.live()), options))
    for start in range(80, 240, 40):
        world.feed(query, EVENTS[start : start + 40])
    finish(world, query)
    assert full.attempts >= 5
    assert not list(world.checkpoints.rglob("*.tmp"))


@pytest.mark.slow
def test_full_during_a_checkpoint_that_must_not_fail(world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first checkpoint of all, and one in the stream: it fails the job and shows nothing; the next run shows its
    rows once."""
    world.checkpoints = disk.folder / "checkpoints"
    FullWhileWriting(monkeypatch, disk, {1, 3})
    history, live = world.history(EVENTS[:80]), world.live()
    first = world.start(support.sessions(history, live), EAGER)
    assert_tells_of_full_disk(failure(first), world.checkpoints)
    assert world.output() == []
    second = support.live(world.start(support.sessions(history, live), EAGER))
    shown = world.output()
    world.land(EVENTS[80:160])
    assert_tells_of_full_disk(failure(second), world.checkpoints)
    assert world.output() == shown
    world.land(EVENTS[160:])
    finish(world, world.start(support.sessions(history, live), EAGER))
    assert not list(world.checkpoints.rglob("*.tmp"))


def test_full_after_the_checkpoint_is_complete(world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a complete checkpoint cannot show fails the query, tolerated or not; starting it again shows it, once."""
    world.checkpoints = disk.folder / "checkpoints"
    options = {**EAGER, "execution.checkpointing.tolerable-failed-checkpoints": "9"}
    history, live = world.history(EVENTS[:80]), world.live()

    def full(store: CheckpointStore, checkpoint_id: int) -> None:
        disk.fill()
        mark_committed(store, checkpoint_id)

    mark_committed = CheckpointStore.mark_committed
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "mark_committed", full)
        first = world.start(support.sessions(history, live), options)
        message = failure(first)
    assert_tells_of_full_disk(message, world.checkpoints)
    assert "checkpoint 1 is complete" in message and "start the query again" in message
    disk.free()
    world.land(EVENTS[80:])
    finish(world, world.start(support.sessions(history, live), options))


@pytest.mark.slow
def test_full_elsewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a filesystem that is not local, half-written checkpoints are none: the tolerated ones pass, then one fails."""
    disk = Refusing(world.folder / "full", "_metadata")
    monkeypatch.setattr(
        "mixedmode.runtime.driver.run.runner.resolve", lambda location: (fs.PyFileSystem(disk), location)
    )
    options = {**EAGER, "execution.checkpointing.tolerable-failed-checkpoints": "2"}
    history, live = world.history(EVENTS[:80]), world.live()
    ours, landed = world.checkpoints / "mixedmode" / "checkpoints", 80
    for size_bytes in (0, 40):
        query = support.live(world.start(support.sessions(history, live), options))
        query.processAllAvailable()
        support.wait_until(lambda query=query: support.is_at_rest(query))
        complete, shown, last = sorted(ours.glob("*/_metadata")), world.output(), landed + 80
        disk.refuse_after(size_bytes)
        while query.isActive and landed < last:
            world.land(EVENTS[landed : landed + 10])
            landed += 10
            with contextlib.suppress(MixedModeError):
                query.processAllAvailable()
        assert NO_SPACE in failure(query)
        # Whoever processes what is there meets the third failure, the query itself that one or the next.
        assert re.search(r"[34] in a row, .*tolerable-failed-checkpoints is 2", failure(query))
        assert sorted(path for path in ours.rglob("*") if path.is_file() and path.name != "_committed") == complete
        assert world.output() == shown
        disk.accept()
    world.land(EVENTS[landed:])
    finish(world, world.start(support.sessions(history, live), options))


@pytest.mark.slow
def test_full_while_rows_wait_for_expressions(world: World, disk: Disk) -> None:
    """Rows that wait on the local disk for an expression of Spark's are missed as loudly as any."""
    frame = world.history(EVENTS)
    keyed = mixedmode.read(history=frame).groupBy("key").agg((F.sum("value") / F.count("*")).alias("mean"))
    options = {"execution.runtime-mode": "batch", "state.local-dir": str(disk.folder)}
    disk.fill()
    assert_tells_of_full_disk(failure(world.start(keyed, options)), disk.folder)
    assert world.output() == []
    disk.free()
    query = world.start(keyed, options)
    assert query.awaitTermination(300) and query.exception() is None, query.exception()
    expected = frame.groupBy("key").agg((F.sum("value") / F.count("*")).alias("mean")).collect()
    assert world.output() == sorted((tuple(row) for row in expected), key=repr)
