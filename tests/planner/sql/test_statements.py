"""SQL over views of a job's rows: what it becomes, what is refused, and that Spark never runs it itself."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError, read, sql
from mixedmode.planner.frames.frame import MixedFrame
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, v + 1 AS more FROM v WHERE x > 0.5 OR k = 'a'",
        "SELECT *, upper(k) AS u FROM v",
        "SELECT k, t, n FROM v LATERAL VIEW explode(tags) AS t, n",
        "SELECT k, posexplode(map_keys(tags)) FROM v",
        "WITH some AS (SELECT k, v FROM v WHERE v > 1) SELECT k AS key FROM some WHERE v < 9",
        "SELECT window(ts, '5 minutes') AS w, count(*) FROM v GROUP BY 1",
        "SELECT window.end AS e, k, sum(v) FROM v GROUP BY window(ts, '10 minutes', '3 minutes', '1 minute'), k",
        "SELECT session_window(ts, '5 minutes') AS s, k, max(v) FROM v GROUP BY 1, 2",
        "SELECT session_window.start, k FROM v GROUP BY session_window(ts, IF(k = 'a', '1 minute', '1 hour')), k",
        "SELECT k, count(*) AS n FROM v GROUP BY k HAVING n > 1 AND max(v) BETWEEN 1 AND 5",
        "SELECT sum(v) / count(v) AS mean, k, length(k) AS l FROM v GROUP BY k",
        "SELECT concat(k, '!') AS c, count(*) FROM v GROUP BY c",
        "SELECT DISTINCT k, v FROM v",
        "SELECT count(*), min(v), nullif(max(v), 0) AS m FROM v",
        "SELECT k, count(*) AS n FROM v GROUP BY ALL ORDER BY n DESC LIMIT 5",
        "SELECT k, v FROM v UNION ALL SELECT k, v FROM v",
        "SELECT a.k, b.v FROM v a JOIN w b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES",
        "SELECT a.k, b.v FROM v a LEFT JOIN v b ON a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 5 MINUTES",
        "SELECT v.k, name, count(*) FROM v JOIN dim USING (k) GROUP BY v.k, name",
        "SELECT v.* FROM v LEFT SEMI JOIN dim ON v.k = dim.k",
        "SELECT name, count(*) FROM dim JOIN v USING (k) GROUP BY name",
        "SELECT v.k, d.name FROM dim d RIGHT JOIN v ON d.k = v.k AND v.v > 1 WHERE d.name IS NULL",
        "SELECT name, v FROM dim, v WHERE dim.k = v.k",
        "SELECT window(span, '1 hour') AS hour, sum(n) FROM (SELECT window(ts, '5 minutes') AS span, count(*) AS n FROM"
        " v GROUP BY 1) GROUP BY 1",
        "SELECT window_time(span) AS at, n FROM (SELECT window(ts, '5 minutes') AS span, count(*) AS n FROM v GROUP BY"
        " 1)",
        "SELECT k FROM v WHERE k IN (SELECT k FROM dim)",
        "SELECT k, collect_set(v) FILTER (WHERE v > 1) AS s FROM v GROUP BY k",
        "TABLE v",
        "SELECT *, length(`a.k`) AS l FROM (SELECT k AS `a.k`, v FROM v)",
        "SELECT `a.k`, sum(v) AS `s.v` FROM (SELECT *, 1 AS n FROM (SELECT k AS `a.k`, v FROM v)) GROUP BY `a.k`",
        "SELECT * FROM (SELECT k AS `a.k`, v AS `a.v`, x FROM v) UNPIVOT (n FOR m IN (`a.v`, x))",
        "SELECT k AS `a.k` FROM v UNION ALL SELECT k FROM v",
        "SELECT v.k, w.k FROM v JOIN w ON v.k = w.k",
        "SELECT name, v.* FROM dim JOIN v ON dim.k = v.k",
        "SELECT k, name FROM dim RIGHT JOIN v USING (k)",
        "SELECT a.k, b.v FROM v a, w b WHERE a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES AND b.v > 1",
        "SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY sum(v)",
        "SELECT k, n + 1 AS m FROM (SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY n DESC LIMIT 3) WHERE n > 1",
        "SELECT session_window(span, '10 minutes') AS s, k, sum(n) FROM (SELECT window(ts, '5 minutes') AS span, k,"
        " count(*) AS n FROM v GROUP BY 1, 2) GROUP BY 1, 2",
        "SELECT /*+ COALESCE(1) */ k FROM v",
        "SELECT /*+ REPARTITION(2, k) */ k FROM v",
        "SELECT /*+ MERGE(b) */ a.k, b.v FROM v a JOIN w b ON a.k = b.k",
        "SELECT k FROM v DISTRIBUTE BY k",
        "SELECT k, t FROM v, LATERAL explode(map_keys(tags)) AS e(t)",
        "SELECT k, c FROM v, LATERAL (SELECT v + 1 AS c)",
        "FROM v |> WHERE v > 1 |> AGGREGATE count(*) AS n GROUP BY k |> ORDER BY n",
        "SELECT k, (SELECT max(name) FROM dim WHERE dim.k = v.k) AS m FROM v",
        "SELECT k FROM v WHERE EXISTS (SELECT 1 FROM dim) AND v > (SELECT count(*) FROM dim)",
        "SELECT `K`, `V`.`x` FROM `V`",
        "SELECT k, v % 2 AS odd, count(*) AS n FROM v GROUP BY ROLLUP (k, v % 2)",
        "SELECT k, v, sum(x) FROM v GROUP BY CUBE (k, v) HAVING sum(x) > 1",
        "SELECT k, v, count(*) FROM v GROUP BY GROUPING SETS ((k), (k, v), ())",
        "SELECT k, grouping_id() FROM v GROUP BY ROLLUP (k)",
        "SELECT k, v, grouping(k) AS g, grouping_id(k, v) + 1 AS i FROM v GROUP BY CUBE (k, v) HAVING grouping(v) = 0",
        "SELECT v.k, v.k FROM v",
        "SELECT k, v AS n, k, v FROM v WHERE v > 1",
        "SELECT * FROM (SELECT k, v, x FROM v) UNPIVOT (n FOR m IN (v, x))",
        "SELECT k AS key, m, n FROM (SELECT k, ts, v, v + 1 AS w FROM v) UNPIVOT INCLUDE NULLS (n FOR m IN (v, w))",
        "SELECT m, max(n) FROM (SELECT k, v, x FROM v) UNPIVOT (n FOR m IN (v, x)) GROUP BY m",
    ],
)
def test_a_statement_becomes_a_frame_of_the_job(view: SparkSession, history: DataFrame, text: str) -> None:
    """With the columns that Spark gives; ``mixedmode.sql`` gives the same."""
    found = view.sql(text)
    assert isinstance(found, MixedFrame)
    assert sql(text).dtypes == found.dtypes
    for name in ("v", "w"):
        history.createOrReplaceTempView(name)
    assert found.dtypes == view.sql(text).dtypes


_SOON = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES"


@pytest.mark.parametrize(
    "window", ["window(ts, '5 minutes')", "window(ts, '9 minutes', '3 minutes')", "session_window"]
)
@pytest.mark.parametrize(
    "rows",
    [
        "v JOIN dim USING (k)",
        "v LEFT JOIN dim ON v.k = dim.k",
        "dim JOIN v USING (k) WHERE name > 'a' AND v > 1",
        "v, (VALUES ('a', 1)) AS few(of, n) WHERE k = of AND v > n",
        "v LEFT SEMI JOIN dim ON v.k = dim.k",
        "v CROSS JOIN (VALUES (1), (2)) AS twice(n)",
        f"(SELECT a.ts, a.k, b.v FROM v a, w b WHERE a.k = b.k AND {_SOON})",
        f"(SELECT a.ts, b.v FROM v a JOIN w b ON a.k = b.k AND {_SOON} JOIN dim ON a.k = dim.k)",
        "v LATERAL VIEW explode(tags) AS t, n",
        "v WHERE k IN (SELECT k FROM dim)",
        "(SELECT ts, k FROM v UNION ALL SELECT ts, k FROM w)",
        "(SELECT k, ts, v, x FROM v) UNPIVOT (n FOR m IN (v, x))",
    ],
)
def test_windows_of_whatever_rows_are_windows(view: SparkSession, rows: str, window: str) -> None:
    """With Spark's mark and ours, by which a watermark completes them."""
    window = "session_window(ts, '5 minutes')" if window == "session_window" else window
    found = view.sql(f"SELECT {window} AS w, date(ts) AS day, count(*) AS n FROM {rows} GROUP BY 1, 2")
    plain = view.sql(f"SELECT {window} AS w, date(ts) AS day, count(*) AS n FROM v GROUP BY 1, 2")
    assert found.schema["w"].metadata == plain.schema["w"].metadata
    assert len(plain.schema["w"].metadata) == 2


