"""``run_job``: whole jobs in Spark over rows of a test; and that a harness gives what such a run does."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode
import pytest
from mixedmode.errors import PlanError, SetupError, UserCodeError
from mixedmode.testing import Harness, run_job
from processors import OUTPUT, SCHEMA, Buckets, Counts, CountsInPandas, Forgetful, at
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from mixedmode.planner.frames.frame import MixedFrame

OBSERVED = {"execution.backlog.final-watermark": "observed"}


@pytest.mark.slow
def test_several_processors_give_what_their_harnesses_do(spark: SparkSession) -> None:
    """Timers, lists and frames: backlog and stream of a job in Spark are those of a harness, batch by batch."""
    chance = random.Random(11)
    parts = [
        [(chance.choice("abcd"), at(chance.randint(first, first + 400)), n) for n in range(25)]
        for first in (0, 300, 600, 900)
    ]
    of_each = {
        "buckets": ("transformWithState", Buckets(), "eventTime"),
        "counts": ("transformWithState", Counts(), "none"),
        "pandas": ("transformWithStateInPandas", CountsInPandas(), "none"),
    }

    def job(rows: MixedFrame) -> MixedFrame:
        late = rows.withWatermark("ts", "250 milliseconds")
        outputs = []
        for name, (method, processor, time_mode) in of_each.items():
            stage = getattr(late.groupBy("k"), method)(processor, OUTPUT, "append", time_mode)
            outputs.append(stage.uid(name).withColumn("who", F.lit(name)))
        return outputs[0].union(outputs[1]).union(outputs[2])

    run = run_job(job, schema=SCHEMA, history=parts[0], live=parts[1:], end=True)
    for name, (_, processor, time_mode) in of_each.items():
        with Harness(
            processor,
            key="k",
            schema=SCHEMA,
            output=OUTPUT,
            time_mode=time_mode,
            event_time="ts",
            delay="250 ms",
            in_pandas=name == "pandas",
            options=OBSERVED,
        ) as harness:
            expected = [harness.backlog(parts[0]), *map(harness.push, parts[1:]), harness.end()]
            found = [[Row(*row[:3]) for row in part if row.who == name] for part in (run.history, *run.live, run.end)]
            assert [sorted(map(tuple, part)) for part in found] == [sorted(map(tuple, part)) for part in expected]
            assert len(run.late_rows.get(name, [])) == harness.late_rows
            if name == "counts":
                state = run.state.state("values", operator=name)
                by_key = {row.key.k: row for row in run.state.state("count", operator=name).collect()}
                assert {key: (row.value.n,) for key, row in by_key.items()} == harness.state("count")
                assert state.count() == sum(map(len, harness.state("values").values()))
    run.close()
    assert not os.path.exists(run.location)


def test_a_job_without_a_keyed_stage(spark: SparkSession) -> None:
    """What such a job makes of the history and of each batch."""
    parts = [[("a", at(0), 1), ("b", at(1), 2)], [("c", at(2), 3)], [], [("d", at(3), 4), ("e", at(4), 5)]]
    run = run_job(lambda rows: rows.where("k <> 'd'").select("k"), schema=SCHEMA, history=parts[0], live=parts[1:])
    assert [[row.k for row in part] for part in (run.history, *run.live)] == [["a", "b"], ["c"], [], ["e"]]


@pytest.mark.slow
def test_a_job_of_aggregates_batch_by_batch(spark: SparkSession) -> None:
    """Of a frame the sources are taken for the test's; late rows are told, and windows fire at the end."""
    stream = (
        spark.readStream.format("rate").load().select(F.col("value").cast("string").alias("k"), "timestamp", "value")
    )
    frame = (
        mixedmode.read(live=stream)
        .where("value < 100")
        .withWatermark("timestamp", "10 milliseconds")
        .groupBy("k", F.window("timestamp", "100 milliseconds"))
        .agg(F.sum("value").alias("n"))
        .select("k", F.col("window.start").alias("at"), "n")
    )
    batches: list[Any] = [
        [("a", at(5), 1), ("a", at(9), 200)],
        [("a", at(250), 2), {"k": "b", "timestamp": at(7), "value": 5}],
    ]
    run = run_job(frame, live=[*batches, [("a", at(8), 3)], []], end=True)
    assert run.history == []
    assert [sorted(map(tuple, rows)) for rows in run.live] == [[], [("a", at(0), 1), ("b", at(0), 5)], [], []]
    assert [tuple(row) for row in run.end] == [("a", at(200), 2)]
    assert [row.value for rows in run.late_rows.values() for row in rows] == [3]
    assert [one.detail for one in run.lifecycle if one.event == "phase"] == ["backlog", "switch", "live"]
    assert run.progress[0]["isBacklog"]


