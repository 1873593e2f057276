"""An aggregate is its function, inputs, DISTINCT and FILTER: what becomes of state when a job is described anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aggregate_support import Job, at, events, ms, same
from mixedmode.errors import CheckpointMismatchError
from mixedmode.planner.stages.aggregates.aggregate import InputTraits, plan_aggregate
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.compaction import rewrite
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

BOUNDED = InputTraits(bounded=True)


FIRST = [(0, "a", 1.0, 3), (0, "a", 2.0, 4), (0, "b", 3.0, 5)]
SECOND = [(1, "a", 4.0, 10), (1, "c", 5.0, 20)]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return events(spark, [*FIRST, *SECOND])


def planned(frame: DataFrame, exprs: Sequence[Column], groups: Sequence[Any] = ("k",)) -> AggregateOperator:
    return plan_aggregate(frame, list(groups), exprs, event_time=None, output_mode="update", uid="agg", traits=BOUNDED)


def restarted(
    job: Job, operator: AggregateOperator, before: AggregateOperator, names: list[str] | None = None
) -> list[str]:
    """Go on with another description; returns the changes in words.

    With the names of columns it is as if the state had been written before it recorded what it is for.
    """
    stored = StateRegistry.from_json(json.loads(json.dumps(before.registry.to_json())))
    record = json.loads(json.dumps(before.state_record)) if names is None else None
    evolved = operator.evolved(stored, record, {"aggregates": names} if names else {})
    job.driver_side = evolved.operator
    job.operator = cloudpickle.loads(cloudpickle.dumps(evolved.operator))
    change = evolved.rewrite
    if change is not None:
        job.epoch += 1
        for shard, manifest in enumerate(job.manifests):
            if manifest.files:
                local, name = str(job.folder / "local"), f"e{job.epoch}-s{shard}-rewritten"
                local_copy = job.cache.acquire("job", shard, manifest, fs.LocalFileSystem(), job.pool, local, 1 << 20)
                change = cloudpickle.loads(cloudpickle.dumps(change))
                job.manifests[shard] = rewrite(
                    manifest, local_copy, fs.LocalFileSystem(), job.pool, local, name, change
                )
    return list(evolved.changes)


def of_epoch(rows: DataFrame, epoch: int) -> DataFrame:
    return rows.where(F.col("e") == epoch)


def total() -> Column:
    return F.sum("v")


def most() -> Column:
    return F.max("v")


def mean() -> Column:
    return F.avg("v")


def some() -> Column:
    return F.expr("sum(v) FILTER (WHERE v > 3)")


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "before it was recorded"])
def test_renamed_and_moved_aggregates_keep_their_state(rows: DataFrame, tmp_path: Path, is_recorded: bool) -> None:
    """Whatever they are called and wherever they stand; nothing is rewritten for that."""
    before = planned(rows, [total().alias("s"), F.count_distinct("v").alias("d"), most().alias("m"), some().alias("f")])
    job = Job(before, tmp_path)
    job.run(of_epoch(rows, 0))
    after = planned(rows, [some().alias("g"), most().alias("m"), F.count_distinct("v").alias("x"), total().alias("y")])
    files = list(job.manifests)
    changes = restarted(job, after, before, None if is_recorded else ["s", "d", "m", "f"])
    assert job.manifests == files
    same(job.run(of_epoch(rows, 1), style="random"), [("a", 14, 10, 3, 17), ("c", 20, 20, 1, 20)])
    if is_recorded:
        assert changes == [
            "column 'f' is now called 'g'; it is still sum(v) FILTER (WHERE (v > 3))",
            "column 'd' is now called 'x'; it is still count(DISTINCT v)",
            "column 's' is now called 'y'; it is still sum(v)",
        ]


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "before it was recorded"])
def test_a_new_aggregate_starts_empty_and_a_dropped_one_is_forgotten(
    rows: DataFrame, tmp_path: Path, is_recorded: bool
) -> None:
    """Groups that are there keep the others; a mean does not divide by a count that has seen more rows than its sum."""
    before = planned(rows, [F.count("v").alias("n"), total().alias("s"), most().alias("m")])
    job = Job(before, tmp_path)
    job.run(of_epoch(rows, 0))
    after = planned(rows, [total().alias("s"), mean().alias("mean"), F.count("v").alias("n")])
    changes = restarted(job, after, before, None if is_recorded else ["n", "s", "m"])
    assert [change.split(":")[0] for change in changes] == [
        "aggregate avg(v) (column 'mean') is new",
        f"aggregate {'max(v)' if is_recorded else 'something that was not recorded'} (column 'm') is not computed any"
        " more",
    ]
    same(job.run(of_epoch(rows, 1)), [("a", 17, 10.0, 3), ("c", 20, 20.0, 1)])
    # Once more: the two counts of the same values stay apart, and what was dropped comes back empty.
    again = planned(rows, [total().alias("s"), mean().alias("average"), F.count("v").alias("n"), most().alias("m")])
    assert len(restarted(job, again, job.driver_side)) == 2
    same(job.run(of_epoch(rows, 0), style="random"), [("a", 24, 17 / 3, 5, 4), ("b", 10, 5.0, 2, 5)])


def test_an_expression_has_the_state_of_its_aggregates_or_starts_empty_as_a_whole(
    rows: DataFrame, tmp_path: Path
) -> None:
    """A ratio never has a sum and a count of different rows; one of aggregates that are kept has all of them."""
    before = planned(rows, [total().alias("s"), (most() - F.min("v")).alias("spread")])
    job = Job(before, tmp_path)
    job.run(of_epoch(rows, 0))
    ratio, twice = (total() / F.count("*")).alias("ratio"), (total() * 2).alias("twice")
    after = planned(rows, [total().alias("total"), twice, ratio, (most() - F.min("v")).alias("width")])
    changes = restarted(job, after, before)
    assert [change.split(":")[0].split(";")[0] for change in changes] == [
        "column 's' is now called 'total'",
        "column 'twice' is new",
        "aggregate (CAST(sum(v) AS DOUBLE) / CAST(count(1) AS DOUBLE)) (column 'ratio') is new",
        "column 'spread' is now called 'width'",
    ]
    found = projected(job.driver_side, job.run(of_epoch(rows, 1)), rows.sparkSession)
    same(found, [("a", 17, 34, 10.0, 7), ("c", 20, 40, 20.0, 0)])
    again = planned(rows, [ratio, total().alias("s")])
    restarted(job, again, job.driver_side)
    same(projected(job.driver_side, job.run(of_epoch(rows, 1)), rows.sparkSession), [("a", 10.0, 27), ("c", 20.0, 40)])


def projected(
    operator: AggregateOperator, written: list[tuple[Any, ...]], spark: SparkSession
) -> list[tuple[Any, ...]]:
    """What Spark makes of the operator's rows."""
    assert operator.projection is not None
    frame = spark.createDataFrame(written, operator.projection.row_schema)
    return [tuple(row) for row in frame.select(*operator.projection.columns).collect()]