def test_statements_take_parameters_and_frames_as_spark_does(view: SparkSession, both: MixedFrame) -> None:
    """By name, by place, in braces; a view of a view; a table by its name."""
    assert view.sql("SELECT k FROM v WHERE v > :least", {"least": 1}).columns == ["k"]
    assert sql("SELECT k, count(*) AS n FROM v WHERE v > ? GROUP BY k", [1]).columns == ["k", "n"]
    counts = sql("SELECT k, count(*) AS n FROM {rows} GROUP BY k", rows=both)
    assert counts.columns == ["k", "n"]
    assert view.sql("SELECT k, count(*) AS n FROM {rows} GROUP BY k", rows=both).dtypes == counts.dtypes
    joined = sql("SELECT a.k FROM {a} a JOIN {b} b ON a.k = b.k AND a.v = b.v", a=both, b=both)
    assert joined.columns == ["k"]
    counts.createOrReplaceTempView("counts")
    assert view.sql("SELECT max(n) AS most FROM counts").columns == ["most"]
    view.sql("CREATE OR REPLACE TEMP VIEW large AS SELECT * FROM v WHERE v > 5")
    assert isinstance(view.sql("SELECT k, sum(v) FROM large GROUP BY k"), MixedFrame)
    table: Any = view.table("v")
    assert isinstance(table, MixedFrame)
    assert table._watermark is not None
    assert table._watermark.event_time == "ts"


