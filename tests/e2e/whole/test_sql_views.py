"""SQL over views of a job's rows: the same text gives what stock ``spark.sql`` and DataFrame calls give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_ways import Batch, TwoWays

#: Rows of two sources in order of time, with nulls among keys; the last ones move the watermark on.
BATCHES: list[Batch] = [
    {
        "a": [(1 + n % 3, 7 * n + 40 * batch, n + batch) for n in range(5)] + [(None, 40 * batch + 3, batch)],
        "b": [(1 + n % 4, 9 * n + 40 * batch, 10 * n) for n in range(4)],
    }
    for batch in range(2)
] + [{"a": [(9, 400, 0)], "b": [(9, 400, 0)]}]

PER_WINDOW = "SELECT window(ts, '20 seconds') AS w, key, count(*) AS n FROM a GROUP BY 1, 2"


def two_keys(a: Any, b: Any) -> Any:
    return a.groupBy(F.window("ts", "20 seconds").alias("w"), "key").agg(F.count("*").alias("n"))


#: Those that are not slow.
SHORT = ("windows",)
#: A statement, its output mode, and the same by calls if no other test here or of calls (test_limit.py, test_tail.py,
#: test_watermark_ways.py, test_complete_mode.py, test_sql_generated.py) has these.
STATEMENTS: dict[str, tuple[str, str, Callable[[Any, Any], Any] | None]] = {
    "projection, filter and lateral view": (
        "SELECT key + 1 AS k, value * 2 AS v, ts, e FROM a LATERAL VIEW OUTER explode(sequence(1, least(value, 3))) t"
        " AS e WHERE value BETWEEN 1 AND 4 AND key IS NOT NULL",
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
    "a second aggregate": (
        f"WITH counts AS ({PER_WINDOW}) SELECT w, sum(n) AS s FROM counts GROUP BY w",
        "append",
        None,
    ),
    "a window over windows": (
        f"SELECT window(w, '1 minute') AS m, sum(n) AS s FROM ({PER_WINDOW}) GROUP BY 1",
        "append",
        None,
    ),
    "a session over windows": (
        f"SELECT session_window(w, '30 seconds') AS m, key, sum(n) AS s FROM ({PER_WINDOW}) GROUP BY 1, 2",
        "append",
        None,
    ),
    "a table on the left": (
        "SELECT name, key, value FROM names RIGHT JOIN a USING (key) WHERE value IN (SELECT key FROM names) OR EXISTS"
        " (SELECT 1 FROM names n WHERE n.key = a.value)",
        "append",
        None,
    ),
    "columns of one name": (
        "SELECT a.key, b.key, a.value, b.value FROM a, b WHERE a.key = b.key AND b.ts BETWEEN a.ts AND a.ts"
        " + INTERVAL 15 SECONDS AND b.value < 30",
        "append",
        None,
    ),
    "an order by what is not shown": (
        "SELECT upper(concat('k', key)) AS k, n FROM (SELECT key, count(*) AS n FROM a GROUP BY key ORDER BY sum(value)"
        " DESC, key LIMIT 3) WHERE n > 1",
        "complete",
        lambda a, b: (
            a.groupBy("key")
            .agg(F.count("*").alias("n"), F.sum("value").alias("s"))
            .orderBy(F.desc("s"), "key")
            .limit(3)
            .where("n > 1")
            .selectExpr("upper(concat('k', key)) AS k", "n")
        ),
    ),
    "windows of rows joined with a table": (
        "SELECT window.start AS s, name, count(*) AS n FROM a, names WHERE a.key = names.key AND value > 1 GROUP BY"
        " window(ts, '10 seconds'), name",
        "append",
        None,
    ),
    "an outer join": (
        "SELECT a.key, a.value AS x, b.value AS y FROM a LEFT JOIN b ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts"
        " + INTERVAL 15 SECONDS",
        "append",
        None,
    ),
    "a union, of one with itself, too": (
        "SELECT key, value FROM a WHERE key = 1 UNION ALL SELECT value, key FROM b WHERE key > 2 UNION ALL"
        " SELECT key, value FROM a WHERE value > 1",
        "append",
        None,
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
    assert ways.ours(lambda frames: say(text, frames), mode, history=1) == stock
    if calls is not None:
        watermarked = [lambda frames, name=name: frames(name).withWatermark("ts", "5 seconds") for name in ("a", "b")]
        called = ways.ours(lambda frames: calls(*[one(frames) for one in watermarked]), mode, history=1)
        assert called == stock
