"""Real SIGKILLs at named points: started again, the committed output is what an undisturbed run gives."""

from __future__ import annotations

import json
import os
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
    """

    def __init__(self, folder: Path, jvm: DriverJvm, *options: str, name: str = "sessions", files: int = 2) -> None:
        self.folder = folder
        self.jvm = jvm
        self.name = name
        self.options = options
        pending = [*support.parts_of(EVENTS[360:], files), support.flush_after(EVENTS)]
        support.write_inputs(folder, EVENTS[:300], EVENTS[300:360], *pending)

    def run(self, failpoints: str = "", master: str = "local[2,3]", files: str = "one by one") -> int:
        """Run the driver to its end, whatever that is; returns its exit code."""
        environment = {VARIABLE: failpoints, "SESSIONS_MASTER": master, "FILES": files}
        return self.jvm.run(DRIVER, self.folder, self.name, *self.options, **environment).returncode

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
    """Killed anywhere in the backlog or before the checkpoint of the switch: nothing is visible, the rerun is as new
    (X12); killed in the first commit, and again when that is recovered: the restart completes it."""
    job = Job(tmp_path, driver_jvm, *OBSERVED)
    for point in (
        "phase-backlog",
        "epoch-before-apply",
        "backlog-epoch-applied",
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


@pytest.mark.slow
def test_killed_in_the_stream(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed right after the switch, and in each further life at another point between epochs, between Spark's log
    and ours, before a checkpoint, or while old ones are removed: back to the last one, every row once.  (Inside a
    checkpoint: the test that follows.)"""
    job = Job(tmp_path, driver_jvm, *OBSERVED, files=8)
    for point in (
        "phase-live=kill",
        "epoch-applied=kill",
        "epoch-before-apply=kill",
        "batch-before-spark-commit=kill:2",
        "checkpoint-start=kill:2",
        "gc-after-metadata=kill",
        "gc-between-files=kill",
    ):
        assert job.run(point) == KILLED, point
        assert job.checkpoints, point
    assert job.run() == 0
    assert job.output == EXPECTED