def test_what_reads_no_view_of_a_job_is_sparks_own(view: SparkSession, live: DataFrame) -> None:
    """Batches, commands and streams of stock views; the latter are inputs of jobs."""
    assert type(view.sql("SELECT k FROM dim")) is type(live)
    assert view.sql("SELECT 1 AS one").collect()[0].one == 1
    live.createOrReplaceTempView("landed")
    assert type(view.table("landed")) is type(live)
    assert read(live=view.sql("SELECT k, v FROM landed")).columns == ["k", "v"]
    assert read(live=view.table("landed")).columns == live.columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT k, rank() OVER (PARTITION BY k ORDER BY v) FROM v", r"a function OVER"),
        ("SELECT * FROM (SELECT k, v FROM v) UNPIVOT (n FOR m IN (v AS `first`))", "UNPIVOT.*UNPIVOT"),
        (
            "SELECT * FROM (SELECT v, x, x AS y FROM v) UNPIVOT ((n, o) FOR m IN ((v, x), (x, y)))",
            "at UNPIVOT .use frame.unpivot. in 'UNPIVOT.*several values",
        ),
        ("SELECT k FROM v TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT k FROM v INTERSECT SELECT k FROM w", "INTERSECT"),
        ("SELECT k FROM v UNION ALL SELECT k FROM dim", "not a view of a job"),
        ("SELECT name FROM dim LEFT JOIN v USING (k)", "table on the left of LEFT OUTER"),
        ("SELECT k FROM v ORDER BY k", "orderBy needs a whole result.*Sort in 'ORDER BY k'"),
        ("SELECT a.k FROM v a LEFT JOIN w b ON a.k = b.k", "withWatermark.*at Join in 'LEFT JOIN w b ON a.k = b.k'"),
        ("SELECT k, count(*) FROM v GROUP BY k SORT BY k", "Sort in 'SORT BY k'"),
    ],
)
def test_what_there_are_no_calls_for_is_refused_by_name(view: SparkSession, text: str, said: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(PlanError, match=said):
        view.sql(text)


@pytest.mark.parametrize("outer", ["SELECT k AS x, ts FROM {} WHERE n > 1", "SELECT k, max(n) AS n FROM {} GROUP BY k"])
def test_columns_of_one_name_on_both_sides_of_a_join_go_on_from_a_subquery(view: SparkSession, outer: str) -> None:
    """The calls give the right side's columns other names for a while, which is no difference to Spark's plan."""
    inner = "(SELECT b.k AS k, b.ts AS ts, coalesce(a.v, 0) + b.v AS n FROM v a JOIN w b ON a.k = b.k)"
    assert view.sql(outer.format(inner)).columns == (["x", "ts"] if "WHERE" in outer else ["k", "n"])


@pytest.mark.parametrize("outer", ["window(window_time(w), '10 minutes')", "window(w, '10 minutes')"])
def test_windows_over_windows_follow_the_watermark(view: SparkSession, outer: str) -> None:
    """A window over the first one's windows is complete when the watermark has passed it, in append, too."""
    inner = "SELECT window(ts, '1 minute') AS w, count(*) AS n FROM v GROUP BY 1"
    frame: Any = view.sql(f"SELECT {outer} AS span, max(n) AS most FROM ({inner}) GROUP BY 1")
    assert frame._watermark.event_time == "span"
    times: Any = view.sql(f"SELECT window_time(w) AS at, n FROM ({inner})")
    assert times._watermark is not None


def test_windows_without_a_watermark_are_refused_in_append(view: SparkSession, both: MixedFrame) -> None:
    """The error has the line to add, and where."""
    both.createOrReplaceTempView("bare")
    counts: Any = view.sql("SELECT window(ts, '5 minutes') AS w, count(*) FROM bare GROUP BY 1")
    with pytest.raises(PlanError, match=r"withWatermark\(.*before createOrReplaceTempView"):
        counts.writeStream.format("noop").plan()


def test_spark_never_runs_a_stand_in(view: SparkSession) -> None:
    """Neither a query of its own, nor an action, nor a command."""
    stock = view.readStream.table("v")
    writer = stock.writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="view 'v' is of a frame of mixedmode"):
        writer.start().awaitTermination(60)
    for run in (
        stock.collect,
        stock.count,
        lambda: view.sql("CREATE TABLE never USING parquet AS SELECT k FROM v"),
        lambda: view.sql("CACHE TABLE v"),
    ):
        with pytest.raises(AnalysisException, match="streaming sources must be executed with writeStream"):
            run()
    view.sql("DROP TABLE IF EXISTS never")