def test_the_clock_is_the_tests(spark: SparkSession) -> None:
    """Processing-time timers and TTL go by the clock that is given, on all threads of the run."""

    def job(rows: MixedFrame) -> MixedFrame:
        return rows.groupBy("k").transformWithState(Forgetful(), OUTPUT, "update", "processingTime")

    live = [[("a", None, 2)], [], [("a", None, 3)]]
    run = run_job(job, schema=SCHEMA, history=[("a", None, 1)], live=live, clock=[1_000, 1_010, 1_080, 1_200])
    assert [[tuple(row) for row in rows] for rows in (run.history, *run.live)] == [
        [("a", "first", 1)],
        [("a", "again", 2)],
        [("a", "alarm", 1_050), ("a", "alarm", 1_060)],
        [("a", "first", 3)],
    ]


def test_what_a_processor_raises_is_what_the_test_gets(spark: SparkSession) -> None:
    """A failed run raises the user's error, with its line, and leaves no query behind."""

    def job(rows: MixedFrame) -> MixedFrame:
        return (
            rows.withWatermark("ts", "0 seconds")
            .groupBy("k")
            .transformWithState(Buckets(), OUTPUT, "append", "eventTime")
        )

    with pytest.raises(UserCodeError, match='raise ValueError\\(f"a value of'):
        run_job(job, schema=SCHEMA, history=[("a", at(1), 666)])
    assert spark.streams.active == []


@pytest.mark.slow
def test_a_dry_run_shows_the_first_rows_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """dryRun gives the plan and rows of a sample, of processors, windows and joins, and touches no folder."""
    there = tmp_path / "history"
    spark.createDataFrame([("a", at(n * 10), n) for n in range(50)], SCHEMA).coalesce(1).write.parquet(str(there))
    (tmp_path / "landing").mkdir()
    rows = mixedmode.read(
        history=spark.read.parquet(str(there)),
        live=spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "landing")),
    ).withWatermark("ts", "10 milliseconds")
    before = sorted(tmp_path.iterdir())
    sums = rows.where("v < 40").groupBy("k").transformWithState(Buckets(), OUTPUT, "append", "eventTime")
    tried = sums.writeStream.queryName("sums").dryRun(rows=3)
    assert tried.rows == [Row(key="a", what=f"until {end}", n=n) for end, n in ((100, 45), (200, 145), (300, 245))]
    assert (tried.sampled_rows, tried.result_rows) == (40, 4)
    said = str(tried)
    assert "Phase 1 of 3: backlog" in said and "3 of 4 rows of the result for the first 40 rows" in said
    assert "|  a|until 100| 45|" in said

    windows = rows.groupBy(F.window("ts", "100 milliseconds")).agg(F.count("*").alias("n")).select("n")
    writer = windows.writeStream.option("path", str(tmp_path / "out")).option(
        "checkpointLocation", str(tmp_path / "ck")
    )
    tried = writer.option("pipeline.late-data.path", str(tmp_path / "late")).dryRun(sample=25)
    assert (sorted(tried.rows), tried.sampled_rows) == ([Row(n=5), Row(n=10), Row(n=10)], 25)
    assert tried.plan.checkpoint_location == str(tmp_path / "ck")
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(PlanError, match=r"dryRun\(rows=0\) is not allowed"):
        writer.dryRun(rows=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"frame": 5}, "takes a frame of mixedmode.read, or a function that makes one, got 5"),
        ({"frame": lambda rows: rows}, "needs schema: the columns of what it reads"),
        ({"frame": lambda rows: 5, "schema": SCHEMA}, "it returned 5"),
        ({"history": [("a",)]}, "row 0 of history has 1 values"),
        ({"history": {1: []}}, r"history has rows of \[1\], but the job reads 1 histories"),
        ({"live": [[], [("a", at(1), "x")]]}, "row 0 of live batch 1 has 'x'"),
        ({"live": [{3: []}]}, "live batch 0 has rows of source 3, but the job reads 1 live sources"),
        ({"live": [[]], "clock": [1]}, "clock has 1 moments; give one for the backlog and one for each of 1 batches"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_runs(
    spark: SparkSession, arguments: dict[str, Any], said: str
) -> None:
    """The message names the argument, the batch, the row."""
    given = {"frame": lambda rows: rows.groupBy("k").count()}
    if "frame" not in arguments:
        given["schema"] = SCHEMA
    given |= arguments
    with pytest.raises(PlanError, match=said):
        run_job(given.pop("frame"), **given)


def test_without_spark_it_says_so() -> None:
    """A test without a session is told that run_job needs one, and that a processor alone does not."""
    with pytest.raises(SetupError, match="a processor alone runs without, in Harness"):
        run_job(lambda rows: rows, schema=SCHEMA)
