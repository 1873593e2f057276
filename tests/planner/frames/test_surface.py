"""Every public method of PySpark's frames, groups and writers works on those of a job, or says what to do instead."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, PlanError, read, sql
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.event_time import Watermark
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.pandas.group_ops import PandasCogroupedOps
from pyspark.sql.streaming import DataStreamWriter


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def behind(frame: MixedFrame) -> MixedFrame:
    """The same columns behind a stage."""
    return frame.groupBy("k", "ts").agg(F.sum("v").alias("v"))


def same(frames: Iterator[Any]) -> Iterator[Any]:
    yield from frames


@pytest.mark.parametrize("place", ["before", "behind"])
def test_every_method_of_a_frame_is_there_or_says_what_to_do(both: MixedFrame, place: str) -> None:
    """No bare AttributeError, before and behind a stage."""
    frame = both if place == "before" else behind(both)
    refused = []
    for name in public(DataFrame):
        if inspect.getattr_static(MixedFrame, name, None) is not None:
            continue
        with pytest.raises(PlanError, match=rf"^MixedFrame has no {name}; .{{20,}}"):
            getattr(frame, name)
        assert not hasattr(frame, name)
        refused.append(name)
    assert {"show", "rdd", "write", "exceptAll"} <= set(refused)
    assert not {"select", "join", "toDF", "replace", "na", "hint", "mapInPandas", "alias", "rollup"} & set(refused)


def test_every_method_of_groups_and_writers_is_there_or_says_what_to_do(both: MixedFrame) -> None:
    """Those that cannot be are refused by a PlanError, whatever they are given."""
    grouped = both.groupBy("k")
    writer = grouped.count().writeStream
    for name in public(GroupedData):
        assert inspect.getattr_static(type(grouped), name, None) is not None, name
    for name in ("apply", "applyInPandas", "applyInArrow"):
        with pytest.raises(PlanError, match=f"{name} is not supported"):
            getattr(grouped, name)("k")
    cogrouped = grouped.cogroup(both.groupBy("k"))
    for name in public(PandasCogroupedOps):
        assert inspect.getattr_static(type(cogrouped), name, None) is not None, name
    for name in public(DataStreamWriter):
        assert inspect.getattr_static(type(writer), name, None) is not None, name


@pytest.mark.parametrize(
    "chain",
    [
        lambda f: f.alias("r").select("r.k", F.col("r.v")),
        lambda f: f.toDF("a", "b", "c"),
        lambda f: f.na.fill(7, subset=["v"]).na.drop(subset=["k"]).na.replace("a", "z", "k"),
        lambda f: f.replace({"a": "z"}),
        lambda f: f.hint("rebalance").withMetadata("v", {"unit": "m"}).select(f.colRegex("`[kv]`")),
        lambda f: f.repartition(3, "k").coalesce(1).repartitionByRange(2, "v").where("v > 0"),
        lambda f: f.select("k", F.explode(F.array("v", F.lit(5))).alias("v")),
        lambda f: (
            (f.mapInPandas(same, "k string, v long") if not isinstance(f, DataFrame) else f.select("k", "v"))
            .where("v > 0")
            .withColumn("w", F.col("v"))
        ),
        lambda f: f.mapInArrow(same, "k string, v long") if not isinstance(f, DataFrame) else f.select("k", "v"),
    ],
)
def test_operations_have_the_columns_that_spark_gives(both: MixedFrame, history: DataFrame, chain: Any) -> None:
    """Before a stage, behind one, and with an event time that has gone, as on a DataFrame."""
    columns = ["k", "ts", "v"]
    expected = chain(history.select(columns)).dtypes

    assert chain(both.select(columns)).dtypes == expected
    assert chain(both.withWatermark("ts", "1 hour").select("k", "ts", "v")).dtypes == expected
    timed = behind(both.withWatermark("ts", "1 hour"))
    assert chain(timed).dtypes == expected
    assert chain(timed.select("k", F.current_timestamp().alias("ts"), "v")).dtypes == expected


def test_what_has_no_effect_is_said(both: MixedFrame) -> None:
    """Repartitioning before and behind a stage, also as a hint; a column that is not there is still an error."""
    counted = both.repartition(3).groupBy("k").count().coalesce(1).hint("Rebalance").hint("repartition", 4)
    plan = counted.writeStream.outputMode("update").format("noop").plan()
    assert plan.ignored == ("repartition", "coalesce", "hint Rebalance", "hint repartition")
    assert "without effect" in str(plan)
    with pytest.raises(Exception, match="nope"):
        both.repartition(3, "nope")


def test_a_join_with_a_static_frame(both: MixedFrame, history: DataFrame, live: DataFrame) -> None:
    """On a name, names or a condition; what has no answer before the end of a stream is refused as Spark does."""
    static = history.select("k", F.lit("n").alias("name"))
    assert both.join(static, "k").columns == [*both.columns, "name"]
    assert both.join(static, ["k"], "left_semi").columns == both.columns
    assert both.join(static.withColumnRenamed("k", "sk"), F.expr("k = sk"), "left").columns[-2:] == ["sk", "name"]
    assert both.crossJoin(static.select("name")).columns[-1] == "name"
    for how in ("right", "full_outer"):
        with pytest.raises(PlanError, match=f"join of kind '{how}'.* frame on the right.*use inner, left"):
            both.join(static, "k", how)
    for stream in (live, read(live=live)):
        with pytest.raises(PlanError, match="stream-stream join without equality predicate is not supported"):
            both.crossJoin(stream)
    with pytest.raises(PlanError, match=r"join takes .* or a static DataFrame .* got list"):
        both.join([static], "k")
    assert both.join(live, "k").columns == both.join(read(live=live), "k").columns, "a stream is another live input"
    with pytest.raises(PlanError, match="both sides have a column of that name: join on it"):
        both.join(static, F.col("k") == static["k"])


def test_a_plain_frame_in_a_union_is_an_input(both: MixedFrame, history: DataFrame, live: DataFrame) -> None:
    """A batch frame is history, a streaming one live; their event time is the column in its place."""
    timed = both.withWatermark("ts", "1 hour")
    more = timed.union(history.where("v > 0"))
    assert (len(more._inputs.histories), len(more._inputs.lives)) == (2, 1)
    assert more._watermark is not None
    assert (more._watermark.event_time, more._watermark.delay_ms) == ("ts", 3_600_000)
    named = timed.unionByName(live.select("ts", "v", "k", "x", "tags"))
    assert [part.name for part in named._inputs.lives] == ["live-1", "live-2"]
    with pytest.raises(PlanError, match=r"union takes what mixedmode.read\(\) returns, or a DataFrame, got list"):
        both.union([1])  # type: ignore[arg-type]


def test_a_watermark_before_read_is_the_jobs(history: DataFrame, live: DataFrame) -> None:
    """Column and delay are taken over through what follows, and Spark's own node is gone."""
    raw = live.withWatermark("ts", "90 minutes").where("v > 0").withColumnRenamed("ts", "at")

    frame = read(history=history.withColumnRenamed("ts", "at"), live=raw)

    assert frame._watermark == Watermark("at", 5_400_000)
    assert frame._inputs.live is not None
    assert frame._inputs.live.isStreaming
    grouped = frame.groupBy(F.window("at", "1 hour")).count()
    assert grouped.writeStream.format("noop").plan().watermark_delay_ms == 5_400_000
    with pytest.raises(PlanError, match="whose event time is in none of its columns any more"):
        read(live=live.withWatermark("ts", "1 hour").select("k"))
    with pytest.raises(PlanError, match="not all live inputs have a watermark of one column"):
        read(live={"a": live.withWatermark("ts", "1 hour"), "b": live})


