"""Epochs of a join with a further condition, which Spark evaluates on the way of the rows to their shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import both_sides
import pyarrow.parquet as pq
import pytest
from both_sides import SECOND_US, Case, Row, frame_of, some_rows
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.jobs.executor import EpochExecutor
from mixedmode.runtime.jobs.stage_epoch import EpochRows, StageEpoch
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.join.operator import JoinOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.state.keys.keygroups import shard_ranges
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _sent_to_workers() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(both_sides)
    yield
    cloudpickle.unregister_pickle_by_value(both_sides)


def later(rows: list[Row], seconds: int) -> list[Row]:
    return [(key, None if time is None else time + seconds * SECOND_US, value) for key, time, value in rows]


def as_found(row: tuple[Any, ...]) -> Any:
    """A pair of output rows as the model has it."""
    sides = []
    for columns in (row[:3], row[3:]):
        key, time, value = columns
        at_us = None if time is None else round(time.timestamp() * SECOND_US)
        sides.append(None if columns == (None,) * 3 else (key, at_us, value))
    return tuple(sides)


@pytest.mark.parametrize("how", ["full", pytest.param("leftsemi", marks=pytest.mark.slow)])
def test_epochs_with_a_condition_give_what_one_join_of_all_rows_gives(
    spark: SparkSession, tmp_path: Path, how: Any
) -> None:
    """A first pass by Spark, live epochs, one that Spark does not sort, one without rows, and the end."""
    case = Case(how)
    (tmp_path / "pool").mkdir()
    (tmp_path / "out").mkdir()
    manifests = [StateManifest(groups, ()) for groups in shard_ranges(2, 128)]
    executor = EpochExecutor(
        spark=spark,
        operator=case.operator(JoinOperator),
        settings=Settings(),
        job_id=f"job-{how}",
        run_id="run",
        max_parallelism=128,
        state_filesystem=fs.LocalFileSystem(),
        state_pool=str(tmp_path / "pool"),
        output=OutputPlace(fs.LocalFileSystem(), str(tmp_path / "out")),
        progress_folder=str(tmp_path / "progress"),
    )
    found: Counter[Any] = Counter()
    all_rows: tuple[list[Row], list[Row]] = ([], [])
    plan: list[tuple[Any, Any, int | None]] = [
        ("sorted", "spark", 0),
        ("random", "spark", 30),
        ("sorted", "arrow", 60),
        ("random", "spark", None),
        ("random", "spark", 90),
    ]
    fired_ms = MIN_WATERMARK
    for epoch, (style, sorter, at) in enumerate(plan, start=1):
        frame, firing_ms = None, fired_ms
        if at is not None:
            sides = [later(some_rows(10 * epoch + side, 60, seconds=30), at) for side in (0, 1)]
            for known, rows in zip(all_rows, sides, strict=True):
                known += rows
            frame, firing_ms = frame_of(spark, *sides), (at + 20) * 1000
        spec = EpochSpec(
            epoch, style, fired_ms, firing_ms, min(fired_ms, 0 if at is None else at * 1000), 0, MIN_WATERMARK
        )
        reports = executor.execute(
            StageEpoch(spec, manifests, sorter=sorter), None if frame is None else EpochRows(frame)
        ).reports
        manifests = [manifest.append(list(report.files)) for manifest, report in zip(manifests, reports, strict=True)]
        found += outputs(tmp_path, reports)
        fired_ms = firing_ms
    spec = EpochSpec(9, "random", fired_ms, MAX_WATERMARK, fired_ms, 0, MIN_WATERMARK)
    found += outputs(tmp_path, executor.execute(StageEpoch(spec, manifests)).reports)
    expected, _ = case.first_pass(*all_rows, MAX_WATERMARK)
    assert found == pairs_of(expected)


def outputs(folder: Path, reports: Any) -> Counter[Any]:
    names = [file.name for report in reports for file in report.output]
    tables = [pq.read_table(folder / "out" / name) for name in names]
    return Counter(as_found(tuple(row.values())) for table in tables for row in table.to_pylist())


def pairs_of(expected: Counter[Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for (_, _, _, left, right, _), count in expected.items():
        found[left, right] += count
    return found
