"""Generated statements: the same rows by stock's stream, by SQL over a job's views, and by calls of its frames."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options
from two_ways import Batch, TwoWays

#: Rows in order of time; no window, session or watermark ends where another one does.  The last row meets all
#: conditions: else stock's watermark sees nothing of it where its optimizer puts the condition below a join.
BATCHES: list[Batch] = [
    {
        "a": [(n % 4 if n % 7 else None, 11 + 10 * n + n % 2, (n * 5) % 6) for n in range(14 * batch, 14 * batch + 14)],
        "b": [(n % 5, 12 + 13 * n - 13 * n % 10, n % 9) for n in range(10 * batch, 10 * batch + 10)],
    }
    for batch in range(2)
] + [{"a": [(1, 1002, 2)], "b": [(1, 1002, 2)]}]

#: A part of a statement as calls of the frames ``a`` and ``b``.
Calls = Callable[[Any, Any], Any]

_VALUES = ("key", "value", "value + key", "coalesce(key, -1)", "CASE WHEN value > 2 THEN key END")
_CONDITIONS = ("value > 1", "key IS NOT NULL", "value BETWEEN 1 AND 4", "key IN (1, 2) OR value = 0", "NOT key = 3")
_RESULTS = (
    "count(*)",
    "sum(value)",
    "max(value) - min(key)",
    "avg(value + key)",
    "count(key) FILTER (WHERE value > 2)",
)
_WINDOWS = (
    "window(ts, '30 seconds')",
    "window(ts, '30 seconds', '10 seconds')",
    "window(ts, '40 seconds', '20 seconds', '5 seconds')",
)
_SESSIONS = ("session_window(ts, '18 seconds')", "session_window(ts, IF(value > 2, '8 seconds', '28 seconds'))")
_KEYS = ("key", "value % 2", "coalesce(key, 0)")
_JOINS = {"": "inner", "LEFT": "left", "RIGHT": "right", "LEFT SEMI": "leftsemi"}


@dataclass(frozen=True)
class Rows:
    """Rows of ``key``, ``ts`` and ``value``: a relation of a statement, and the same by calls."""

    text: str
    calls: Calls


@dataclass(frozen=True)
class Statement:
    """A whole statement."""

    text: str
    calls: Calls
    mode: str = "append"


@st.composite
def relations(draw: st.DrawFn) -> Rows:
    """A view, filtered, united with itself, or joined with another one."""
    rows = Rows("a", lambda a, b: a)
    if draw(st.booleans()):
        value, condition = draw(st.sampled_from(_VALUES)), draw(st.sampled_from(_CONDITIONS))
        rows = Rows(
            f"(SELECT key, ts, {value} AS value FROM a WHERE {condition})",
            lambda a, b: a.where(condition).selectExpr("key", "ts", f"{value} AS value"),
        )
    kind = draw(st.sampled_from(("as it is", "united", "joined", "joined", "beside", "with a table")))
    if kind == "united":
        return _united(rows, draw(st.sampled_from(_CONDITIONS)))
    if kind == "joined":
        return _joined(rows, draw(st.sampled_from(list(_JOINS))), draw(st.sampled_from((5, 25))))
    if kind == "beside":
        return _beside(rows, draw(st.sampled_from(("", "LEFT"))))
    return rows if kind == "as it is" else _with_a_table(rows, draw(st.sampled_from(("", "LEFT", "LEFT SEMI"))))


def _united(rows: Rows, condition: str) -> Rows:
    return Rows(
        f"(SELECT * FROM {rows.text} UNION ALL SELECT key, ts, value FROM a WHERE {condition})",
        lambda a, b: rows.calls(a, b).union(a.where(condition).select("key", "ts", "value")),
    )


def _joined(rows: Rows, how: str, seconds: int) -> Rows:
    on = f"l.key = r.key AND r.ts BETWEEN l.ts - INTERVAL 3 SECONDS AND l.ts + INTERVAL {seconds} SECONDS"
    side, both = "r" if how == "RIGHT" else "l", "coalesce(l.value, 0) + coalesce(r.value, 0)"
    columns = [f"{side}.key AS key", f"{side}.ts AS ts", ("l.value" if how == "LEFT SEMI" else both) + " AS value"]
    return Rows(
        f"(SELECT {', '.join(columns)} FROM {rows.text} l {how} JOIN b r ON {on})",
        lambda a, b: rows.calls(a, b).alias("l").join(b.alias("r"), F.expr(on), _JOINS[how]).selectExpr(*columns),
    )


def _beside(rows: Rows, how: str) -> Rows:
    """Joined without a SELECT of its own."""
    on = "key = k AND t BETWEEN ts - INTERVAL 3 SECONDS AND ts + INTERVAL 5 SECONDS"
    return Rows(
        f"{rows.text} {how} JOIN (SELECT key AS k, ts AS t FROM b) ON {on}",
        lambda a, b: rows.calls(a, b).join(b.selectExpr("key AS k", "ts AS t"), F.expr(on), _JOINS[how]),
    )


def _with_a_table(rows: Rows, how: str) -> Rows:
    """Joined with a few rows, of which two are of one key, without a SELECT of its own."""
    few = "SELECT * FROM VALUES (0), (1), (1), (4) AS few(n)"
    return Rows(
        f"{rows.text} {how} JOIN ({few}) ON key = n",
        lambda a, b: rows.calls(a, b).join(a.sparkSession.sql(few), F.expr("key = n"), _JOINS[how]),
    )


@st.composite
def statements(draw: st.DrawFn) -> Statement:
    """A projection, LATERAL VIEW, windows, sessions, windows of windows, an ordered result, or different rows."""
    kind = draw(st.sampled_from(("rows", "generated", "windows", "sessions", "nested", "ordered", "distinct")))
    if kind == "ordered":  # a join has no whole result
        rows = draw(relations().filter(lambda one: "JOIN" not in one.text))
        return _ordered(rows, draw(st.sampled_from(_RESULTS)), draw(st.integers(1, 3)))
    rows, value = draw(relations()), draw(st.sampled_from(_VALUES))
    if kind == "rows":
        condition = draw(st.sampled_from(_CONDITIONS))
        return Statement(
            f"SELECT {value} AS x, ts FROM {rows.text} WHERE {condition}",
            lambda a, b: rows.calls(a, b).where(condition).selectExpr(f"{value} AS x", "ts"),
        )
    if kind == "generated":
        return Statement(
            f"SELECT {value} AS x, e FROM {rows.text} LATERAL VIEW explode(array(1, value)) AS e",
            lambda a, b: (
                rows.calls(a, b).selectExpr("*", "explode(array(1, value)) AS e").selectExpr(f"{value} AS x", "e")
            ),
        )
    if kind == "distinct":
        window = draw(st.sampled_from(_WINDOWS))
        return Statement(
            f"SELECT DISTINCT {window} AS w, {value} AS x FROM {rows.text}",
            lambda a, b: (
                rows.calls(a, b)
                .groupBy(F.expr(window).alias("w"), F.expr(value).alias("x"))
                .agg(F.count("*"))
                .select("w", "x")
            ),
        )
    window = draw(st.sampled_from(_SESSIONS if kind == "sessions" else _WINDOWS))
    key = draw(st.sampled_from(_KEYS))
    results = draw(st.lists(st.sampled_from(_RESULTS), min_size=1, max_size=2, unique=True))
    having = draw(st.one_of(st.none(), st.sampled_from(_RESULTS)))
    if kind == "nested":
        return _nested(rows, window, key)
    return _grouped(rows, window, key, results, having)


def _grouped(rows: Rows, window: str, key: str, results: list[str], having: str | None) -> Statement:
    named = [f"{result} AS c{at}" for at, result in enumerate(results)]
    behind = f" HAVING {having} > 1" if having else ""

    def calls(a: Any, b: Any) -> Any:
        whole = [F.expr(one) for one in named] + ([F.expr(f"{having} AS h")] if having else [])
        groups = rows.calls(a, b).groupBy(F.expr(window).alias("w"), F.expr(key).alias("k")).agg(*whole)
        return (groups.where("h > 1").drop("h") if having else groups).select(
            "w", "k", *[f"c{at}" for at in range(len(results))]
        )

    text = f"SELECT {window} AS w, {key} AS k, {', '.join(named)} FROM {rows.text} GROUP BY 1, 2{behind}"
    return Statement(text, calls)


def _nested(rows: Rows, window: str, key: str) -> Statement:
    inner = f"SELECT {window} AS w, {key} AS k, count(*) AS n FROM {rows.text} GROUP BY 1, 2"
    return Statement(
        f"WITH counts AS ({inner}) SELECT window(w, '1 minute') AS m, sum(n) AS s FROM counts GROUP BY 1",
        lambda a, b: (
            rows.calls(a, b)
            .groupBy(F.expr(window).alias("w"), F.expr(key).alias("k"))
            .agg(F.count("*").alias("n"))
            .groupBy(F.window("w", "1 minute").alias("m"))
            .agg(F.sum("n").alias("s"))
        ),
    )


def _ordered(rows: Rows, result: str, number: int) -> Statement:
    return Statement(
        f"SELECT key, count(*) AS n FROM {rows.text} GROUP BY key ORDER BY {result}, key LIMIT {number}",
        lambda a, b: (
            rows.calls(a, b)
            .groupBy("key")
            .agg(F.count("*").alias("n"), F.expr(result).alias("o"))
            .orderBy("o", "key")
            .limit(number)
            .select("key", "n")
        ),
        "complete",
    )


def _with_joins(spark: SparkSession, stock: Callable[[], Any]) -> Any:
    """What stock gives if its optimizer leaves outer joins in the plan.

    It takes those away whose other side nobody reads below a DISTINCT; its stream then gives no rows at all.
    """
    rule = "org.apache.spark.sql.catalyst.optimizer.EliminateOuterJoin"
    with session_options(spark, {"spark.sql.optimizer.excludedRules": rule}):
        return stock()


def _same_three_ways(spark: SparkSession, folder: Path, one: Statement) -> None:
    ways = TwoWays(spark, folder, BATCHES)

    def timed(frames: Callable[[str], Any], name: str) -> Any:
        return frames(name).withWatermark("ts", "5 seconds")

    def said(frames: Callable[[str], Any]) -> Any:
        for name in ("a", "b"):
            timed(frames, name).createOrReplaceTempView(name)
        return spark.sql(one.text)

    stock = _with_joins(spark, lambda: ways.stock(said, one.mode))
    assert ways.ours(said, one.mode, history=1) == stock
    assert ways.ours(lambda frames: one.calls(timed(frames, "a"), timed(frames, "b")), one.mode, history=1) == stock


@pytest.mark.slow
def test_different_windows_of_an_outer_join_come_out_although_nobody_reads_its_other_side(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As from stock's stream without the rule that takes such joins away; with it stock gives nothing."""
    rows = _joined(Rows("a", lambda a, b: a), "LEFT", 5)
    _same_three_ways(
        spark,
        tmp_path,
        Statement(
            f"SELECT DISTINCT {_WINDOWS[0]} AS w, key AS x FROM {rows.text}",
            lambda a, b: rows.calls(a, b).groupBy(F.expr(_WINDOWS[0]).alias("w"), "key").count().select("w", "key"),
        ),
    )


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("MIXEDMODE_EXAMPLES", "2")), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(one=statements())
def test_a_generated_statement_gives_what_stock_gives(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, one: Statement
) -> None:
    """The stream is stock's; half of it is history for ours.

    Each example is three queries: a run tries few, and each run others.
    """
    _same_three_ways(spark, tmp_path_factory.mktemp("generated"), one)