def test_grouping_sets_have_the_columns_that_spark_gives(both: MixedFrame, history: DataFrame) -> None:
    """By names, columns, windows and ordinals; what Spark refuses, and what has no key, is refused."""
    window = F.window("ts", "1 hour")
    measures = [F.sum("v"), F.grouping("k").alias("g"), F.grouping_id(), (F.grouping_id() + F.count("*")).alias("e")]
    for grouped in (
        lambda f: f.rollup("k", window).agg(*measures),
        lambda f: f.cube([F.upper("k").alias("u"), "ts"]).agg(F.sum("v"), F.grouping(F.upper("k"))),
        lambda f: f.rollup(1, "ts").count(),
        lambda f: f.rollup().count(),
        lambda f: f.groupingSets([["k"], [F.col("ts")], []], "k", "ts").agg(*measures),
        lambda f: f.groupBy("k", window).pivot("v", [1, 2]).agg(F.sum("x").alias("s"), F.max("ts")),
        lambda f: f.groupBy().pivot("k", ["a", "b"]).sum("v"),
        lambda f: f.groupBy("k").pivot("tags.t", [1]).count(),
    ):
        assert grouped(both).dtypes == grouped(history).dtypes
    timed = both.withWatermark("ts", "1 hour")
    for refused, said in (
        (lambda: timed.rollup("k", "nope"), "nope"),
        (lambda: timed.rollup("k", F.session_window("ts", "1 hour")).count(), "rollup with the session window"),
        (lambda: timed.rollup("k").applyInPandasWithState(same, "k int", "n int", "append", "NoTimeout"), "as in"),
        (lambda: timed.rollup("k").pivot("v", [1]), "pivot is not supported after rollup, as in Spark"),
        (lambda: timed.groupBy("k").pivot("v", [1]).pivot("x", [1]), "pivot is not supported after pivot"),
        (lambda: timed.groupBy("k").pivot("v"), r"pivot\('v'\) needs the values that become columns, got None"),
        (lambda: timed.groupBy("k").pivot("nope", [1]), "nope"),
        (lambda: timed.groupingSets([["v"]], "k"), "a set with v, which is not among its columns k"),
        (lambda: timed.groupingSets([["k"], ["k"]], "k"), "twice"),
        (lambda: timed.groupingSets("k", "k"), "list of lists"),
        (lambda: timed.groupingSets([[]]), "got no column"),
        (lambda: timed.groupBy("k").agg(F.grouping("k")), "grouping"),
        (lambda: timed.rollup("k").agg(F.grouping("v")), "v"),
    ):
        with pytest.raises(PlanError, match=said):
            refused()


