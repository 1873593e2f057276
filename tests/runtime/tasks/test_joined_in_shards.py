"""The first pass of a join brings each row to its shard with one exchange of each side, and sorts only what stays."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import both_sides
import pyarrow.parquet as pq
import pytest
from both_sides import SECOND_US, Case, as_told, frame_of, some_rows
from mixedmode.runtime.catalyst.spark_plans import executed_text
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.jobs.executor import EpochExecutor
from mixedmode.runtime.jobs.shuffle import JoinedInShards
from mixedmode.runtime.jobs.stage_epoch import NOT_PINNED, EpochRows, PinnedShards, StageEpoch, StageResult
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.join.columns import PAIR
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.state.keys.keygroups import shard_ranges
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LEFT_ROWS, RIGHT_ROWS = some_rows(3, 200, keys="abcdefgh"), some_rows(4, 150, keys="abcdefgh")


@pytest.fixture(autouse=True)
def _sent_to_workers() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(both_sides)
    yield
    cloudpickle.unregister_pickle_by_value(both_sides)


@dataclass
class Watched:
    """What was found out about planned jobs."""

    held: list[bool] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)


@contextmanager
def watched() -> Iterator[Watched]:
    seen, holds = Watched(), JoinedInShards.holds

    def noted(way: JoinedInShards, job: DataFrame) -> bool:
        seen.held.append(holds(way, job))
        seen.plans.append(executed_text(job))
        return seen.held[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JoinedInShards, "holds", noted)
        yield seen


class Running:
    """A pass over both sides without the runtime around it."""

    def __init__(self, spark: SparkSession, folder: Path, case: Case, shards: int) -> None:
        self.folder = folder
        for name in ("pool", "out"):
            (folder / name).mkdir()
        self.manifests = [StateManifest(groups, ()) for groups in shard_ranges(shards, 128)]
        self.executor = EpochExecutor(
            spark=spark,
            operator=case.operator(),
            settings=Settings(),
            job_id="job",
            run_id="run",
            max_parallelism=128,
            state_filesystem=fs.LocalFileSystem(),
            state_pool=str(folder / "pool"),
            output=OutputPlace(fs.LocalFileSystem(), str(folder / "out")),
            progress_folder=str(folder / "progress"),
        )

    def execute(
        self,
        frame: DataFrame,
        watermark_ms: int,
        *,
        sorter: Any = "spark",
        count: int | None = None,
        pinned: PinnedShards = NOT_PINNED,
    ) -> StageResult:
        spec = EpochSpec(1, "sorted", MIN_WATERMARK, watermark_ms, MIN_WATERMARK, 0, MIN_WATERMARK)
        epoch = StageEpoch(spec, self.manifests, sorter=sorter)
        return self.executor.execute(epoch, EpochRows(frame, count=count), pinned=pinned)

    def run(self, frame: DataFrame, watermark_ms: int, **told: Any) -> list[ShardReport]:
        return self.execute(frame, watermark_ms, **told).reports

    def rows(self, reports: list[ShardReport]) -> list[tuple[Any, ...]]:
        """What the tasks saw, in order."""
        names = [file.name for report in reports for file in report.output]
        tables = [pq.read_table(self.folder / "out" / name).replace_schema_metadata(None) for name in names]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def total_in(reports: list[ShardReport]) -> int:
    return sum(report.counters.rows_in for report in reports)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "leftsemi"])
def test_rows_are_joined_where_their_shards_are(spark: SparkSession, tmp_path: Path, how: Any) -> None:
    """Small sides, too; what stays comes sorted behind the pairs, which no exchange and no sort has touched."""
    case = Case(how)
    shards = 1 if how == "leftsemi" else 4
    frame, running = frame_of(spark, LEFT_ROWS, RIGHT_ROWS), Running(spark, tmp_path, case, shards)
    with watched() as seen:
        reports = running.run(frame, 40_000)
    assert seen.held == [True], seen.plans
    rows = running.rows(reports)
    output, kept = case.first_pass(LEFT_ROWS, RIGHT_ROWS, 40_000)
    assert as_told(row[1:-2] for row in rows) == output + kept
    assert total_in(reports) == len(LEFT_ROWS) + len(RIGHT_ROWS)
    for shard, manifest in enumerate(running.manifests):
        mine = [row for row in rows if row[-2] == shard]
        assert {row[0] for row in mine} <= set(manifest.key_groups)
        is_pair = [row[2] == PAIR for row in mine]
        assert is_pair == sorted(is_pair, reverse=True)
        stays = [(row[0], row[1] or "", row[3] is not None, row[3]) for row in mine if row[2] != PAIR]
        assert stays == sorted(stays, key=lambda row: (*row[:3], str(row[3])))


def test_shards_that_are_finished_are_left_out_of_the_join(spark: SparkSession, tmp_path: Path) -> None:
    """Their reports come back as they were, and the input is counted as a whole."""
    case = Case("full")
    frame, running = frame_of(spark, LEFT_ROWS, RIGHT_ROWS), Running(spark, tmp_path, case, shards=4)
    whole = running.run(frame, 40_000)
    with watched() as seen:
        again = running.run(frame, 40_000, pinned=PinnedShards({report.shard: report for report in whole[:3]}))
    assert [report.attempt for report in again[:3]] == [report.attempt for report in whole[:3]]
    assert again[3].attempt != whole[3].attempt
    assert Counter(running.rows(again)) == Counter(running.rows(whole))
    assert total_in(again) == total_in(whole)
    assert seen.held == [True]
    assert "NOT" in seen.plans[0]


@pytest.mark.parametrize("sorter", ["spark", "arrow"])
def test_other_numbers_of_shards_take_an_exchange_of_what_is_joined(
    spark: SparkSession, tmp_path: Path, sorter: Any
) -> None:
    """The rows are the same, with a sort by Spark or in the task, and so are counts that somebody has made before."""
    case = Case("left")
    frame, running = frame_of(spark, LEFT_ROWS, RIGHT_ROWS), Running(spark, tmp_path, case, shards=3)
    with watched() as seen:
        reports = running.run(frame, 40_000, sorter=sorter, count=77)
    assert seen.held == []
    output, kept = case.first_pass(LEFT_ROWS, RIGHT_ROWS, 40_000)
    assert as_told(row[1:-2] for row in running.rows(reports)) == output + kept
    assert total_in(reports) == 77


def test_a_side_that_spark_knows_to_be_empty_costs_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The other side's rows go out at the end of all input, stay before it, and are counted."""
    case = Case("left", greatest_us=2 * SECOND_US)
    frame = frame_of(spark, LEFT_ROWS, []).where("__side = 0")
    running = Running(spark, tmp_path, case, shards=2)
    for watermark_ms in (40_000, MAX_WATERMARK):
        reports = running.run(frame, watermark_ms)
        output, kept = case.first_pass(LEFT_ROWS, [], watermark_ms)
        assert as_told(row[1:-2] for row in running.rows(reports)) == output + kept
        assert total_in(reports) == len(LEFT_ROWS)
    case = Case("inner")
    (tmp_path / "inner").mkdir()
    running = Running(spark, tmp_path / "inner", case, shards=2)
    reports = running.run(frame, MAX_WATERMARK)
    assert running.rows(reports) == []
    assert total_in(reports) == len(LEFT_ROWS)


def test_rows_that_spark_would_compute_anew_each_time_are_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    """So a pair has the same values as the row that stays, and each row is observed once; nothing of it is cached
    afterwards."""
    case = Case("left", compares=False)
    left = [("a", second * SECOND_US, second) for second in range(60)]
    frame = frame_of(spark, left, [("a", 30 * SECOND_US, 0)])
    some = F.udf(lambda _: random.getrandbits(62), "long").asNondeterministic()
    frame = frame.withColumn("__l2", F.when(F.col("__l2").isNotNull(), some("__l2")))
    frame = frame.observe("seen", F.count(F.lit(1)).alias("rows"))
    running = Running(spark, tmp_path, case, shards=2)
    values: dict[Any, set[Any]] = {}
    done = running.execute(frame, 25_000)
    assert done.observed["seen"].rows == 61
    for row in running.rows(done.reports):
        values.setdefault(row[5], set()).add(row[6])
    assert len(values) == 61
    assert all(len(found) == 1 for time, found in values.items() if time is not None)
    assert not frame.is_cached and not frame.storageLevel.useDisk
