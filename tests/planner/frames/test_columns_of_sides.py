"""Columns of the frames that were joined, behind the join: as in Spark, those of the frames' sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode import PlanError, read
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

NAMED = "l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 HOUR"
KEYS = ["k", "ts"]
Sides = tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def stock(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame, DataFrame]:
    def stream(columns: str) -> DataFrame:
        return spark.readStream.schema(columns).parquet(str(tmp_path_factory.mktemp("landing")))

    return (
        stream("k string, x long, ts timestamp"),
        stream("k string, x long, ts timestamp, y int"),
        stream("k string, z long, ts timestamp, s struct<y int>"),
    )


def sides(frames: Any) -> Sides:
    a, b, c = (frame.withWatermark("ts", "10 minutes") for frame in frames)
    return a, b, c


def on(a: Any, b: Any) -> Any:
    return (a["k"] == b["k"]) & (b["ts"] >= a["ts"]) & (b["ts"] <= a["ts"] + F.expr("INTERVAL 1 HOUR"))


def joined(a: Any, b: Any, how: str = "inner") -> Any:
    return a.join(b, on(a, b), how)


def using(how: str) -> Callable[[Any, Any, Any], Any]:
    """The key of each side, by its frame and by the frame's name, of which the result shows one."""

    def job(a: Any, b: Any, c: Any) -> Any:
        both = a.alias("l").join(b.alias("r"), KEYS, how)
        plain = a.join(b.drop("x"), KEYS, how)
        assert plain.filter(b["k"].isNull()).columns == ["k", "ts", "x", "y"]
        assert plain.select(plain["k"], a.k, b.k).columns == ["k", "k", "k"]
        return both.select("l.k", "r.k", "k", "r.x", "l.*")

    return job


ACCEPTED: list[Callable[[Any, Any, Any], Any]] = [
    *map(using, ["inner", "left", "right", "full"]),
    lambda a, b, c: joined(a, b, "left").drop(b.k).drop(b["ts"], a["x"]),
    lambda a, b, c: joined(a, b).select(a["k"], b["x"], "y").filter(a["k"] > b.x),
    lambda a, b, c: joined(a, b).withColumn("d", a["x"] - b["x"]).withColumns({"e": a.x}).select("d", "e", a.k),
    lambda a, b, c: joined(a, b).withColumn("x", a["x"] - b["x"]),
    lambda a, b, c: joined(a, b).select(a["k"].alias("q"), b["k"]).select(b["k"], "q"),
    lambda a, b, c: joined(a, b).alias("j").select(a["k"], b["x"], "j.y"),
    lambda a, b, c: joined(a, b, "full").select(F.coalesce(a["k"], b["k"]).alias("k"), F.struct(b["x"]).alias("s")),
    lambda a, b, c: joined(a, b, "leftsemi").select(a["x"]),
    lambda a, b, c: joined(a, b).join(b.sparkSession.range(3), a["x"] == F.col("id")).select(a["k"], "id"),
    lambda a, b, c: joined(a, b).join(c, (a["k"] == c["k"]) & (b["ts"] == c["ts"])).select(a["k"], c["k"], b["x"]),
    lambda a, b, c: a.alias("l").join(b.alias("r"), F.expr(NAMED)).selectExpr("l.k", "r.x - l.x AS d").where("d > 0"),
    lambda a, b, c: joined(a, b).toDF("k", "x", "ts", "k2", "x2", "ts2", "y").select("k2", "x"),
    lambda a, b, c: (lambda j: j.select(j["l.k"], j["r.x"]))(a.alias("l").join(b.alias("r"), F.expr(NAMED))),
    lambda a, b, c: a.alias("l").join(a.alias("r"), F.expr(NAMED)).select("l.k", "r.ts"),
]
REFUSED: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda a, b, c: joined(a, b).select("x"), "x` is ambiguous.*a\\['<name>'\\]"),
    (lambda a, b, c: joined(a, b)["x"], r"column x is ambiguous: 2 columns are called so; take it from .* a\['x'\]"),
    (lambda a, b, c: joined(a, b).groupBy("k").count(), "groupBy: .*k` is ambiguous"),
    (lambda a, b, c: joined(a, b).groupBy("y").agg(F.sum("x")), "agg: .*x` is ambiguous"),
    (lambda a, b, c: joined(a, b).drop(a["k"]).select(a["k"]), "k.* not among the columns any more"),
    (lambda a, b, c: joined(a, b).select(a["k"].alias("q")).select(a["k"]), "k.* not among the columns any more"),
    (lambda a, b, c: joined(a, b, "leftsemi").select(b["x"]), "x was taken from the right side of a join, which does"),
    (lambda a, b, c: a.alias("l").join(a.alias("r"), F.expr(NAMED)).select(a["x"]), "x .* both sides are made of"),
]


