"""SQL over views of a job's rows: what it becomes, what is refused, and that Spark never runs it itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode import PlanError, read, sql
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.sql import aggregation, rows, translation, windows
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@pytest.fixture
def view(both: MixedFrame) -> SparkSession:
    """The session with the views ``v`` and ``w`` of two frames of a job, and a table ``dim``."""
    spark = both.sparkSession
    both.withWatermark("ts", "1 hour").createOrReplaceTempView("v")
    both.withWatermark("ts", "2 hours").createOrReplaceTempView("w")
    spark.createDataFrame([("a", "first")], "k string, name string").createOrReplaceTempView("dim")
    return spark


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
        ("SELECT k, count(*) FROM v GROUP BY ROLLUP (k)", r"ROLLUP .*GROUP BY ROLLUP \(k\)"),
        ("SELECT k FROM v TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT k FROM v INTERSECT SELECT k FROM w", "INTERSECT"),
        ("SELECT k FROM v UNION ALL SELECT k FROM dim", "no view of a job"),
        ("SELECT name FROM dim LEFT JOIN v USING (k)", "static frame on the left"),
        ("SELECT k AS a, v AS a FROM v", "several columns called a"),
        ("SELECT k FROM v ORDER BY k", "orderBy needs a whole result"),
        ("SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY sum(v)", "select comes after orderBy"),
        ("SELECT a.k FROM v a LEFT JOIN w b ON a.k = b.k", "withWatermark"),
    ],
)
def test_what_there_are_no_calls_for_is_refused_by_name(view: SparkSession, text: str, said: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(PlanError, match=said):
        view.sql(text)


@pytest.mark.parametrize("outer", ["window(window_time(w), '10 minutes')", "window(w, '10 minutes')"])
def test_windows_over_windows_follow_the_watermark(view: SparkSession, outer: str) -> None:
    """A window over the first one's windows is complete when the watermark has passed it, in append, too."""
    inner = "SELECT window(ts, '1 minute') AS w, count(*) AS n FROM v GROUP BY 1"
    frame: Any = view.sql(f"SELECT {outer} AS span, max(n) AS most FROM ({inner}) GROUP BY 1")
    assert frame._watermark.event_time == "span"
    times: Any = view.sql(f"SELECT window_time(w) AS at, n FROM ({inner})")
    assert times._watermark is not None


def test_windows_without_a_watermark_are_refused_in_append(view: SparkSession, both: MixedFrame) -> None:
    """The error has the line to add."""
    both.createOrReplaceTempView("bare")
    counts: Any = view.sql("SELECT window(ts, '5 minutes') AS w, count(*) FROM bare GROUP BY 1")
    with pytest.raises(PlanError, match="withWatermark"):
        counts.writeStream.format("noop").plan()


class _Mutants:
    """Translations with one fault each."""

    @staticmethod
    def dropped_filter(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(translation._Translation, "_filter", lambda self, node, taken: self.rows(node.child(), taken))

    @staticmethod
    def swapped_sides(patch: pytest.MonkeyPatch) -> None:
        stock: Callable[..., Any] = rows.Rows.with_other

        def swapped(self: Any, method: str, other: Any, *args: Any, known: Any) -> Any:
            return stock(other, method, self, *args, known=known)

        patch.setattr(rows.Rows, "with_other", swapped)

    @staticmethod
    def other_slide(patch: pytest.MonkeyPatch) -> None:
        stock = windows._last_long
        patch.setattr(windows, "_last_long", lambda one: 2 * (stock(one) or 0))

    @staticmethod
    def other_result(patch: pytest.MonkeyPatch) -> None:
        stock = aggregation.over
        patch.setattr(aggregation, "over", lambda spark, node, other: stock(spark, node.children().apply(0), other))

    @staticmethod
    def kept_order(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(translation, "ordering", lambda spark, order, expression: F.col("n").asc())

    @staticmethod
    def inner_instead_of_outer(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(translation._JOINS, "LEFT OUTER", "inner")


_WITHIN = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES"


@pytest.mark.parametrize(
    ("mutant", "text"),
    [
        ("dropped_filter", "SELECT k FROM v WHERE v > 1"),
        ("dropped_filter", "SELECT k, count(*) AS n FROM v GROUP BY k HAVING n > 1"),
        ("swapped_sides", f"SELECT a.v AS x, b.v AS y FROM v a JOIN w b ON a.k = b.k AND {_WITHIN}"),
        ("other_slide", "SELECT window(ts, '10 minutes', '5 minutes') AS w, count(*) FROM v GROUP BY 1"),
        ("other_slide", "SELECT window(ts, '10 minutes') AS w, count(*) FROM v GROUP BY 1"),
        ("other_result", "SELECT k, sum(v) + 1 AS s FROM v GROUP BY k"),
        ("inner_instead_of_outer", f"SELECT a.k, b.v FROM v a LEFT JOIN w b ON a.k = b.k AND {_WITHIN}"),
        ("kept_order", "SELECT k, count(*) AS n FROM v GROUP BY k ORDER BY n DESC"),
    ],
)
def test_a_wrong_translation_is_refused_by_the_comparison_of_plans(
    view: SparkSession, monkeypatch: pytest.MonkeyPatch, mutant: str, text: str
) -> None:
    """The same statement is taken by the right one."""
    assert isinstance(view.sql(text), MixedFrame)
    getattr(_Mutants, mutant)(monkeypatch)
    with pytest.raises(PlanError, match=r"the statement is refused at .*in another way than the calls"):
        view.sql(text)


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
