"""A column may be written in all the ways of PySpark, in front of a stage and behind one of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.operators.frame_steps import behind_steps
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = (
    "k string, ts timestamp, v long, rec struct<a: int, b: struct<c: string, d: long>>, `a.b` string, `sp ace` long,"
    " arr array<long>, js string"
)
VALUES = ["v", "rec", "a.b", "sp ace", "arr", "js"]
Chain = Callable[[Any], Any]


class Echo(StatefulProcessor):
    """The rows as they are."""

    def init(self, handle: StatefulProcessorHandle) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield from rows


def echo(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    yield from frames


def greatest(frame: Any, *keys: Any) -> Any:
    timed = frame.withWatermark("ts", "1 hour") if isinstance(frame, MixedFrame) and frame._watermark is None else frame
    return timed.groupBy(*keys).agg(*[F.max(f"`{name}`").alias(name) for name in VALUES])


def windows(frame: Any) -> Any:
    return greatest(frame, F.window("ts", "10 minutes"), "k")


def joined(frame: Any) -> Any:
    left = frame.withWatermark("ts", "1 hour").alias("l")
    right = frame.selectExpr("k AS rk", "ts AS rts", "v AS rv").withWatermark("rts", "1 hour").alias("r")
    return left.join(right, F.expr("k = rk AND v = rv AND rts >= ts AND rts <= ts + interval 1 hour"))


PLACES: dict[str, Chain] = {
    "in front": lambda f: f.withWatermark("ts", "1 hour"),
    "in front, without the event time": lambda f: f.withWatermark("ts", "1 hour").drop("ts"),
    "windows": windows,
    "windows, without them": lambda f: windows(f).drop("window"),
    "groups": lambda f: f.groupBy("k").agg(*[F.max(f"`{name}`").alias(name) for name in VALUES]),
    "sessions": lambda f: greatest(f, F.session_window("ts", "10 minutes").alias("window"), "k"),
    "dedup": lambda f: f.withWatermark("ts", "1 hour").dropDuplicates(["k", "v", "ts"]),
    "processor": lambda f: f.groupBy("k").transformWithState(Echo(), SCHEMA, "append", "none"),
    "group state": lambda f: f.groupBy("k").applyInPandasWithState(echo, SCHEMA, "n long", "append", "NoTimeout"),
    "join": joined,
    "two stages": lambda f: greatest(windows(f), F.window(F.window_time("window"), "1 day"), "k"),
}

#: Those that are not slow.
SHORT = ("in front", "windows", "join")

#: With a window.
OF_WINDOWS: dict[str, Chain] = {
    "window.*": lambda f: f.select("window.*", "k"),
    "col of window.*": lambda f: f.select(F.col("window.*"), "v"),
    "selectExpr of window.*": lambda f: f.selectExpr("window.*", "k"),
    "time.*": lambda f: f.withColumnRenamed("window", "time").select("time.*", "k"),
    "alias and window.*": lambda f: f.alias("a").select("a.window.*", "a.k"),
    "alias and window.start": lambda f: f.alias("a").select("a.window.start", F.col("a.window.end")),
    "df['window']['start']": lambda f: f.select(f["window"]["start"].alias("s"), f["window.end"]),
    "df.window.start": lambda f: f.select(f.window.start, F.col("window").getField("end").alias("e")),
    "other case": lambda f: f.select("WINDOW.START", "Window.End"),
    "struct of window.*": lambda f: f.withColumn("s", F.struct("window.*")),
    "dropFields": lambda f: f.select(F.col("window").dropFields("end").alias("w")),
    "window_time": lambda f: f.select(F.window_time("window").alias("t"), "k"),
    "window.* beside *": lambda f: f.select("window.*", "*"),
}
WAYS: dict[str, Chain] = {
    "*": lambda f: f.select("*"),
    "col of *": lambda f: f.select(F.lit(1).alias("one"), F.col("*")),
    "df['*']": lambda f: f.select(f["*"]),
    "* and more": lambda f: f.select("*", (F.col("v") + 1).alias("w")),
    "selectExpr of *": lambda f: f.selectExpr("*", "v + 1 AS w"),
    "selectExpr of a list": lambda f: f.selectExpr(["k", "v AS w"]),
    "* EXCEPT": lambda f: f.selectExpr("* EXCEPT (v)"),
    "rec.*": lambda f: f.select("k", "rec.*"),
    "rec.b.*": lambda f: f.select("rec.b.*", F.col("`rec`.*")),
    "alias and *": lambda f: f.alias("x").select("x.*", F.struct("x.*").alias("s")),
    "alias and names": lambda f: f.alias("x").where("x.v > 2").select("x.k", F.col("x.rec.b.c"), "v"),
    "df['rec']['b']": lambda f: f.select(f["rec"]["b"]["c"].alias("c"), f["rec.b.d"].alias("d")),
    "df.rec.b": lambda f: f.select(f.rec.b.c, f.rec.getField("b").getField("d").alias("d")),
    "backticks": lambda f: f.select("`a.b`", F.col("`sp ace`"), f["`a.b`"].alias("x"), f["sp ace"].alias("y")),
    "backticks of a struct": lambda f: f.select("`rec`.`b`.`c`", F.col("rec.`b`.d")),
    "expr": lambda f: f.select(F.expr("v * 2 AS w"), F.expr("upper(k)"), F.expr("struct(*)").alias("s")),
    "struct of *": lambda f: f.select(F.struct("*").alias("s"), F.struct(F.col("*")).alias("t")),
    "struct of * and back": lambda f: f.select(F.struct("*").alias("s")).select("s.*"),
    "struct of * EXCEPT": lambda f: f.select(F.expr("struct(* EXCEPT (v))").alias("s")),
    "withColumn of a struct of *": lambda f: f.withColumn("s", F.struct("*")),
    "to_json": lambda f: f.select("k", F.to_json(F.struct("*")).alias("value")),
    "to_json in selectExpr": lambda f: f.selectExpr("CAST(k AS STRING) AS key", "to_json(struct(*)) AS value"),
    "from_json": lambda f: f.select("k", F.from_json("js", "p int, q string").alias("data")).select("k", "data.*"),
    "withColumn": lambda f: f.withColumn("w", f.v + f["v"]).withColumn("V", F.col("V") * 2).select("K", "V", "w"),
    "withField": lambda f: f.withColumn("rec", F.col("rec").withField("b.z", F.col("v")).dropFields("a")),
    "withColumns": lambda f: f.withColumns({"w": f.v + 1, "kk": F.concat("k", "k"), "v": F.lit(3)}),
    "withColumnRenamed": lambda f: f.withColumnRenamed("v", "w").withColumnRenamed("no", "x").select("w"),
    "withColumnsRenamed": lambda f: f.withColumnsRenamed({"v": "w", "k": "key", "no": "x"}),
    "transform": lambda f: f.transform(lambda d: d.withColumn("s", F.struct("*"))).transform(lambda d: d.drop("k")),
    "transform and toDF": lambda f: f.select("k", "v").transform(lambda d: d.toDF("a", "b")),
    "toDF": lambda f: f.toDF(*[f"c{place}" for place in range(len(f.columns))]),
    "drop": lambda f: f.drop("rec", "a.b", "no").drop("`a.b`").drop(F.col("v"), f["js"]),
    "colRegex": lambda f: f.select(f.colRegex("`(k|js)`"), "v"),
    "colRegex of all": lambda f: f.select(f.colRegex("`.*`")),
    "df[…] of columns": lambda f: f[["k", f.v]][("v",)],
    "df[…] of a condition": lambda f: f[(f["v"] > 2) & f.k.isin("k1", "k2")],
    "df[…] of places": lambda f: f.select(f[0], f[-1]),
    "filter by text": lambda f: f.filter("v > 2 AND rec.b.d > 10").where("hash(*) <> 0"),
    "where of what select has left out": lambda f: f.select("k").where("v > 2").where(f.v < 9),
    "where behind select": lambda f: f.select("k", F.col("v").alias("w")).where(F.col("w") > 1),
    "lateral aliases": lambda f: f.selectExpr("v + 1 AS w", "w * 2 AS w2", "k"),
    "functions of functions": lambda f: f.select(
        F.transform("arr", lambda x: x + 1).alias("t"), F.expr("filter(arr, (x, i) -> i > 0)[0]").alias("g")
    ),
    "explode": lambda f: f.withColumn("x", F.explode("arr")).select("x", F.posexplode("arr").alias("i", "y")),
    "inline": lambda f: f.selectExpr("k", "inline(array(rec)) AS (p, q)"),
    "stack": lambda f: f.selectExpr("k", "stack(2, 'v', v, 'w', v * 2) AS (name, value)"),
    "when": lambda f: f.select("*", F.when(F.col("v") > 3, "much").when(f.v > 1, "some").otherwise("none").alias("c")),
    "fillna": lambda f: f.na.fill({"k": "x"}).fillna(0, subset=["v"]).na.replace(["k2"], ["kk"], "k"),
    "dropna and replace": lambda f: f.replace("k1", "kk").drop("a.b").dropna().na.drop("all", subset=["k"]),
    "unpivot": lambda f: f.select("k", "v", (F.col("v") * 2).alias("w")).unpivot("k", ["v", "w"], "name", "value"),
    "melt all": lambda f: f.select("k", "v", (F.col("v") * 2).alias("w")).melt([f.k], None, "name", "value"),
    "to": lambda f: f.to(f.sparkSession.createDataFrame([], "v double, k string").schema),
    "sample": lambda f: f.sample(1.0).sampleBy("k", {"k1": 1.0}, seed=3).select("k"),
    "names from columns": lambda f: f.select([F.col(f"`{name}`").cast("string") for name in f.columns]),
    "withMetadata and hint": lambda f: f.withMetadata("k", {"c": 1}).hint("broadcast"),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> MixedFrame:
    folder = tmp_path_factory.mktemp("landing")
    history = spark.createDataFrame([], SCHEMA)
    return read(history=history, live=spark.readStream.schema(SCHEMA).parquet(str(folder)))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def ways_of(frame: Any) -> dict[str, Chain]:
    return {**WAYS, **(OF_WINDOWS if "window" in frame.columns else {})}


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=() if place in SHORT else pytest.mark.slow) for place in PLACES],
)
def test_columns_are_those_that_spark_gives(rows: MixedFrame, spark: SparkSession, place: str) -> None:
    """Names, order and types, of every way to write them; no column of ours is in a star."""
    frame = PLACES[place](rows)
    plain = spark.createDataFrame([], frame.schema)
    different = {}
    for name, way in ways_of(frame).items():
        made, expected = way(frame), way(plain)
        if (made.dtypes, made.columns) != (expected.dtypes, expected.columns):
            different[name] = (made.dtypes, expected.dtypes)
    assert not different


@pytest.mark.slow
def test_what_is_behind_windows_is_planned(rows: MixedFrame) -> None:
    """A stage's job has a name for what each output column is made of, or says that there is none."""
    frame = windows(rows)
    planned = {name: way(frame).writeStream.format("noop").plan() for name, way in ways_of(frame).items()}
    assert planned["window.*"].output_columns == "start timestamp, end timestamp, k string"


