"""Few rows of an aggregate whose one task hashes and sorts them: as Spark does it, key by key."""

from __future__ import annotations

from typing import Any

import mixedmode
import pyarrow as pa
import pytest
from aggregate_support import MAX_PARALLELISM, Job, at
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.jobs.shard_rows import ShardRows
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.runtime.tasks.shard.task_meter import TaskMeter
from mixedmode.runtime.tasks.shard.task_sorter import SortPlan, sorted_here
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SPEC = EpochSpec(1, "random", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Keys of many types, with nulls, twice each."""
    texts = ["", "a", "ab", "abcd", "abcde", "grün", None, "z" * 40, "a\0b"]
    some = [(text, number, at(number), number % 3 == 0) for number, text in enumerate(texts)]
    frame = spark.createDataFrame([*some, *some, (None, None, None, None)], "t string, n long, ts timestamp, b boolean")
    return frame.selectExpr(
        "*", "CAST(n * 1.25 AS DECIMAL(9, 2)) AS d", "date_add(DATE'1960-01-01', CAST(n AS INT)) AS day"
    ).coalesce(1)


_KEYS = ["t", "n, b", "d, day", "ts", "window(ts, '2 minutes'); t"]


@pytest.mark.parametrize("keys", _KEYS)
def test_few_rows_come_from_the_task_as_from_spark(rows: DataFrame, job: Any, keys: str) -> None:
    """The same columns, types, key groups and order."""
    frame = rows.where("ts IS NOT NULL") if "window" in keys else rows
    columns = [F.expr(key) for key in keys.split("; " if ";" in keys else ", ")]
    made = plan_aggregate(frame, columns, [F.count("*"), F.max("n")], event_time="ts", output_mode="update", uid="agg")
    running: Job = job(made)
    expected = running._prepared(frame, SPEC)
    few = ShardRows(made, MAX_PARALLELISM).few_in_task(frame, SPEC, lambda: True, lambda: frame.sparkSession)
    assert few is not None and few.input_columns is None
    plan = SortPlan((KEY_GROUP_COLUMN, *made.key_columns), few.order, 1 << 24, None)
    batches = iter(made.prepare(frame, SPEC).coalesce(1).toArrow().to_batches(max_chunksize=4))
    with sorted_here(plan, None, TaskMeter(), few.of(batches)) as (sorted_rows, _):
        found = pa.Table.from_batches(list(sorted_rows))
    assert [(field.name, field.type) for field in found.schema] == [(one.name, one.type) for one in expected.schema]
    assert found.to_pylist() == expected.to_pylist()
    assert found.num_rows >= 4


def test_keys_that_only_spark_hashes_are_left_to_it(rows: DataFrame) -> None:
    """A fraction, or a decimal of many digits."""
    frame = rows.selectExpr("n / 2 AS f", "CAST(n AS DECIMAL(30, 2)) AS long", "n")
    for key in ("f", "long"):
        made = plan_aggregate(frame, [key], [F.count("*")], event_time=None, output_mode="update", uid="agg")
        assert (
            ShardRows(made, MAX_PARALLELISM).few_in_task(frame, SPEC, lambda: True, lambda: frame.sparkSession) is None
        )


def test_rows_of_a_deduplication_come_as_they_are_only_if_they_are_few(rows: DataFrame) -> None:
    """A micro-batch of which nobody knows how large it is is reduced to a row of each key by Spark."""
    described = mixedmode.read(history=rows.select("n", "t")).dropDuplicates(["n"])
    made = described._stage.build("d", "append", Settings())  # type: ignore[union-attr]
    arranged = ShardRows(made, MAX_PARALLELISM)
    for are_few in (True, False):
        few = arranged.few_in_task(
            rows.select("n", "t"),
            SPEC,
            lambda are_few=are_few: are_few,  # type: ignore[misc]
            lambda: rows.sparkSession,
        )
        assert few is not None
        assert few.input_columns == (("n", "t") if are_few else None)