@pytest.mark.slow
def test_columns_of_either_side_are_where_spark_has_them(stock: Sides) -> None:
    """By frame or by its name, also behind USING, aliases, another join, a static join: names, types, order."""
    for number, job in enumerate(ACCEPTED):
        ours, theirs = job(*sides([read(live=frame) for frame in stock])), job(*sides(stock))
        assert [(f.name, f.dataType) for f in ours.schema.fields] == [
            (f.name, f.dataType) for f in theirs.schema.fields
        ], number


def test_what_spark_cannot_tell_is_refused(stock: Sides) -> None:
    """Names that two columns have, columns that are gone or were never handed on, and frames joined with themselves."""
    for job, said in REFUSED:
        with pytest.raises(AnalysisException):
            job(*sides(stock))
        with pytest.raises(PlanError, match=f"(?s){said}"):
            job(*sides([read(live=frame) for frame in stock]))


def test_groups_behind_a_join_have_sparks_names(stock: Sides) -> None:
    """Keys, windows and aggregates by frames' names, by frames and by position, in whatever order."""
    a, b, c = sides([read(live=frame) for frame in stock])
    named = a.alias("l").join(b.alias("r"), F.expr(NAMED))
    grouped = named.groupBy(F.window("l.ts", "1 hour"), "r.k", 2)
    assert grouped.agg(F.sum("l.x"), F.max(F.col("r.x") + 1), F.count("*")).columns == [
        *("window", "k", "x", "sum(x)", "max((x + 1))", "count(1)")
    ]
    by_frame = joined(a, b).groupBy(F.window(a["ts"], "1 hour"), b["k"])
    assert by_frame.agg(F.sum(b["x"] - a["x"]), F.avg("y")).columns == ["window", "k", "sum((x - x))", "avg(y)"]
    assert by_frame.agg({"y": "sum"}).columns == ["window", "k", "sum(y)"]
    hidden = a.join(b.drop("x"), KEYS, "left").groupBy(F.window("ts", "1 hour"), b["k"]).agg(F.sum("x"))
    assert hidden.columns == ["window", "k", "sum(x)"]
    plain = c.alias("q").groupBy("q.k", "q.s.y", F.window("q.ts", "1 hour")).agg(F.sum("q.z"), F.first("q.s.y"))
    assert plain.columns == ["k", "y", "window", "sum(z)", "first(s.y)"]
    sets = named.groupingSets([["l.k"], ["r.x"]], "l.k", "r.x").agg(F.count("*").alias("n"))
    assert sets.columns == ["k", "x", "n"]
    with pytest.raises(PlanError, match="transformWithState is called on has several columns named k, ts, x"):
        named.groupBy("l.k").transformWithState(None, "k string", "append", "eventTime")  # type: ignore[arg-type]


def test_groups_behind_a_static_join_take_columns_of_the_static_frame(spark: SparkSession, stock: Sides) -> None:
    """Keys, aggregates and conditions by the static frame's columns, also if the rows have one of that name."""
    static = spark.createDataFrame([("a", "gold", 1)], "k string, `seg ment` string, x int")

    def job(rows: Any) -> list[Any]:
        tall = rows.withWatermark("ts", "10 minutes").join(static, rows["k"] == static["k"], "left")
        alone = rows.join(static.select(static["k"].alias("id"), "seg ment"), F.expr("k = id")).where(
            static["seg ment"] == "gold"
        )
        return [
            tall.groupBy(F.window("ts", "1 hour"), static["seg ment"]).agg(F.max(static["x"]), F.sum(rows["x"])),
            tall.groupBy(static["k"], F.upper(static["seg ment"])).agg(F.count(rows["k"]).alias("n")),
            alone.groupBy(static["seg ment"]).agg(F.min(static["seg ment"])),
            alone.groupBy(static["seg ment"]).agg({"seg ment": "max"}),
        ]

    for ours, theirs in zip(job(read(live=stock[0])), job(stock[0]), strict=True):
        assert [(f.name, f.dataType) for f in ours.schema.fields] == [
            (f.name, f.dataType) for f in theirs.schema.fields
        ]


def test_an_order_by_a_column_that_is_gone_says_so(spark: SparkSession, stock: Sides) -> None:
    """Behind an aggregate the columns of a static frame are those of the result, called by their names."""
    static = spark.createDataFrame([("a", "gold")], "id string, segment string")
    counts = read(live=stock[0]).join(static, F.expr("k = id")).groupBy(static["segment"]).count()
    with pytest.raises(PlanError, match='orderBy: column "segment" was taken from a frame, and is not among'):
        counts.orderBy(static["segment"])
    assert counts.orderBy("segment").columns == ["segment", "count"]
