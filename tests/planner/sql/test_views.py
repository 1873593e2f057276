"""Views of a job's rows in Spark's catalogs: names, sessions, how long they live, and what a program does with them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from mixedmode import PlanError, read, sql
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.sql.stand_in import STAND_INS
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options


def test_views_of_one_session_are_not_those_of_another(view: SparkSession, both: MixedFrame) -> None:
    """But global ones are; what a session gives is a frame of the job in each."""
    other = view.newSession()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        other.sql("SELECT k FROM v")
    other.createDataFrame([(1,)], "n int").createOrReplaceTempView("v")
    assert other.sql("SELECT n FROM v").collect()[0].n == 1
    assert isinstance(view.sql("SELECT k FROM v"), MixedFrame)
    both.createOrReplaceGlobalTempView("seen_by_all")
    for session in (view, other):
        assert isinstance(session.sql("SELECT k FROM global_temp.seen_by_all"), MixedFrame)
        assert isinstance(session.table("global_temp.seen_by_all"), MixedFrame)
    with pytest.raises(AnalysisException, match="already exists"):
        both.createGlobalTempView("seen_by_all")
    assert view.catalog.dropGlobalTempView("seen_by_all")


def test_a_view_is_dropped_and_replaced_as_any_other(view: SparkSession, both: MixedFrame) -> None:
    """By SQL, by the catalog, by a view of a job's frame and by one of Spark's."""
    with pytest.raises(AnalysisException, match="already exists"):
        both.createTempView("v")
    both.select("k").createOrReplaceTempView("v")
    replaced: Any = view.sql("SELECT * FROM v")
    assert replaced.columns == ["k"]
    view.sql("DROP VIEW v")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        view.sql("SELECT * FROM v")
    assert view.catalog.dropTempView("w")
    view.range(3).createOrReplaceTempView("w")
    assert view.sql("SELECT count(*) AS n FROM w").collect()[0].n == 3


def test_the_catalog_describes_a_view_of_a_job(view: SparkSession, both: MixedFrame) -> None:
    """With its columns; as other temporary views."""
    assert view.catalog.tableExists("v")
    assert "v" in {table.name for table in view.catalog.listTables() if table.isTemporary}
    assert [(one.name, one.dataType) for one in view.catalog.listColumns("v")] == both.dtypes
    assert {row.col_name for row in view.sql("DESCRIBE v").collect()} == set(both.columns)
    assert view.table("v").isStreaming


def test_a_view_in_sql_of_a_view_is_a_frame_of_the_job(view: SparkSession, both: MixedFrame) -> None:
    """Also of one with columns of one name, of a join, and of one whose view is replaced later."""
    view.sql("CREATE OR REPLACE TEMP VIEW large AS SELECT k, v FROM v WHERE v > 5")
    view.sql("CREATE OR REPLACE TEMP VIEW counted AS (SELECT k, count(*) AS n FROM large GROUP BY k)")
    counted: Any = view.table("counted")
    assert isinstance(counted, MixedFrame)
    assert counted.selectExpr("n + 1 AS m").columns == ["m"]
    view.sql("CREATE OR REPLACE TEMP VIEW timed AS SELECT k, ts FROM v")
    windows: Any = view.sql("SELECT window(ts, '1 hour') AS w, count(*) AS n FROM timed GROUP BY 1")
    windows.writeStream.format("noop").plan()  # in append mode, so the event time is still that of the view
    twice: Any = view.sql("SELECT a.k, b.k FROM v a JOIN w b ON a.k = b.k")
    assert twice.columns == ["k", "k"]
    twice.createOrReplaceTempView("twice")
    assert view.table("twice").columns == ["k", "k"]
    both.selectExpr("k", "v", "1 AS more").createOrReplaceTempView("v")
    assert view.table("large").columns == ["k", "v"]


@pytest.mark.slow
def test_frames_behind_views_go_with_their_views(view: SparkSession, both: MixedFrame) -> None:
    """However often a program makes the same view, and frames in braces go at once."""
    gone = weakref.WeakSet[MixedFrame]()
    for number in range(60):
        frame = both.select("k", F.lit(number).alias("n"))
        gone.add(frame)
        frame.createOrReplaceTempView("again")
        assert sql("SELECT n FROM {rows}", rows=frame.distinct()).columns == ["n"]
    del frame
    gc.collect()
    assert 1 <= len(gone) <= 40
    assert len(STAND_INS._frames) <= 40
    kept: Any = view.sql("SELECT n FROM again")
    assert isinstance(kept, MixedFrame)


def test_several_queries_of_one_program_read_views(view: SparkSession, history: DataFrame, tmp_path: Path) -> None:
    """Plain ones, of parts with a generator, of one session and of another one, one after the other."""
    found: dict[str, list[Any]] = {}

    def written(frame: Any, name: str) -> Any:
        writer = frame.writeStream.queryName(name).foreachBatch(
            lambda rows, number: found.setdefault(name, []).extend(rows.collect())
        )
        return writer.option("checkpointLocation", str(tmp_path / name)).option("pipeline.parallelism", 1).start()

    mixedmode.read(history=history).createOrReplaceTempView("ended")
    other = view.newSession()
    read(history=other.createDataFrame([("z", 1)], "k string, v long")).createOrReplaceTempView("ended")
    queries = [
        written(view.sql("SELECT k FROM ended"), "plain"),
        written(view.sql("SELECT k, t FROM ended LATERAL VIEW explode(map_keys(tags)) AS t"), "exploded"),
        written(other.sql("SELECT k FROM ended"), "elsewhere"),
    ]
    for query in queries:
        query.awaitTermination(300)
    assert sorted(row.k for row in found["plain"]) == ["a", "b"]
    assert [(row.k, row.t) for row in found["exploded"]] == [("a", "t")]
    assert [row.k for row in found["elsewhere"]] == ["z"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, (SELECT max(name) FROM dim WHERE dim.k = v.k) AS m FROM v",
        "SELECT k FROM v WHERE NOT EXISTS (SELECT 1 FROM dim WHERE dim.k = v.k AND v.v > 0)",
        "SELECT v.k FROM dim d JOIN v ON d.k = v.k WHERE v.v IN (SELECT length(name) - 4 FROM dim WHERE dim.k = v.k)",
    ],
)
def test_a_subquery_may_read_columns_from_outside(
    view: SparkSession, history: DataFrame, tmp_path: Path, text: str
) -> None:
    """Although both have a column of that name; the rows are those of Spark's own batch."""
    rows = history.select("k", "v")
    read(history=rows).createOrReplaceTempView("v")
    found: list[str] = []
    writer: Any = view.sql(text).writeStream.option("pipeline.parallelism", 1)
    query = writer.foreachBatch(lambda part, number: found.extend(map(repr, part.collect()))).start()
    query.awaitTermination(300)
    rows.createOrReplaceTempView("v")
    assert sorted(found) == sorted(map(repr, view.sql(text).collect()))
    assert found


def test_settings_of_the_session_are_those_of_the_statement(view: SparkSession) -> None:
    """Time zone, ANSI and case are those of the moment of the statement."""
    for name, value, text in (
        ("spark.sql.ansi.enabled", "false", "SELECT CAST('x' AS int) AS i FROM v"),
        ("spark.sql.ansi.enabled", "true", "SELECT CAST('x' AS int) AS i, 1 + v AS n FROM v"),
        ("spark.sql.session.timeZone", "Asia/Tokyo", "SELECT date_trunc('day', ts) AS d, hour(ts) AS h FROM v"),
        ("spark.sql.caseSensitive", "true", "SELECT k, v FROM v"),
    ):
        with session_options(view, {name: value}):
            assert isinstance(view.sql(text), MixedFrame)


def test_an_unknown_column_is_sparks_own_error(view: SparkSession) -> None:
    """Spark's analyzer sees the statement first."""
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        view.sql("SELECT nothing FROM v")
    with pytest.raises(PlanError, match="must be one SELECT"):
        sql("DROP VIEW v")
