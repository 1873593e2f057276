"""User-defined functions in arguments of aggregates: called before the rows are aggregated, with Spark's results."""

from __future__ import annotations

from typing import Any

import mixedmode
import pandas as pd
import pytest
import support
from mixedmode import PlanError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(160, seed=6, keys=9)


def double(value: int) -> int:
    return value * 2


def totals(rows: Any) -> Any:
    """Called once and several times, within one another and in filters, on rows and on series, also in a key."""
    doubled, third = F.udf(double, "long"), F.udf(lambda value: value % 3, "long")
    pair = F.udf(lambda key, value: (f"{key}!", value), "struct<text: string, value: long>")
    halved = F.pandas_udf(lambda values: pd.Series(values) // 2, "long")
    last = F.expr("max(value) FILTER (WHERE plus(value) > 5)").alias("last")
    return rows.groupBy(third("value").alias("third"), "key").agg(
        F.sum(doubled("value")),
        F.count_if(doubled(doubled("value")) > 40),
        (F.max(doubled("value")) - F.min(doubled("value"))).alias("range"),
        F.max(pair("key", "value").text).alias("text"),
        F.avg(halved("value") + 1).alias("halves"),
        F.expr("count(DISTINCT plus(value))").alias("different"),
        last,
    )


@pytest.mark.slow
def test_functions_in_aggregates_give_what_stock_gives(world: World) -> None:
    """From the history into the stream and over a restart; the names of columns are Spark's, and rows that are late
    have no columns more than they came with."""
    world.spark.udf.register("plus", lambda value: value + 1, "long")
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def take(rows: DataFrame, number: int) -> None:
        found.update({tuple(row[:2]): tuple(row) for row in rows.collect()})

    def started() -> mixedmode.MixedQuery:
        keyed = totals(world.read(EVENTS[:60]))
        assert keyed.columns == totals(world.history()).columns
        writer = keyed.writeStream.outputMode("update").option("checkpointLocation", str(world.checkpoints))
        query = writer.option("pipeline.parallelism", 2).foreachBatch(take).start()
        world.queries.append(query)
        return support.live(query)

    query = started()
    world.feed(query, EVENTS[60:100])
    query.stop()
    query = started()
    world.feed(query, EVENTS[100:])
    query.stop()
    expected = totals(world.history(EVENTS)).collect()
    assert sorted(found.values(), key=repr) == sorted(map(tuple, expected), key=repr)


@pytest.mark.slow
def test_late_rows_have_no_column_of_a_call(world: World) -> None:
    """They are as they came."""
    world.land([("k", 1000, 0)])
    timed = world.read().withWatermark("ts", "0 seconds")
    keyed = timed.groupBy("key", F.window("ts", "10 seconds")).agg(F.sum(F.udf(double, "long")("value")))
    options = {
        "pipeline.late-data.path": str(world.folder / "late"),
        "execution.backlog.final-watermark": "observed",
    }
    query = support.live(world.start(keyed, options))
    world.feed(query, [("k", 500, 1), ("k", 1001, 2)])
    query.stop()
    late = query.lateRows
    assert late.columns == ["key", "ts", "value", "_watermark"] and [row.value for row in late.collect()] == [1]


def test_calls_that_cannot_be_told_apart_are_refused(world: World) -> None:
    """State is recognised by names: of two functions with one name nobody would know which is which."""
    rows = world.read(EVENTS, live=False)
    one, other = F.udf(lambda value: value + 1, "long"), F.udf(lambda value: value + 2, "long")
    told = "sum\\(<lambda>\\(value\\)\\) calls a user-defined function; compute it with withColumn before groupBy"
    with pytest.raises(PlanError, match=told):
        rows.groupBy("key").agg(F.sum(one("value")), F.max(other("value")))
