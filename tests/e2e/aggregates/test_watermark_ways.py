"""How far the watermark comes where rows are filtered or united behind ``withWatermark``: as far as stock Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, TwoWays

#: The last row of the second batch moves the watermark and is filtered out later.
BATCHES: list[Batch] = [
    {"a": [(n % 3, 10 + 10 * n, n % 6) for n in range(9)]},
    {"a": [(1, 101, 4), (1, 121, 5), (2, 191, 0)]},
    {"a": [(9, 400, 1)]},
]


def _counted(rows: Any) -> Any:
    return rows.groupBy(F.window("ts", "30 seconds").alias("w"), "key").agg(F.count("*").alias("n"))


def _timed(rows: Any) -> Any:
    return rows.withWatermark("ts", "5 seconds")


def _united(rows: Any) -> Any:
    return _counted(rows.union(rows.where("value > 3")))


def _joined(left: Any, right: Any) -> Any:
    on = "l.key = r.key AND r.ts BETWEEN l.ts - INTERVAL 3 SECONDS AND l.ts + INTERVAL 25 SECONDS"
    return left.alias("l").join(right.alias("r"), F.expr(on), "left").selectExpr("l.key", "l.ts", "r.value")


#: In the default selection: it has a condition, too; the others take other ways to the same.
_QUICK = {("a union with a filtered copy", 2)}
#: Those of which the first two files are a history; of the rest each step is in one of these.  A condition or a
#: generator alone is no job here: they are the first steps of these.
_WITH_HISTORY = ("a union with a filtered copy", "a generator, united", "a join behind a condition",
                 "two windows behind a condition")  # fmt: skip
JOBS: dict[str, Callable[[Any], Any]] = {
    "a union with a filtered copy": lambda a: _united(_timed(a)),
    "a generator, united": lambda a: _united(_timed(a).selectExpr("*", "explode(if(value > 1, array(1), array()))")),
    "a join behind a condition": lambda a: _joined(_timed(a).where("second(ts) < 40"), _timed(a)),
    "two windows behind a condition": lambda a: (
        _counted(_timed(a).withColumn("s", F.second("ts")).where("s < 40"))
        .groupBy(F.window("w", "1 minute").alias("m"))
        .agg(F.sum("n"))
    ),
    "a union before withWatermark": lambda a: _counted(_timed(a.union(a.where("value > 3")))),
}


@pytest.fixture(scope="module")
def stocks() -> dict[str, list[str]]:
    """What stock Spark gives, by job: it has no history."""
    return {}


@pytest.mark.parametrize(
    ("job", "history"),
    [
        pytest.param(job, history, marks=() if (job, history) in _QUICK else pytest.mark.slow)
        for job in JOBS
        for history in (2 if job in _WITH_HISTORY else 0,)
    ],
)
def test_windows_close_when_stocks_do(
    spark: SparkSession, tmp_path: Path, stocks: dict[str, list[str]], job: str, history: int
) -> None:
    """Nothing but the watermark closes them, and the last file is the last to move it."""
    ways = TwoWays(spark, tmp_path, BATCHES)

    def windows(frames: Callable[[str], Any]) -> Any:
        return JOBS[job](frames("a"))

    if job not in stocks:
        stocks[job] = ways.stock(windows)
    assert len(stocks[job]) > 2
    assert ways.ours(windows, history=history) == stocks[job]