def test_of_equal_aggregates_the_first_is_the_first(rows: DataFrame, tmp_path: Path) -> None:
    """They have one state, and another one beside them has it, too."""
    before = planned(rows, [total().alias("one"), total().alias("two")])
    job = Job(before, tmp_path)
    job.run(of_epoch(rows, 0))
    after = planned(rows, [total().alias("a"), total().alias("b"), total().alias("c")])
    assert [change.split(";")[0].split(":")[0] for change in restarted(job, after, before)] == [
        "column 'one' is now called 'a'",
        "column 'two' is now called 'b'",
        "column 'c' is new",
    ]
    same(job.run(of_epoch(rows, 1)), [("a", 17, 17, 17), ("c", 20, 20, 20)])


def test_open_sessions_are_taken_over(rows: DataFrame, tmp_path: Path) -> None:
    """Lists of records are rewritten like single ones."""
    groups = ["k", F.session_window("ts", "10 minutes")]

    def session(exprs: Sequence[Column]) -> AggregateOperator:
        return plan_aggregate(rows, groups, exprs, event_time="ts", output_mode="append", uid="agg")

    before = session([total().alias("s"), F.collect_list("v").alias("all")])
    job = Job(before, tmp_path)
    job.run(of_epoch(rows, 0))
    after = session([F.max("t").alias("last"), total().alias("s")])
    assert len(restarted(job, after, before)) == 2
    found = job.run(of_epoch(rows, 1), firing_ms=ms(60), style="random")
    ten = timedelta(minutes=10)
    spans = {"a": (at(1), at(4) + ten), "b": (at(3), at(3) + ten), "c": (at(5), at(5) + ten)}
    values = {"a": ("t3", 17), "b": (None, 5), "c": ("t6", 20)}
    naive = [(k, tuple(time.replace(tzinfo=None) for time in window.values()), *rest) for k, window, *rest in found]
    same(naive, [(key, spans[key], *values[key]) for key in "abc"])


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (
            lambda: [F.sum("v").alias("n"), most().alias("m")],
            r"column 'n' was count\(1\), and is sum\(v\) in this job",
        ),
        (
            lambda: [some().alias("total"), F.count("*").alias("n")],
            r"column 'total' was sum\(v\), and is sum\(v\) FILTER \(WHERE \(v > 3\)\) in this job",
        ),
        (
            lambda: [F.sum_distinct("v").alias("total"), F.count("*").alias("n")],
            r"column 'total' was sum\(v\), and is sum\(DISTINCT v\)",
        ),
        (
            lambda: [F.min("t").alias("t")],
            r"its aggregates are sum\(v\), count\(1\), max\(v\), this job's are min\(t\): they have nothing in common",
        ),
    ],
)
def test_another_column_under_an_old_name_is_refused(
    rows: DataFrame, after: Callable[[], list[Column]], words: str
) -> None:
    """Both are named, and the operator stays what it was."""
    before = planned(rows, [F.sum("v").alias("total"), F.count("*").alias("n"), F.max("v").alias("m")])
    operator = planned(rows, after())
    partials, registry = operator.partials, operator.registry
    with pytest.raises(CheckpointMismatchError, match=words):
        operator.evolved(before.registry, before.state_record, {})
    assert (operator.partials, operator.registry) == (partials, registry)


