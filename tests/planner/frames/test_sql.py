"""SQL over a job's rows means what it means over a frame, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError, sql
from mixedmode.planner.frames.frame import MixedFrame
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def test_sql_is_one_more_operation(both: MixedFrame, history: DataFrame) -> None:
    """Over a job's rows by a name in braces, beside static frames and values; what needs state is refused."""
    static = history.select("k", F.lit("n").alias("name"))
    query = "SELECT r.k AS key, v + {more} AS v, ts, name FROM {rows} AS r JOIN {names} USING (k) WHERE v > :least"

    def answer(frame: Any) -> Any:
        run = sql if isinstance(frame, MixedFrame) else history.sparkSession.sql
        return run(query, {"least": 0}, rows=frame, names=static, more=1)

    columns = ["k", "ts", "v"]
    expected = answer(history.select(columns)).dtypes
    assert answer(both.select(columns)).dtypes == expected
    timed = answer(both.select(columns).withWatermark("ts", "1 hour"))
    assert timed.dtypes == expected
    assert timed._watermark.event_time == "ts"
    assert answer(both.withWatermark("ts", "1 hour").groupBy("k", "ts").agg(F.sum("v").alias("v"))).dtypes == expected
    for text, given, said in (
        ("SELECT r.k FROM {rows} r JOIN (SELECT k FROM {rows} GROUP BY k) USING (k)", {"rows": both}, "two streams"),
        ("SELECT k FROM {rows} GROUP BY k", {"rows": both}, "and no aggregate is not supported"),
        ("SELECT k, count(*) FROM {rows} GROUP BY CUBE (k, v)", {"rows": both}, "grouping sets is not supported"),
        ("SELECT max(n) FROM (SELECT k, count(*) AS n FROM {rows} GROUP BY k)", {"rows": both}, "aggregation"),
        ("SELECT k FROM (SELECT k, max(v) m FROM {rows} GROUP BY k) ORDER BY m", {"rows": both}, "ordered by, too"),
        ("SELECT * FROM {rows} ORDER BY k", {"rows": both}, "without GROUP BY needs all rows at once"),
        ("SELECT * FROM {rows} LIMIT 1", {"rows": both}, "contains limit"),
        ("SELECT nope FROM {rows}", {"rows": both}, "nope"),
        ("SELECT * FROM {others}", {"rows": both}, "nothing is given for {others}"),
        ("SELECT 1", {}, "takes the rows of one job, got none"),
        ("SELECT * FROM {a} JOIN {b}", {"a": both, "b": both}, "got a and b"),
    ):
        with pytest.raises(PlanError, match=said):
            sql(text, **given)


def test_group_by_in_sql_is_a_stage(both: MixedFrame, history: DataFrame, spark: SparkSession) -> None:
    """Windows, aliases, nested keys, HAVING and computed columns have Spark's columns; ORDER BY and LIMIT arrange."""
    timed = both.withWatermark("ts", "1 hour")
    for text in (
        "SELECT window, k, count(*) AS n, sum(v) FROM {rows} WHERE v > 0 GROUP BY window(ts, '1 hour'), k",
        "SELECT upper(k) AS key, max(v) - min(v) AS spread, count(*) FROM {rows} GROUP BY key HAVING count(x) > 1",
        "SELECT count(*) AS n, max(window.end) FROM (SELECT *, window(ts, '1 day') FROM {rows}) GROUP BY window.start",
        "SELECT n + 1 AS m, key FROM (SELECT r.k key, count(*) n FROM {rows} r JOIN {names} USING (k) GROUP BY 1)",
        "SELECT avg(v) FROM {rows}",
        "SELECT k AS make, avg(v), min(v), max(x) FROM {rows} WHERE v > 2013 GROUP BY make",
        "SELECT tags.t, COUNT(*) AS total, COUNT(CASE WHEN v = 341 THEN 1 END) AS ok FROM {rows} GROUP BY tags.t",
        "SELECT k, count(v) AS v FROM {rows} GROUP BY k ORDER BY v DESC, 1 LIMIT 5",
    ):
        names = history.select("k", F.lit("n").alias("name"))
        expected = spark.sql(text, rows=history, names=names) if "{names}" in text else spark.sql(text, rows=history)
        given = {"names": names} if "{names}" in text else {}
        assert sql(text, rows=timed, **given).dtypes == expected.dtypes, text
    named = sql("SELECT k, count(*) AS n FROM {rows} GROUP BY k", rows=timed).uid("counts")
    assert named.writeStream.outputMode("update").format("noop").plan().stages[0].uid == "counts"
    top = sql("SELECT k, count(*) AS n FROM {rows} GROUP BY k ORDER BY n DESC LIMIT 5", rows=both)
    top.writeStream.outputMode("complete").format("noop").plan()
    with pytest.raises(PlanError, match="orderBy is supported behind an aggregate in outputMode complete only"):
        top.writeStream.outputMode("update").format("noop").plan()
    windows = sql("SELECT window, count(*) AS n FROM {rows} GROUP BY window(ts, '1 hour')", rows=timed)
    assert windows.writeStream.format("noop").plan().watermark_delay_ms == 3_600_000
