"""An operator's rows on their way through Spark: spooled, handed on, staged; their report goes beside them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode import MixedModeError
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.operators.contract import EpochSpec, ShardCounters
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.tasks.local_report import leave_report, take_report
from mixedmode.runtime.tasks.report import NO_SHARD, ShardReport
from mixedmode.runtime.tasks.shard import row_spool
from mixedmode.runtime.tasks.shard.pass_context import PassContext
from mixedmode.runtime.tasks.shard.publish_task import PublishTask
from mixedmode.runtime.tasks.shard.row_spool import RowSpool
from mixedmode.runtime.tasks.shard.shard_task import ShardTask
from mixedmode.runtime.tasks.shard_states import ShardStates
from mixedmode.state.store.packed_manifests import PackedManifests
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructField, StructType

ROWS = StructType([StructField("k0", StringType()), StructField("a0", LongType())])
OUTPUT = StructType([StructField("twice", LongType())])
REPORT = ShardReport(0, "e00000001-s0000-run-1-x", (), (), ShardCounters(keys=3), {})
ATTEMPT = 7


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions run in a Spark task, of partition 0."""
    context = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: ATTEMPT)
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: context))


def task(folder: Path, **changes: Any) -> ShardTask:
    local = fs.LocalFileSystem()
    epoch = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
    output = OutputPlace(local, str(folder / "out"))
    (folder / "out").mkdir(exist_ok=True)
    states = ShardStates("job", PackedManifests([]), local, "pool", str(folder / "local"), 0)
    return ShardTask("run", epoch, b"", states, (0,), output, **changes)


def handed_on(*values: int) -> pa.RecordBatch:
    """What Spark makes of a task's rows."""
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["c0"])


def published(task: ShardTask, *batches: pa.RecordBatch, report: bytes | None = REPORT.to_bytes()) -> list[bytes]:
    """What leaves the second function, for which the first has left a report."""
    if report is not None:
        leave_report(task.states.local_dir, task.report_name(ATTEMPT), report)
    found = [batch.column("report")[0].as_py() for batch in PublishTask(task, OUTPUT)(iter(batches))]
    assert take_report(task.states.local_dir, task.report_name(ATTEMPT)) is None or task.sorted_pass.finished
    return found


@pytest.mark.parametrize("memory_bytes", [0, 40, 1 << 20])
def test_rows_are_handed_on_in_order_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    """All rows in the order in which they were written; few stay in memory, and the spool's file has no name."""
    monkeypatch.setattr(row_spool, "_MEMORY_BYTES", memory_bytes)
    spool = RowSpool(str(tmp_path), ROWS)
    schema = pa.schema([("k0", pa.string()), ("a0", pa.int64())])
    for part in ([1, 2], [], [3]):
        spool.write(
            pa.RecordBatch.from_arrays(
                [pa.array(["k"] * len(part), pa.string()), pa.array(part, pa.int64())], schema=schema
            )
        )
    assert os.listdir(tmp_path) == []
    assert spool.finish() == []
    assert pa.Table.from_batches(spool.hand_on()).to_pydict() == {"k0": ["k", "k", "k"], "a0": [1, 2, 3]}
    assert os.listdir(tmp_path) == []


def test_a_spool_without_rows_hands_nothing_on(tmp_path: Path) -> None:
    """Whether it was finished or given up."""
    spool = RowSpool(str(tmp_path), ROWS)
    spool.finish()
    assert list(spool.hand_on()) == []
    spool.abort()


def test_output_is_staged_under_the_attempts_name(tmp_path: Path) -> None:
    """The report that leaves names the file; how Spark cuts the rows into batches makes no difference."""
    [stored] = published(task(tmp_path), handed_on(2), handed_on(), handed_on(4, 6))
    report = ShardReport.from_bytes(stored)
    [file] = report.output
    assert (file.name, file.rows, report.counters.keys) == (f"{REPORT.attempt}.parquet", 3, 3)
    assert pq.read_table(tmp_path / "out" / file.name).to_pydict() == {"twice": [2, 4, 6]}


def test_a_shard_without_output_stages_nothing(tmp_path: Path) -> None:
    """Its report goes on all the same: nothing that is done to its rows can lose it."""
    [stored] = published(task(tmp_path))
    assert ShardReport.from_bytes(stored) == REPORT
    assert os.listdir(tmp_path / "out") == []


def test_a_task_that_was_not_asked_for_rows_reports_nothing(tmp_path: Path) -> None:
    """The driver sees that it has not run; rows from anywhere else are an error, never taken for the stage's."""
    assert published(task(tmp_path), report=None) == []
    with pytest.raises(MixedModeError, match="has moved rows between tasks, or made rows without reading any"):
        published(task(tmp_path), handed_on(1), report=None)


def test_the_report_of_a_shard_that_was_finished_before_goes_on_as_it_is(tmp_path: Path) -> None:
    """Its output was staged by the run that finished it."""
    stored = REPORT.to_bytes() + b" "
    done = PassContext(finished=((0, stored),), report_folder=str(tmp_path / "reports"))
    finished = task(tmp_path, sorted_pass=done)
    assert published(finished, report=None) == [stored]
    assert os.listdir(tmp_path / "out") == []
    assert list(replace(finished, hands_on=ROWS)(iter([]))) == []


def test_a_partition_that_is_nobodys_has_no_report(tmp_path: Path) -> None:
    """Pins of shards that are not visited are such."""
    assert published(replace(task(tmp_path), shards=(NO_SHARD,)), report=None) == []


def test_a_failure_among_the_rows_leaves_no_staged_file(tmp_path: Path) -> None:
    """As if the attempt had never been, and without a report."""

    def batches() -> Any:
        yield handed_on(*range(200_000))
        raise RuntimeError("the expression failed")

    made = task(tmp_path)
    leave_report(made.states.local_dir, made.report_name(ATTEMPT), REPORT.to_bytes())
    with pytest.raises(RuntimeError, match="the expression failed"):
        list(PublishTask(made, OUTPUT)(batches()))
    assert os.listdir(tmp_path / "out") == []


def test_reports_of_killed_attempts_are_removed_when_they_are_old(tmp_path: Path) -> None:
    """Young ones stay: their attempts may run."""
    folder = str(tmp_path / "local")
    for number in range(70):
        leave_report(folder, f"run-1-{number}", b"report")
    [reports] = tmp_path.glob("local/*/reports")
    assert len(list(reports.iterdir())) == 70
    for number in range(60):
        os.utime(reports / f"run-1-{number}", (0, 0))
    leave_report(folder, "run-1-70", b"report")
    assert len(list(reports.iterdir())) == 11
