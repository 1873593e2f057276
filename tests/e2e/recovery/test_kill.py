"""Real SIGKILLs at named points: started again, the committed output is what an undisturbed run gives."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import intervals
import joins
import kill_points
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_sessions.py"
OBSERVED = ("execution.backlog.final-watermark=observed",)
EVENTS = support.stream_of(420, seed=3)
#: What an undisturbed run gives (tests/e2e/run/test_modes.py).
EXPECTED = support.sessions_of(EVENTS)
#: What a job without a keyed stage gives.
COPIES = sorted(((key, support.at(seconds), value) for key, seconds, value in EVENTS), key=repr)


class Job:
    """The folders of one job and the processes that run it, one after the other.

    Args:
        folder: where they are.
        jvm: what they use.
        options: options of the writer, as ``name=value``.
        name: the job, a function of that name in :mod:`support`.
        files: how many files land one after the other while it runs.
        workers: where a worker is killed, once in all lives together.
    """

    def __init__(
        self,
        folder: Path,
        jvm: DriverJvm,
        *options: str,
        name: str = "sessions",
        files: int = 2,
        workers: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.jvm = jvm
        self.name = name
        self.options = options
        self._flags = {point: folder / "killed" / point for point in workers}
        (folder / "killed").mkdir(parents=True)
        pending = [*support.parts_of(EVENTS[360:], files), support.flush_after(EVENTS)]
        support.write_inputs(folder, EVENTS[:300], EVENTS[300:360], *pending)

    def run(self, failpoints: str = "", files: str = "one by one") -> int:
        """Run the driver to its end, whatever that is; returns its exit code."""
        points = [*(f"{point}=kill-once:{flag}" for point, flag in self._flags.items()), failpoints]
        master = "local[2,12]" if self._flags else "local[2,3]"
        environment = {VARIABLE: ";".join(filter(None, points)), "SESSIONS_MASTER": master, "FILES": files}
        return self.jvm.run(DRIVER, self.folder, self.name, *self.options, **environment).returncode

    @property
    def spared(self) -> list[str]:
        """Where no worker was killed that was to be."""
        return [point for point, flag in self._flags.items() if not flag.exists()]

    @property
    def output(self) -> list[tuple]:
        return support.without_flush(support.committed(self.folder / "out"))

    @property
    def checkpoints(self) -> list[str]:
        """Complete checkpoints."""
        found = (self.folder / "checkpoints" / "mixedmode" / "checkpoints").glob("*/_metadata")
        return sorted(path.parent.name for path in found)


@pytest.mark.slow
def test_killed_before_the_switch(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed when the backlog is computed and before the checkpoint of the switch: nothing is visible, the rerun is as
    new (X12); killed in the first commit, and again when that is recovered: the restart completes it.  A Python worker
    that dies at any step of a task on the way, in backlog, stream and compaction, costs a retry, no more."""
    workers = [*kill_points.TASK_POINTS, *kill_points.COMPACTION_POINTS]
    job = Job(tmp_path, driver_jvm, *OBSERVED, workers=workers)
    for point in (
        "epoch-before-apply",
        "batch-before-spark-commit",
        "phase-switch",
        "checkpoint-before-metadata",
    ):
        assert job.run(f"{point}=kill") == KILLED, point
        assert (job.output, job.checkpoints) == ([], []), point
    for point in ("sink-between-files", "recovery-after-commit"):
        assert job.run(f"{point}=kill") == KILLED, point
        assert job.checkpoints == ["chk-00000001"], point
    assert job.run() == 0
    assert job.output == EXPECTED
    assert job.spared == [], "no worker was killed there"