@pytest.mark.slow
def test_killed_while_a_checkpoint_is_completed_beside_epochs(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed at each step of a completion, each time when at least one epoch was applied since it got there: the rows
    of those epochs belong to the next checkpoint, and come once."""
    job = Job(tmp_path, driver_jvm, *OBSERVED, files=14)
    for point in (
        "checkpoint-after-compaction",
        "checkpoint-before-metadata",
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


def check_killed(
    job: Job, in_the_backlog: tuple[str, ...], in_the_stream: tuple[str, ...], expected: list[tuple]
) -> None:
    """A job that is killed at each of these points gives what is expected of its keys at last."""
    for point in in_the_backlog:
        assert job.run(f"{point}=kill") == KILLED, point
        assert (job.output, job.checkpoints) == ([], []), point
    for point in in_the_stream:
        assert job.run(point) == KILLED, point
        assert job.checkpoints, point
    assert job.run() == 0
    found = support.committed(job.folder / "out")
    assert [row for row in found if row[0] in [one[0] for one in expected]] == expected


@pytest.mark.slow
def test_killed_between_two_stages(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """C4, C6: killed when the first stage of an epoch has succeeded and the second has not, in the backlog and in the
    stream, and when both have: both stages are at the last checkpoint."""
    job = Job(tmp_path, driver_jvm, *OBSERVED, name="hours", files=3)
    in_the_stream = ("epoch-between-stages=kill:2", "epoch-before-apply=kill:2")
    check_killed(job, ("epoch-between-stages", "epoch-before-apply"), in_the_stream, support.hours_of(EVENTS))


@pytest.mark.slow
def test_killed_between_a_stage_and_the_join_behind_it(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed when the last stage's job of an epoch has succeeded and that of the join behind it has not, and when that
    has staged its rows, in the backlog and in the stream: neither counts, and every row comes once."""
    job = Job(tmp_path, driver_jvm, *OBSERVED, name="shifts", files=3)
    in_the_stream = ("epoch-before-tail=kill:2", "epoch-before-apply=kill")
    check_killed(job, ("epoch-before-tail", "epoch-before-apply"), in_the_stream, support.shifts_of(EVENTS))
    assert list((tmp_path / "checkpoints" / "mixedmode" / "exchange").rglob("*.parquet")) == []
    assert list((tmp_path / "out" / "_mixedmode").rglob("*.parquet")) == []


@pytest.mark.slow
def test_killed_while_keys_are_remembered(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """A deduplication that is killed in the backlog and in the stream puts each key out once, the first row of it."""
    job = Job(tmp_path, driver_jvm, name="unique")
    for point in ("epoch-before-apply=kill", "epoch-applied=kill", "checkpoint-after-metadata=kill:2"):
        assert job.run(point) == KILLED, point
    assert job.run() == 0
    assert job.output == support.unique_of(EVENTS)
    assert len(job.output) < len(EVENTS)


@pytest.mark.slow
def test_killed_without_a_keyed_stage(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed when the rows of the backlog are staged, when nothing is visible, in the first commit, and in the stream
    before Spark's log says so: in the end each row is there once.  (At all other points of a run, in and behind a
    checkpoint among them: the tests above.)"""
    job = Job(tmp_path, driver_jvm, name="stateless_jobs:copied", files=4)
    assert job.run("epoch-before-apply=kill") == KILLED
    assert (job.output, job.checkpoints) == ([], [])
    assert job.run("sink-between-files=kill") == KILLED
    assert job.checkpoints == ["chk-00000001"]
    for point in ("epoch-before-apply=kill", "batch-before-spark-commit=kill:2"):
        assert job.run(point) == KILLED, point
    assert job.run() == 0
    assert job.output == COPIES


@pytest.mark.slow
def test_killed_joins_put_each_row_out_once(tmp_path: Path, driver_jvm: DriverJvm) -> None:
    """Killed in the backlog's pass, at the switch, in the stream and in a checkpoint, and the workers at every step of
    their tasks: no pair and no row without a partner is lost or doubled."""
    (tmp_path / "job").mkdir()
    job = Job(tmp_path / "job", driver_jvm, name="joins:halves", files=3)
    flags = {point: tmp_path / point for point in kill_points.TASK_POINTS}
    workers = ";".join(f"{point}=kill-once:{flag}" for point, flag in flags.items())
    for point in (f"{workers};epoch-before-apply=kill", "checkpoint-before-metadata=kill"):
        assert job.run(point, master="local[2,12]") == KILLED, point
        assert (job.output, job.checkpoints) == ([], []), point
    for point in ("sink-between-files=kill", "epoch-before-apply=kill:2", "checkpoint-after-metadata=kill:2"):
        assert job.run(f"{workers};{point}", master="local[2,12]") == KILLED, point
        assert job.checkpoints, point
    assert job.run(workers, master="local[2,12]") == 0
    assert [point for point, flag in flags.items() if not flag.exists()] == [], "no worker was killed there"
    assert joins.shown(job.output) == joins.halves_of(EVENTS)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        pytest.param("sessions", [*kill_points.TASK_POINTS, *kill_points.COMPACTION_POINTS], marks=pytest.mark.slow),
        ("means", kill_points.PUBLISH_POINTS),
        pytest.param("unique", kill_points.ONE_TASK_POINTS, marks=pytest.mark.slow),
        pytest.param("stateless_jobs:copied", kill_points.TAIL_POINTS, marks=pytest.mark.slow),
    ],
)
def test_killed_workers_are_replaced(tmp_path: Path, driver_jvm: DriverJvm, name: str, points: list[str]) -> None:
    """A Python worker that dies at any step of a task, in backlog, stream and compaction, costs a retry, no more."""
    flags = {point: tmp_path / point for point in points}
    (tmp_path / "job").mkdir()
    is_keyed = name != "stateless_jobs:copied"
    job = Job(tmp_path / "job", driver_jvm, *(OBSERVED if is_keyed else ()), name=name)
    killers = ";".join(f"{point}=kill-once:{flag}" for point, flag in flags.items())
    assert job.run(killers, master="local[2,12]") == 0
    assert [point for point, flag in flags.items() if not flag.exists()] == [], "no worker was killed there"
    assert job.output == (support.expected_of(name, EVENTS) if is_keyed else COPIES)


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
@pytest.mark.parametrize("sink", ["foreachBatch", "ledger"])
def test_killed_while_a_function_or_a_table_takes_the_rows(tmp_path: Path, driver_jvm: DriverJvm, sink: str) -> None:
    """Killed after the rows were handed over: they come again under the same id; killed after that was noted: not."""
    support.write(tmp_path / "history.parquet", EVENTS)
    driver = Path(__file__).parents[1] / "driver_sinks.py"

    def run(failpoints: str) -> int:
        return driver_jvm.run(driver, tmp_path, sink, **{VARIABLE: failpoints}).returncode

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
    """A checkpoint of three epochs: what has left its marker is not called again, what has not comes as it was."""
    (tmp_path / "pending").mkdir()
    for number in range(3):
        path = tmp_path / "pending" / f"{number}.parquet"
        support.write(path, support.counted(number))
        os.utime(path, (path.stat().st_mtime + number,) * 2)
    driver = Path(__file__).parents[1] / "driver_calls.py"

    def run(failpoints: str) -> int:
        return driver_jvm.run(driver, tmp_path, **{VARIABLE: failpoints}).returncode

    assert run("sink-delivered=kill") == KILLED  # the first call has its marker
    assert run("sink-after-function=kill") == KILLED  # the second has returned
    assert run("sink-after-function=kill:2") == KILLED  # the third has
    assert run("sink-delivered=kill") == KILLED  # and its marker, which is that of the checkpoint
    assert run("") == 0
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    expected = [[list(row) for row in support.counts_after(*range(last))] for last in (1, 2, 3)]
    assert calls == [[nth, expected[nth - 1]] for nth in (1, 2, 2, 3, 3)]
