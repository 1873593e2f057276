"""SQL over views of a job's rows: the same text gives what stock ``spark.sql`` and DataFrame calls give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, TwoWays

#: Rows of two sources in order of time, with nulls among keys; the last ones move the watermark on.
BATCHES: list[Batch] = [
    {
        "a": [(1 + n % 3, 7 * n + 40 * batch, n + batch) for n in range(5)] + [(None, 40 * batch + 3, batch)],
        "b": [(1 + n % 4, 9 * n + 40 * batch, 10 * n) for n in range(4)],
    }
    for batch in range(3)
] + [{"a": [(9, 400, 0)], "b": [(9, 400, 0)]}]

PER_WINDOW = "SELECT window(ts, '20 seconds') AS w, key, count(*) AS n FROM a GROUP BY 1, 2"


def two_keys(a: Any, b: Any) -> Any:
    return a.groupBy(F.window("ts", "20 seconds").alias("w"), "key").agg(F.count("*").alias("n"))


def nested(a: Any, b: Any) -> Any:
    return two_keys(a, b).groupBy("w").agg(F.sum("n").alias("s"))


def joined(a: Any, b: Any) -> Any:
    left = a.select("key", F.col("ts").alias("ts_a"), F.col("value").alias("x"))
    right = b.select(F.col("key").alias("other"), F.col("ts").alias("ts_b"), F.col("value").alias("y"))
    within = F.expr("key = other AND ts_b >= ts_a AND ts_b <= ts_a + INTERVAL 15 SECONDS")
    return left.join(right, within, "left").select("key", "x", "y")


#: Those that are not slow.
SHORT = ("windows", "sessions", "an inner join", "a table")
#: A statement, its output mode, and the same by calls.
STATEMENTS: dict[str, tuple[str, str, Callable[[Any, Any], Any] | None]] = {
    "projection and filter": (
        "SELECT key + 1 AS k, value * 2 AS v, ts FROM a WHERE value BETWEEN 1 AND 4 AND key IS NOT NULL",
        "append",
        lambda a, b: a.where("value BETWEEN 1 AND 4 AND key IS NOT NULL").selectExpr(
            "key + 1 AS k", "value * 2 v", "ts"
        ),
    ),
    "lateral view": (
        "SELECT key, e FROM a LATERAL VIEW OUTER explode(sequence(1, least(value, 3))) t AS e WHERE value > 0",
        "append",
        None,
    ),
    "windows": (PER_WINDOW, "append", two_keys),
    "sliding windows with having": (
        "SELECT window.start AS s, key, sum(value) / count(*) AS mean FROM a GROUP BY window(ts, '30 seconds', '10"
        " seconds', '3 seconds'), key HAVING max(value) > 2 AND count(*) > 0",
        "append",
        None,
    ),
    "sessions": (
        "SELECT session_window(ts, '8 seconds') AS s, key, collect_list(value) AS v FROM a GROUP BY 1, 2",
        "append",
        None,
    ),
    "a second aggregate": (
        f"WITH counts AS ({PER_WINDOW}) SELECT w, sum(n) AS s FROM counts GROUP BY w",
        "append",
        nested,
    ),
    "an inner join": (
        "SELECT a.key, a.value AS x, b.value AS y, b.ts FROM a JOIN b ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts"
        " + INTERVAL 15 SECONDS WHERE b.value < 30",
        "append",
        None,
    ),
    "an outer join": (
        "SELECT a.key, a.value AS x, b.value AS y FROM a LEFT JOIN b ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts"
        " + INTERVAL 15 SECONDS",
        "append",
        joined,
    ),
    "a table": ("SELECT a.key, name, value FROM a JOIN names ON a.key = names.key", "append", None),
    "a union": (
        "SELECT key, value FROM a WHERE key = 1 UNION ALL SELECT value, key FROM b WHERE key > 2",
        "append",
        None,
    ),
    "order and limit": (
        "SELECT key, count(*) AS n, sum(value) AS s FROM a GROUP BY key ORDER BY s DESC, key LIMIT 2",
        "complete",
        lambda a, b: (
            a.groupBy("key")
            .agg(F.count("*").alias("n"), F.sum("value").alias("s"))
            .orderBy(F.desc("s"), "key")
            .limit(2)
        ),
    ),
    "computed keys": (
        "SELECT CASE WHEN value > 3 THEN 'much' ELSE 'little' END AS size, count(key) + 1 AS n FROM a GROUP BY size",
        "complete",
        None,
    ),
}


def say(text: str, frames: Callable[[str], Any]) -> Any:
    spark = frames("a").sparkSession
    for name in ("a", "b"):
        frames(name).withWatermark("ts", "5 seconds").createOrReplaceTempView(name)
    spark.createDataFrame([(1, "one"), (2, "two")], "key long, name string").createOrReplaceTempView("names")
    return spark.sql(text)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in STATEMENTS]
)
def test_a_statement_over_views_gives_what_stock_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """With history first, and with the calls that it stands for."""
    text, mode, calls = STATEMENTS[name]
    ways = TwoWays(spark, tmp_path, BATCHES)
    stock = ways.stock(lambda frames: say(text, frames), mode)
    assert stock
    assert ways.ours(lambda frames: say(text, frames), mode, history=2) == stock
    if calls is not None:
        watermarked = [lambda frames, name=name: frames(name).withWatermark("ts", "5 seconds") for name in ("a", "b")]
        called = ways.ours(lambda frames: calls(*[one(frames) for one in watermarked]), mode, history=2)
        assert called == stock


ROWS = [(n % 4 if n % 7 else None, n * 5, n % 6) for n in range(40)]
_VALUES = ("key", "value", "value + key", "coalesce(key, -1)", "CASE WHEN value > 2 THEN key END")
_CONDITIONS = ("value > 1", "key IS NOT NULL", "value BETWEEN 1 AND 4", "key IN (1, 2) OR value = 0", "NOT key = 3")
_RESULTS = (
    "count(*)",
    "sum(value)",
    "max(value) - min(key)",
    "avg(value + key)",
    "count(key) FILTER (WHERE value > 2)",
)
_KEYS = ("key", "value % 2", "window(ts, '30 seconds')", "window(ts, '30 seconds', '10 seconds')", "coalesce(key, 0)")


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Statements over a view ``a`` of key, ts and value."""
    source = "a"
    if draw(st.booleans()):
        value = draw(st.sampled_from(_VALUES))
        source = f"(SELECT key, ts, {value} AS value FROM a WHERE {draw(st.sampled_from(_CONDITIONS))})"
    if draw(st.booleans()):
        other = f"SELECT key, ts, value FROM a WHERE {draw(st.sampled_from(_CONDITIONS))}"
        source = f"(SELECT * FROM {source} UNION ALL {other})"
    where = f" WHERE {draw(st.sampled_from(_CONDITIONS))}" if draw(st.booleans()) else ""
    if draw(st.integers(0, 3)) == 0:
        generated = "LATERAL VIEW explode(array(1, value)) t AS e"
        return f"SELECT {draw(st.sampled_from(_VALUES))} AS x, e FROM {source} {generated}{where}"
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=2, unique_by=lambda key: key[:6]))
    results = draw(st.lists(st.sampled_from(_RESULTS), min_size=1, max_size=3))
    named = [f"{one} AS c{at}" for at, one in enumerate(draw(st.permutations([*keys, *results])))]
    having = f" HAVING {draw(st.sampled_from(_RESULTS))} > 2" if draw(st.booleans()) else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(named)} FROM {source}{where}{group}{having}"


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=statements())
def test_a_generated_statement_gives_what_a_batch_gives(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """Over a history alone, which ends."""
    rows = spark.createDataFrame(ROWS, "key long, at long, value long")
    history = rows.selectExpr("key", "timestamp_seconds(1577836800 + at) AS ts", "value")
    history.createOrReplaceTempView("a")
    expected = sorted(map(repr, spark.sql(text).collect()))
    mixedmode.read(history=history).withWatermark("ts", "1 second").createOrReplaceTempView("a")
    found: list[str] = []

    def take(some: DataFrame, number: int) -> None:
        found.extend(map(repr, some.collect()))

    query = spark.sql(text).writeStream.foreachBatch(take).option("pipeline.parallelism", 1).start()
    query.awaitTermination(300)
    assert query.exception() is None
    assert sorted(found) == expected
