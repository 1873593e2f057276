"""Joins among other stages, beside a side that ends and under skew: what plain batch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joins
import pytest
from joins import DELAY, FURTHER, IN_RANGE, Pair
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import live

ROWS = [(side, event) for side, event in joins.sides_of(seed=12, rows=240) if event[1] is not None]


def named(rows: Any, uid: str) -> Any:
    return rows if isinstance(rows, DataFrame) else rows.uid(uid)


def behind_and_before(left: Any, right: Any) -> Any:
    """Rows that come once, beside their partners, at a rate of a table, by ten minutes."""
    once = named(left.withWatermark("ts", DELAY).dropDuplicates(["num", "ts", "value"]), "once")
    both = named(once.join(right.withWatermark("paid", DELAY), F.expr(FURTHER)), "both")
    spark = both.sparkSession
    rates = spark.range(4).selectExpr("cast(id AS double) AS num", "id + 2 AS rate")
    rated = both.join(rates, "num").selectExpr("num", "ts", "cents * rate AS cents")
    windows = rated.groupBy("num", F.window("ts", "10 minutes"))
    return named(windows.agg(F.sum("cents").alias("cents"), F.count("*").alias("rows")), "windows")


def of_two_stages(left: Any, right: Any) -> Any:
    """Sums of five minutes of both, those of the same window side by side."""
    sums = []
    for rows, key, time, value in ((left, "num", "ts", "value"), (right, "who", "paid", "cents")):
        windows = rows.withWatermark(time, DELAY).groupBy(F.col(key).alias("k"), F.window(time, "5 minutes"))
        sums.append(named(windows.agg(F.sum(value).alias(value)), f"sums-{key}"))
    both = named(sums[0].join(sums[1], ["k", "window"], "left"), "side-by-side")
    return both.select("k", "window", "value", "cents", sums[1]["k"].alias("theirs"), sums[0].k.alias("mine"))


def joined_twice(left: Any, right: Any) -> Any:
    """Left rows beside right ones, beside other left ones of the same key and about the same time; each once."""
    rows = left.withWatermark("ts", DELAY)
    first = named(rows.join(right.withWatermark("paid", DELAY), F.expr(IN_RANGE)), "first")
    others = rows.selectExpr("num AS other", "ts AS seen", "value AS v")
    near = "num = other AND seen BETWEEN ts - INTERVAL 1 MINUTE AND ts + INTERVAL 1 MINUTE"
    second = named(first.join(others, F.expr(near)), "second")
    # Of two event times one would have to be the deduplication's: this one is computed, and is none any more.
    pairs = second.selectExpr("num", "ts", "timestamp_micros(unix_micros(seen)) AS seen", "v")
    return named(pairs.dropDuplicates(), "once")


def by_their_frames(left: Any, right: Any) -> Any:
    """Sides with the same names of columns, behind the join told by their frames, and by the names of these."""
    a = left.withWatermark("ts", DELAY).withColumnRenamed("num", "k").alias("a")
    b = right.withWatermark("paid", DELAY).selectExpr("who AS k", "paid AS ts", "cents AS value").alias("b")
    within = (b["ts"] >= a["ts"]) & (b["ts"] <= a["ts"] + F.expr(f"INTERVAL {joins.RANGE_S} SECONDS"))
    both = named(a.join(b, (a.k == b.k) & within, "left"), "both")
    more = both.withColumn("more", b["value"] - a["value"]).where(a["value"] > 3).drop(b.k)
    windows = more.groupBy(F.window("a.ts", "10 minutes"), a["k"])
    return named(windows.agg(F.sum("more").alias("more"), F.count(b["ts"]), F.sum("a.value").alias("value")), "windows")


JOBS: list[Callable[[Any, Any], Any]] = [behind_and_before, of_two_stages, joined_twice, by_their_frames]


@pytest.mark.parametrize("job", [JOBS[0], *(pytest.param(job, marks=pytest.mark.slow) for job in JOBS[1:])])
def test_joins_among_other_stages_give_what_batch_gives(pair: Pair, job: Callable[[Any, Any], Any]) -> None:
    """A deduplication before, a static table and windows behind; two stages joined; one join behind another, and a
    deduplication behind that: histories, a file live, and a drain.  (A frame with itself: test_repeated_names.py.)"""
    past = [joins.of_side(ROWS[:100], side) for side in (0, 1)]
    pair.land(ROWS[100:150])
    query = live(pair.left.start(job(*pair.read(*past))))
    pair.land(ROWS[150:])
    query.processAllAvailable()
    query.stopWithSavepoint(str(pair.left.folder / "drained"), drain=True)
    assert not any(one["numRowsDroppedByWatermark"] for p in query.recentProgress for one in p["stateOperators"])
    expected = comparable(map(tuple, job(*pair.batch(ROWS)).collect()))
    assert comparable(pair.left.output()) == expected
    assert len(expected) > 10


def comparable(rows: Any) -> list[str]:
    """As ``joins.shown``, of rows with windows, which a reader of files and Spark show in different ways.

    The zeros are one: batch's deduplication makes one of them.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return value + 0.0
        found = value.asDict() if hasattr(value, "asDict") else value
        return tuple(time.replace(tzinfo=None) for time in found.values()) if isinstance(found, dict) else found

    return joins.shown(tuple(map(plain, row)) for row in rows)