@pytest.mark.slow
def test_rows_behind_windows_are_those_that_spark_gives(rows: MixedFrame, spark: SparkSession) -> None:
    """The steps that a stage does to its rows, with a column in them that goes along unseen and is in no star."""
    frame = windows(rows)
    stage_rows = spark.sql(
        "SELECT named_struct('start', t, 'end', t + INTERVAL 10 MINUTES) AS window, concat('k', id) AS k, id AS v,"
        " named_struct('a', int(id), 'b', named_struct('c', string(id), 'd', id * 9)) AS rec, 'dot' AS `a.b`,"
        ' id + 100 AS `sp ace`, array(id, id + 1) AS arr, \'{"p": 1, "q": "z"}\' AS js'
        " FROM (SELECT id, timestamp'2024-01-01' AS t FROM range(6))"
    )
    # With Spark's marks of windows.  Of rows from Arrow Spark computes most columns as it plans, without a job.
    stage_rows = spark.createDataFrame(stage_rows.toArrow(), frame.schema)
    results, expected = [], []
    for name, way in ways_of(frame).items():

        def told(made: Any, name: str = name) -> Any:
            named = made.toDF(*[f"c{place}" for place in range(len(made.columns))])
            return named.select(F.lit(name).alias("way"), F.to_json(F.struct("*")).alias("row"))

        [part] = told(way(frame))._inputs.parts
        # A column of ours that goes along without the user's knowing is of no interest here.
        results.append(reduce(lambda one, step: step(one), part.steps, stage_rows).drop("__event_time"))
        [unseen] = behind_steps([(stage_rows.withColumn("__emitted_ms", F.lit(1)), part.steps)], "__emitted_ms")
        results.append(unseen.drop("__emitted_ms", "__event_time").withColumn("way", F.concat("way", F.lit(" again"))))
        expected.append(told(way(stage_rows)))
        expected.append(expected[-1].withColumn("way", F.concat("way", F.lit(" again"))))
    assert [rows_of(frame) for frame in results] == [rows_of(frame) for frame in expected]


def test_aggregates_of_stars_have_no_column_of_ours(rows: MixedFrame, spark: SparkSession) -> None:
    """Behind windows, and where the event time was left out; count(*) still counts rows."""
    for place in ("in front, without the event time", "windows", "windows, without them"):
        frame = PLACES[place](rows)
        plain = spark.createDataFrame([], frame.schema)
        for aggregates in ([F.max(F.struct("*"))], [F.count("*"), F.expr("max(struct(k, v)) AS m")]):
            made, expected = (one.groupBy("k").agg(*aggregates) for one in (frame, plain))
            assert made.dtypes == expected.dtypes


def test_what_brackets_do_not_take_is_named(rows: MixedFrame) -> None:
    """A place that is not there, and what is neither a name nor a condition."""
    with pytest.raises(IndexError):
        rows[99]
    with pytest.raises(PlanError, match=r"frame\[None\] is no column: give a name, a place"):
        rows[None]  # type: ignore[call-overload]
    with pytest.raises(PlanError, match="column nope does not exist"):
        rows["nope"]