def test_an_aggregate_of_another_type_is_refused(rows: DataFrame) -> None:
    """Its values would be read as something else."""
    before = planned(rows, [most().alias("m")])
    with pytest.raises(
        CheckpointMismatchError, match=r"aggregate max\(v\) is kept as int32 \(max\(v\)\), this job's is"
    ):
        planned(rows.withColumn("v", F.col("v").cast("double")), [most().alias("m")]).evolved(
            before.registry, before.state_record, {}
        )


def test_a_job_that_has_ended_takes_nothing_new(rows: DataFrame) -> None:
    """It would look as if it had been computed."""
    before = planned(rows, [most().alias("m")])
    with pytest.raises(CheckpointMismatchError, match=r"the job has ended, so column 's' \(sum\(v\)\), which is new"):
        planned(rows, [most().alias("m"), total().alias("s")]).evolved(
            before.registry, before.state_record, {}, going_on=False
        )


def test_what_is_recorded_of_state(rows: DataFrame) -> None:
    """The record is a contract with later versions."""
    (output,) = planned(rows, [mean().alias("mean")]).state_record
    assert (output["name"], output["text"], output["expression"]) == ("mean", "avg(v)", "")
    assert [(one["buffers"], one["since"]) for one in output["aggregates"]] == [([[0], [1]], 0)]
    assert json.loads(output["aggregates"][0]["identity"]) == [
        *["mean", "", [[0, 0], [1, 0]]],
        [["sum", "sum(CAST(v AS DOUBLE))"], ["count", "count(v)"]],
    ]