@pytest.mark.slow
def test_killed_in_the_stream(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed in each life at another point: in an epoch, between Spark's log and ours, before a checkpoint, or while
    old ones are removed: back to the last one, every row once.  (Inside a checkpoint: the test that follows; between
    two files that are removed: the one behind that; right after an epoch: that of remembered keys.)"""
    job = Job(tmp_path, driver_jvm, *OBSERVED, files=7)
    for point in (
        "epoch-before-apply=kill:2",
        "batch-before-spark-commit=kill:2",
        "checkpoint-start=kill:2",
        "gc-after-metadata=kill",
    ):
        assert job.run(point) == KILLED, point
        assert job.checkpoints, point
    assert job.run() == 0
    assert job.output == EXPECTED


@pytest.mark.slow
def test_killed_while_a_checkpoint_is_completed_beside_epochs(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed at each step of a completion, each time when at least one epoch was applied since it got there: the rows
    of those epochs belong to the next checkpoint, and come once.  (Before ``_metadata``: test_slow_store.py.)"""
    job = Job(tmp_path, driver_jvm, *OBSERVED, files=14)
    for point in (
        "checkpoint-after-compaction",
        "checkpoint-after-metadata",
        "checkpoint-after-commit",
        "checkpoint-before-gc",
    ):
        assert job.run(f"{point}=kill-beside:epoch-applied", files="at once") == KILLED, point
    assert job.run(files="at once") == 0
    assert job.output == EXPECTED


@pytest.mark.slow
@pytest.mark.smoke
def test_killed_around_a_compaction(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed before and after compacted state takes the place of what it was made of, in memory and in a checkpoint."""
    job = Job(tmp_path, driver_jvm, *OBSERVED, files=16)
    assert job.run("checkpoint-compacted=kill") == KILLED
    assert job.run("checkpoint-after-compaction=kill") == KILLED
    assert job.run("gc-between-files=kill:4") == KILLED, "what a compaction has replaced is removed"
    assert job.run() == 0
    assert job.output == EXPECTED
    metadata = job.folder / "checkpoints" / "mixedmode" / "checkpoints" / job.checkpoints[-1] / "_metadata"
    assert "-compacted-" in metadata.read_text()


@pytest.mark.slow
def test_killed_between_stages_and_the_join_behind_them(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """C4, C6: killed when the first stage of an epoch has succeeded and the second has not, and when both have and the
    job of the join behind them has not, in the backlog and in the stream: both stages are at the last checkpoint,
    nothing else counts, and every row comes once.  (When the rows are staged: the test without a keyed stage.)"""
    job = Job(tmp_path, driver_jvm, *OBSERVED, name="shifts", files=3)
    for point in ("epoch-between-stages", "epoch-before-tail"):
        assert job.run(f"{point}=kill") == KILLED, point
        assert (job.output, job.checkpoints) == ([], []), point
    for point in ("epoch-between-stages=kill:2", "epoch-before-tail=kill:2"):
        assert job.run(point) == KILLED, point
        assert job.checkpoints, point
    assert job.run() == 0
    expected = support.shifts_of(EVENTS)
    found = support.committed(job.folder / "out")
    assert [row for row in found if row[0] in [one[0] for one in expected]] == expected
    assert list((tmp_path / "checkpoints" / "mixedmode" / "exchange").rglob("*.parquet")) == []
    assert list((tmp_path / "out" / "_mixedmode").rglob("*.parquet")) == []


@pytest.mark.slow
def test_killed_while_keys_are_remembered(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A deduplication that is killed in the backlog and in the stream puts each key out once, the first row of it; a
    worker that dies in a task that works on all shards, between two of them or behind the last, costs a retry."""
    job = Job(tmp_path, driver_jvm, name="unique", workers=kill_points.ONE_TASK_POINTS)
    for point in ("epoch-before-apply=kill", "epoch-applied=kill", "checkpoint-after-metadata=kill:2"):
        assert job.run(point) == KILLED, point
    assert job.run() == 0
    assert job.output == support.unique_of(EVENTS)
    assert len(job.output) < len(EVENTS)
    assert job.spared == [], "no worker was killed there"


@pytest.mark.slow
def test_killed_without_a_keyed_stage(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed when the rows of the backlog are staged, when nothing is visible, in the first commit, and in the stream
    before Spark's log says so: in the end each row is there once.  So it is if a worker dies that stages rows.  (At all
    other points of a run, in and behind a checkpoint among them: the tests above.)"""
    workers = kill_points.TAIL_POINTS
    job = Job(tmp_path, driver_jvm, name="stateless_jobs:copied", files=4, workers=workers)
    assert job.run("epoch-before-apply=kill") == KILLED
    assert (job.output, job.checkpoints) == ([], [])
    assert job.run("sink-between-files=kill") == KILLED
    assert job.checkpoints == ["chk-00000001"]
    for point in ("epoch-before-apply=kill", "batch-before-spark-commit=kill:2"):
        assert job.run(point) == KILLED, point
    assert job.run() == 0
    assert job.output == COPIES
    assert job.spared == [], "no worker was killed there"


@pytest.mark.slow
def test_killed_joins_put_each_row_out_once(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed at the switch and in a checkpoint of the stream, and the workers in a task of either style: no pair and no
    row without a partner is lost or doubled.  (Epochs that fail: tests/e2e/stream_joins/test_join_failures.py; workers
    that die at every step of a task: the first test here.)"""
    workers = ("task-before-publish-sorted", "task-before-report-random")
    job = Job(tmp_path, driver_jvm, name="joins:halves", files=3, workers=workers)
    assert job.run("checkpoint-before-metadata=kill") == KILLED
    assert (job.output, job.checkpoints) == ([], [])
    for point in ("sink-between-files=kill", "checkpoint-after-metadata=kill:2"):
        assert job.run(point) == KILLED, point
        assert job.checkpoints, point
    assert job.run() == 0
    assert job.spared == [], "no worker was killed there"
    assert joins.shown(job.output) == joins.halves_of(EVENTS)


def test_killed_workers_are_replaced(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A Python worker that dies while it stages what Spark has computed of a stage, in backlog and stream, costs a
    retry, no more.  (At all other steps of a task, and in compactions: the tests above.)"""
    job = Job(tmp_path, driver_jvm, *OBSERVED, name="means", workers=kill_points.PUBLISH_POINTS)
    assert job.run() == 0
    assert job.spared == [], "no worker was killed there"
    assert job.output == support.means_of(EVENTS)


@pytest.mark.slow
def test_killed_in_streamed_history(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """With interval-during-backlog > 0 a kill in the history goes back to the last checkpoint (X16)."""
    job = Job(
        tmp_path,
        driver_jvm,
        f"execution.checkpointing.interval={intervals.named('1 ms')}",
        "execution.interval-during-backlog=1 ms",
        "execution.history.rows-per-epoch=100",
    )
    assert job.run("epoch-before-apply=kill:3") == KILLED
    assert job.checkpoints, "no checkpoint was taken in the history"
    assert job.run() == 0
    assert job.output == EXPECTED


@pytest.mark.slow
def test_killed_while_a_table_takes_the_rows(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed after the rows were handed over: they come again under the same id; killed after that was noted: not."""
    support.write(tmp_path / "history.parquet", EVENTS)
    driver = Path(__file__).parents[1] / "driver_sinks.py"

    def run(failpoints: str) -> int:
        return driver_jvm.run(driver, tmp_path, **{VARIABLE: failpoints}).returncode

    assert run("checkpoint-after-metadata=kill") == KILLED
    assert not list((tmp_path / "out").iterdir())
    assert run("sink-after-function=kill") == KILLED
    assert run("sink-delivered=kill") == KILLED
    assert run("") == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2 and len(set(calls)) == 1
    (written,) = (tmp_path / "out").glob("*.json")
    found = [(key, datetime.fromisoformat(start), *rest) for key, start, *rest in json.loads(written.read_text())]
    assert sorted(found, key=repr) == support.sessions_of(EVENTS)


@pytest.mark.slow
def test_killed_between_the_calls_of_one_checkpoint(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A checkpoint of three epochs, complete before the first call: what has left its marker is not called again, what
    has not comes as it was."""
    (tmp_path / "pending").mkdir()
    for number in range(3):
        path = tmp_path / "pending" / f"{number}.parquet"
        support.write(path, support.counted(number))
        os.utime(path, (path.stat().st_mtime + number,) * 2)
    driver = Path(__file__).parents[1] / "driver_calls.py"

    def run(failpoints: str) -> int:
        return driver_jvm.run(driver, tmp_path, **{VARIABLE: failpoints}).returncode

    assert run("checkpoint-after-metadata=kill:2") == KILLED
    assert not (tmp_path / "calls").exists() and not list((tmp_path / "pending").iterdir())
    assert run("sink-delivered=kill") == KILLED  # the first call has its marker
    assert run("sink-after-function=kill") == KILLED  # the second has returned
    assert run("sink-after-function=kill:2") == KILLED  # the third has
    assert run("sink-delivered=kill") == KILLED  # and its marker, which is that of the checkpoint
    assert run("") == 0
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    expected = [[list(row) for row in support.counts_after(*range(last))] for last in (1, 2, 3)]
    assert calls == [[nth, expected[nth - 1]] for nth in (1, 2, 2, 3, 3)]
