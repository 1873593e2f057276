"""An operator's rows on their way through Spark: spooled, handed on behind the report, staged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.operators.contract import EpochSpec, ShardCounters
from mixedmode.runtime.operators.projection import Projection
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.tasks.publish_task import PublishTask
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.runtime.tasks.row_spool import RowSpool
from mixedmode.runtime.tasks.shard_task import ShardTask
from pyarrow import fs
from pyspark.sql.types import LongType, StringType, StructField, StructType

ROWS = StructType([StructField("k0", StringType()), StructField("a0", LongType())])
OUTPUT = StructType([StructField("twice", LongType())])
REPORT = ShardReport(0, "e00000001-s0000-run-1-x", (), (), ShardCounters(keys=3), {})


def task(folder: Path, **changes: Any) -> ShardTask:
    local = fs.LocalFileSystem()
    epoch = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
    return ShardTask(
        "job", "run", epoch, b"", (), (0,), local, "pool", OutputPlace(local, str(folder)), None, 0, **changes
    )


def handed_on(reports: list[bytes | None], values: list[int | None]) -> pa.RecordBatch:
    """What Spark makes of a task's rows."""
    output = pa.StructArray.from_arrays(
        [pa.array(values, pa.int64())], names=["c0"], mask=pa.array([value is None for value in values])
    )
    return pa.RecordBatch.from_arrays([pa.array(reports, pa.binary()), output], names=["report", "output"])


def test_rows_follow_their_report_and_leave_no_file(tmp_path: Path) -> None:
    """All rows in the order in which they were written; the spool's file has no name."""
    spool = RowSpool(str(tmp_path), Projection(ROWS, ()))
    schema = pa.schema([("k0", pa.string()), ("a0", pa.int64())])
    for part in ([1, 2], [], [3]):
        spool.write(
            pa.RecordBatch.from_arrays(
                [pa.array(["k"] * len(part), pa.string()), pa.array(part, pa.int64())], schema=schema
            )
        )
    assert os.listdir(tmp_path) == []
    assert spool.finish() == []
    table = pa.Table.from_batches(spool.hand_on(b"report"))
    assert table.to_pydict() == {
        "report": [b"report", None, None, None],
        "k0": [None, "k", "k", "k"],
        "a0": [None, 1, 2, 3],
    }
    assert os.listdir(tmp_path) == []


def test_a_spool_without_rows_hands_on_the_report_alone(tmp_path: Path) -> None:
    """Whether it was finished or given up."""
    spool = RowSpool(str(tmp_path), Projection(ROWS, ()))
    spool.finish()
    assert [batch.num_rows for batch in spool.hand_on(b"report")] == [1]
    spool.abort()


def test_output_is_staged_under_the_attempts_name(tmp_path: Path) -> None:
    """The report that leaves names the file; how Spark cuts the rows into batches makes no difference."""
    batches = [handed_on([REPORT.to_bytes(), None], [None, 2]), handed_on([None, None], [4, 6])]
    [result] = list(PublishTask(task(tmp_path), OUTPUT)(iter(batches)))
    report = ShardReport.from_bytes(result.column("report")[0].as_py())
    [file] = report.output
    assert (file.name, file.rows, report.counters.keys) == (f"{REPORT.attempt}.parquet", 3, 3)
    assert pq.read_table(tmp_path / file.name).to_pydict() == {"twice": [2, 4, 6]}


def test_a_shard_without_output_stages_nothing(tmp_path: Path) -> None:
    """Its report goes on all the same."""
    [result] = list(PublishTask(task(tmp_path), OUTPUT)(iter([handed_on([REPORT.to_bytes()], [None])])))
    assert ShardReport.from_bytes(result.column("report")[0].as_py()) == REPORT
    assert os.listdir(tmp_path) == []


def test_the_report_of_a_shard_that_was_finished_before_goes_on_as_it_is(tmp_path: Path) -> None:
    """Its output was staged by the run that finished it."""
    stored = REPORT.to_bytes() + b" "
    publish = PublishTask(task(tmp_path, finished=((0, stored),), report_folder=str(tmp_path / "reports")), OUTPUT)
    [result] = list(publish(iter([handed_on([stored], [None])])))
    assert result.column("report")[0].as_py() == stored
    assert os.listdir(tmp_path) == []


def test_a_failure_among_the_rows_leaves_no_staged_file(tmp_path: Path) -> None:
    """As if the attempt had never been, and without a report."""

    def batches() -> Any:
        yield handed_on([REPORT.to_bytes(), *[None] * 200_000], [None, *range(200_000)])
        raise RuntimeError("the expression failed")

    with pytest.raises(RuntimeError, match="the expression failed"):
        list(PublishTask(task(tmp_path), OUTPUT)(batches()))
    assert os.listdir(tmp_path) == []