def test_groups_of_no_event_time_come_at_the_end_and_it_is_said(both: MixedFrame) -> None:
    """In outputMode append, where the switch must not fire them; elsewhere nothing is to be said."""
    totals = both.withWatermark("ts", "1 hour").rollup(F.window("ts", "1 hour"), "k").agg(F.sum("v"))
    plan = totals.writeStream.format("noop").plan()
    assert plan.stages[0].final_watermark == "observed"
    assert any("no event time, (), when all input ends" in warning for warning in plan.warnings)
    assert "(window, k), (window), ()" in str(plan)
    updates = totals.writeStream.format("noop").outputMode("update").plan()
    assert not any("when all input ends" in warning for warning in updates.warnings)
    with pytest.raises(PlanError, match="no key is ever complete"):
        both.withWatermark("ts", "1 hour").rollup("k").count().writeStream.format("noop").plan()
    with pytest.raises(OptionError, match=r"max.*does not go with grouping sets"):
        totals.writeStream.format("noop").option("execution.backlog.final-watermark", "max").plan()


def test_sql_is_one_more_operation(both: MixedFrame, history: DataFrame) -> None:
    """Over a job's rows by a name in braces, beside static frames and values."""
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
    assert answer(behind(both.withWatermark("ts", "1 hour"))).dtypes == expected
    both.sparkSession.range(2).createOrReplaceTempView("two")
    again = "WITH odd AS (SELECT k, v FROM {rows} WHERE v % 2 = 1) SELECT k FROM odd LEFT JOIN two ON v = id"
    assert sql(again, rows=both).columns == sql("SELECT k FROM two RIGHT JOIN {rows} ON v = id", rows=both).columns
    assert sql("SELECT k FROM {rows} WHERE v IN (SELECT id FROM two)", rows=both).columns == ["k"]
    assert sql("SELECT k FROM {rows} LIMIT 1", rows=both).columns == ["k"]
    for text, given, said in (
        ("SELECT * FROM {rows} ORDER BY k", {"rows": both}, "orderBy needs a whole result"),
        ("SELECT k, rank() OVER (PARTITION BY k ORDER BY v) FROM {rows}", {"rows": both}, r"at a function OVER \(…\)"),
        ("SELECT v FROM {rows} UNION ALL SELECT id FROM two", {"rows": both}, "not a view of a job"),
        ("SELECT v FROM {rows} EXCEPT SELECT id FROM two", {"rows": both}, "at EXCEPT"),
        ("SELECT * FROM {rows} WHERE v > (SELECT avg(v) FROM {rows})", {"rows": both}, "subquery"),
        ("SELECT * FROM {rows} r WHERE EXISTS (SELECT 1 FROM {rows} o WHERE o.k = r.k)", {"rows": both}, "subquery"),
        ("SELECT k FROM two LEFT JOIN {rows} ON v = id", {"rows": both}, "the table on the left of LEFT OUTER"),
        ("SELECT k FROM {rows} RIGHT JOIN two ON v = id", {"rows": both}, "(?i)right"),
        ("SELECT k FROM {rows} FULL JOIN two ON v = id", {"rows": both}, "(?i)full|outer"),
        ("SELECT id FROM two", {"rows": both}, "does not read the rows"),
        ("SELECT 1", {"rows": both}, "does not read the rows"),
        ("SET spark.sql.shuffle.partitions=3", {"rows": both}, "must be one SELECT, got SetCommand"),
        ("CREATE TABLE made USING parquet AS SELECT k FROM {rows}", {"rows": both}, "must be one SELECT"),
        ("CREATE TEMP VIEW made AS SELECT k FROM {rows}", {"rows": both}, "must be one SELECT"),
        ("INSERT INTO two SELECT v FROM {rows}", {"rows": both}, "must be one SELECT"),
        ("SELEKT k FROM {rows}", {"rows": both}, "(?i)sql.*SELEKT k.*syntax error"),
        ("SELECT '{}' FROM {rows}", {"rows": both}, "nothing is given for {}"),
        ("SELECT '{' FROM {rows}", {"rows": both}, "is no text with names in braces"),
        (None, {"rows": both}, "is no text with names in braces"),
        ("SELECT nope FROM {rows}", {"rows": both}, "nope"),
        ("SELECT * FROM {others}", {"rows": both}, "nothing is given for {others}"),
        ("SELECT 1", {}, "does not read the rows of a job"),
        ("SELECT * FROM {a} JOIN {b}", {"a": both, "b": both}, "(?i)join"),
    ):
        with pytest.raises(PlanError, match=said):
            sql(text, **given)
    names = [table.name for table in both.sparkSession.catalog.listTables()]
    assert "made" not in names
    assert not [name for name in names if name.startswith("_pyspark_")], "views of what was refused are gone"
