"""Several inputs: what read() takes for live, what union puts together, names, watermarks and what the plan says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mixedmode import OptionError, PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput, look_at
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options


def names(frame: MixedFrame) -> list[str]:
    return [part.name for part in frame._inputs.parts]


def delays(frame: MixedFrame) -> list[int]:
    assert frame._watermark is not None
    return [frame._watermark.delay_of(part.name) for part in frame._inputs.lives]


def test_one_live_input_is_called_live(history: DataFrame, live: DataFrame) -> None:
    """A list of one is the same as the frame itself; no column is added to its rows."""
    for given in (live, [live]):
        frame = read(history=history, live=given)
        assert names(frame) == ["history", "live"]
        counts = frame.groupBy("k").count().writeStream.outputMode("update").format("noop")
        rows = counts.described().live
        assert rows is not None
        assert INPUT_COLUMN not in rows.columns


def test_several_are_numbered_or_named(live: DataFrame) -> None:
    """A list counts its inputs, a dict names them."""
    assert names(read(live=[live, live])) == ["live-1", "live-2"]
    assert names(read(live={"orders": live, "returns": live})) == ["orders", "returns"]


@pytest.mark.parametrize("name", ["", " ", "history", 7])
def test_a_name_must_be_one(live: DataFrame, name: Any) -> None:
    """What cannot be told from the history, or is no text, names no input."""
    with pytest.raises(PlanError, match="live has an input called"):
        read(live={name: live})


def test_each_input_is_checked_under_its_name(history: DataFrame, live: DataFrame) -> None:
    """An error says which of the inputs it is about."""
    with pytest.raises(PlanError, match="late is a batch DataFrame"):
        read(live={"orders": live, "late": history})
    with pytest.raises(PlanError, match="live-1 and live-2 have different columns: only live-1 has k"):
        read(live=[live, live.drop("k")])
    with pytest.raises(PlanError, match="live-2 contains dropDuplicates"):
        read(live=[live, live.dropDuplicates(["k"])])
    with pytest.raises(PlanError, match="neither history nor live"):
        read(live=[])


def test_columns_of_all_are_put_into_one_order(live: DataFrame) -> None:
    """The first input's order counts."""
    inputs = read(live=[live, live.select(*reversed(live.columns))])._inputs
    assert {tuple(part.frame.columns) for part in inputs.parts} == {tuple(live.columns)}


def test_a_history_has_the_columns_of_the_live_input(
    history: DataFrame, live: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """Taken by name, in any order and case; what only the history has is left out, which the log says once."""
    more = history.selectExpr("date'2020-01-01' AS dt", "*", "now() AS loaded").withColumnRenamed("v", "V")
    backwards = more.select(*reversed(more.columns))

    frame = read(history=backwards, live=[live, live])

    assert frame.columns == [*reversed(live.columns)]
    assert {tuple(part.frame.columns) for part in frame._inputs.parts} == {tuple(frame.columns)}
    assert [row.k for row in frame._inputs.histories[0].frame.collect()] == ["a", "b"]
    [said] = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert "['loaded', 'dt']" in said
    assert read(history=more).columns == more.columns, "without a live input all of them are the job's"


def test_a_history_that_lacks_columns_is_refused_with_the_select_to_write(history: DataFrame, live: DataFrame) -> None:
    """Both schemas are in the error, and the select in it gives a history that is taken."""
    short = history.withColumn("v", F.col("v").cast("string")).withColumn("dt", F.lit(1)).drop("x", "tags")

    with pytest.raises(PlanError) as refused:
        read(history=short, live=live)

    text = str(refused.value)
    first, *rest = text.splitlines()
    assert first.endswith("different columns: history lacks x, tags; v is string in history and bigint in live")
    assert "history has k string, v string, ts timestamp, dt int" in rest
    assert "live has k string, v bigint, x double, ts timestamp, tags map<string,int>" in rest
    [select] = [line.partition(" as ")[2] for line in rest if line.startswith("give read() the history as ")]
    mended = eval(select, {"history": short, "F": F})
    assert read(history=mended, live=live).dtypes == live.dtypes


def test_the_select_to_write_keeps_columns_in_another_case_and_with_dots(history: DataFrame, live: DataFrame) -> None:
    """A table of Hive's has its names in small letters; nulls in their place would lose its values."""
    landed = live.select(F.col("k").alias("K"), F.col("v").alias("V"), F.col("ts").alias("event.ts"))
    stored = history.select("k", F.col("v").cast("string"), F.col("ts").cast("string").alias("event.ts"))

    with pytest.raises(PlanError) as refused:
        read(history=stored, live=landed)

    select = str(refused.value).partition("give read() the history as ")[2].splitlines()[0]
    mended = eval(select, {"history": stored, "F": F})
    assert read(history=mended, live=landed).dtypes == landed.dtypes
    assert [tuple(row) for row in mended.collect()] == [tuple(row) for row in history.select("k", "v", "ts").collect()]


def test_inputs_may_come_through_views(history: DataFrame, live: DataFrame) -> None:
    """By name, by a query without state, one over the other, and with a watermark; state in a query is refused."""
    spark = live.sparkSession
    history.createOrReplaceTempView("arrived")
    live.withWatermark("ts", "1 hour").createOrReplaceTempView("landed")
    spark.sql("CREATE OR REPLACE TEMP VIEW large AS SELECT k, ts, v * 2 AS v FROM landed WHERE v > 1")

    for frame in (
        read(history=spark.table("arrived"), live=spark.table("landed")),
        read(history=spark.table("arrived"), live=spark.sql("WITH a AS (SELECT * FROM large) SELECT a.* FROM a")),
        read(live=[spark.table("large"), spark.sql("SELECT ts, v, k FROM landed JOIN arrived USING (k, ts, v)")]),
    ):
        assert frame._watermark is not None
        assert frame._watermark.event_time == "ts"
        counted = frame.groupBy(F.window("ts", "1 hour"), "k").count()
        assert "StreamingRelation" in counted.writeStream.format("noop").plan().explain(extended=True)
    live.createOrReplaceTempView("landed")
    for text, said in (
        ("SELECT k, count(*) AS n FROM landed GROUP BY k", "live contains an aggregation, which keeps state in Spark"),
        ("SELECT DISTINCT k FROM landed", "which keeps state in Spark; only stateless operations may come before"),
        ("SELECT a.k FROM landed a JOIN landed b ON a.k = b.k", "live joins two streams"),
    ):
        with pytest.raises(PlanError, match=said):
            read(live=spark.sql(text))


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (lambda rows: rows.sample(0.5), "live has an operation .*: Sampling is not supported on streaming"),
        (
            lambda rows: rows.withColumn("n", F.monotonically_increasing_id()),
            r"live has an operation .* monotonically_increasing_id",
        ),
    ],
)
def test_what_spark_supports_on_no_stream_is_refused_at_start(
    history: DataFrame, live: DataFrame, operation: Any, said: str
) -> None:
    """Whether it stands in the live input or behind read(); also without a keyed stage.  A history may have it."""
    spark = live.sparkSession
    counts = [
        operation(read(history=history, live=live)).groupBy("k").count().writeStream.outputMode("update"),
        read(history=operation(history), live=operation(live)).groupBy("k").count().writeStream.outputMode("update"),
        operation(read(live=live)).writeStream,
    ]
    for writer in counts:
        with pytest.raises(PlanError, match=said) as refused:
            writer.format("noop").plan()
        assert (refused.value.code, "\n" in str(refused.value)) == ("MIXEDMODE_NOT_SUPPORTED", False)
    read(history=operation(history)).groupBy("k").count().writeStream.format("noop").outputMode("update").plan()

    with session_options(spark, {"spark.sql.streaming.unsupportedOperationCheck": "FALSE"}):
        counts[0].format("noop").plan()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxFilesPerTrigger": "abc"}, "maxfilespertrigger = 'abc'.*positive integer"),
        ({"maxFileAge": "soon", "latestFirst": "true"}, "with maxfileage = 'soon': Time must be specified"),
        ({"cleanSource": "archive"}, "cleansource = 'archive'.*sourceArchiveDir"),
        (
            {"cleanSource": "archive", "sourceArchiveDir": "/a", "maxFilesPerTrigger": "x"},
            r"\] with maxfilespertrigger = 'x': ",
        ),
        ({"cleanSource": "archve"}, "cleansource = 'archve'.*ARCHIVE,DELETE,OFF"),
    ],
)
def test_wrong_options_of_a_stream_of_files_are_refused_at_start(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    """Spark itself looks at them when its query begins."""
    live = spark.readStream.schema("k bigint, ts timestamp").options(**options).parquet(str(tmp_path))
    writer = read(live=live).groupBy("k").count().writeStream.outputMode("update").format("noop")
    with pytest.raises(OptionError, match=said):
        writer.plan()


@pytest.mark.parametrize("compared", ["exceptAll", "subtract", "intersect"])
def test_rows_compared_with_all_others_are_state_of_sparks(history: DataFrame, live: DataFrame, compared: str) -> None:
    """Spark finds it out in the first micro-batch only."""
    names = ["exceptAll or subtract", "intersect"]
    rows = getattr(live.select("k"), compared)(history.select("k"))
    with pytest.raises(PlanError, match=f"live .*contains ({'|'.join(names)}), which keeps state in Spark"):
        read(live=rows).groupBy("k")


def test_operations_reach_every_input(live: DataFrame) -> None:
    """What is done to the frame is done to each of them; the one that does not take it is named."""
    frame = read(live={"a": live, "b": live}).withColumn("w", F.lit(1)).where("v > 0")
    assert all("w" in part.frame.columns for part in frame._inputs.parts)
    with pytest.raises(PlanError, match="withColumn works on a but not on b"):
        read(live={"a": live, "b": live.withColumn("v", F.col("v") * 2)}).withColumn("w", live["v"] + 1)


def test_names_of_live_inputs_differ_by_case_only_where_the_session_says_so(live: DataFrame) -> None:
    """As of a history and its live input; the first one's names hold."""
    upper = live.select("v", "x", "tags", F.col("k").alias("K"), F.col("ts").alias("Ts"))
    assert [part.frame.columns for part in read(live=[live, upper])._inputs.parts] == [live.columns] * 2
    spark = live.sparkSession
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(PlanError, match="only live-1 has k, ts; only live-2 has K, Ts"):
            read(live=[live, upper])
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_union_is_by_position_and_union_by_name_by_name(history: DataFrame, live: DataFrame) -> None:
    """As on a DataFrame: union takes the left side's names, unionByName matches them."""
    left = read(live=live.select("k", "ts"))
    by_position = left.union(read(live=live.select(F.col("k").alias("other"), F.col("ts").alias("time"))))
    by_name = left.unionByName(read(history=history.select("ts", "k")))
    assert by_position.columns == by_name.columns == ["k", "ts"]
    assert names(by_position) == ["live-1", "live-2"]
    assert names(by_name) == ["live", "history"]
    assert left.unionAll(left).columns == ["k", "ts"]


def test_union_by_name_finds_columns_in_any_case(history: DataFrame, live: DataFrame) -> None:
    """As Spark does: the names are those of the left side, and its event time is that of the other."""
    small = history.select(F.col("ts").alias("TS"), F.col("k").alias("K"))
    spark_columns = history.select("k", "ts").unionByName(small).columns
    for right in (read(history=small).withWatermark("TS", "1 hour"), small):
        both = read(live=live.select("k", "ts")).withWatermark("ts", "1 hour").unionByName(right)
        assert both.columns == spark_columns == ["k", "ts"]
        assert both._watermark is not None and both._watermark.event_time == "ts"
        assert [part.frame.columns[:2] for part in both._inputs.parts] == [["k", "ts"]] * 2


def test_union_by_name_tells_two_histories_apart(history: DataFrame) -> None:
    """Both are called history, which would not say who lacks the column."""
    with pytest.raises(PlanError, match="one side and the other side have different columns: only one side has v"):
        read(history=history.select("k", "v")).unionByName(read(history=history.select("k")))


def test_union_refuses_what_does_not_fit(live: DataFrame) -> None:
    """Another number of columns, other names, other types, two inputs of one name, or what is no frame."""
    left = read(live={"a": live})
    with pytest.raises(PlanError, match="one side has 5 columns, the other 4"):
        left.union(read(live=live.drop("k")))
    with pytest.raises(PlanError, match="have different columns: only a has k"):
        left.unionByName(read(live={"b": live.drop("k")}))
    with pytest.raises(PlanError, match="two live inputs are called 'a'"):
        left.union(read(live={"a": live.select("*")}))
    with pytest.raises(PlanError, match=r"union takes what mixedmode\.read\(\) returns, or a DataFrame, got str"):
        left.union("live")  # type: ignore[arg-type]


def test_union_by_name_fills_in_what_one_side_lacks(live: DataFrame) -> None:
    """allowMissingColumns gives nulls of the other side's type."""
    both = read(live=live.drop("k")).unionByName(read(live=live.drop("v")), allowMissingColumns=True)
    assert sorted(both.columns) == sorted(live.columns)
    assert {both.schema[name].dataType for name in ("k", "v")} == {live.schema[name].dataType for name in ("k", "v")}


@pytest.mark.parametrize(
    "there", ["void", "int", "smallint", "decimal(12,3)", "double"], ids=lambda name: name.partition("(")[0]
)
@pytest.mark.parametrize("how", ["union", "unionByName"])
def test_union_widens_types_as_spark_does(live: DataFrame, there: str, how: str) -> None:
    """A column of nulls or of another number's type, as ``lit(None)`` and ``lit(0)`` make it, on either side."""
    one = live.select("k", F.lit(1).cast("bigint").alias("n"))
    two = live.select("k", F.lit(None).cast(there).alias("n"))
    for first, second in ((one, two), (two, one)):
        widened = getattr(read(live=first), how)(read(live=second)).schema
        assert widened["n"].dataType == getattr(first, how)(second).schema["n"].dataType


@pytest.mark.parametrize("other", ["named_struct('b', 1, 'a', 2)", "named_struct('a', 1, 'c', 2)"])
def test_fields_that_spark_joins_by_name_are_not_joined_by_place(live: DataFrame, other: str) -> None:
    """With allowMissingColumns a cast would put the values of one field into another, so such structs are refused."""
    one, two = (
        read(live=live.selectExpr("named_struct('a', 1, 'b', 2) AS s")),
        read(live=live.selectExpr(f"{other} AS s")),
    )
    with pytest.raises(PlanError, match="different columns"):
        one.unionByName(two, allowMissingColumns=True)


def test_union_leaves_types_that_have_no_wider_one(live: DataFrame) -> None:
    """The error names the column, and the event time is never cast."""
    with pytest.raises(PlanError, match="n is bigint in live-1 and array<int> in live-2"):
        read(live=live.selectExpr("1L AS n")).union(read(live=live.selectExpr("array(1) AS n")))
    timed = read(live=live.select("ts")).withWatermark("ts", "1 second")
    with pytest.raises(PlanError, match="ts is timestamp in live-1 and timestamp_ntz in live-2"):
        timed.union(read(live=live.selectExpr("localtimestamp() AS ts")).withWatermark("ts", "1 second"))


def test_each_side_of_a_union_keeps_its_delay(live: DataFrame) -> None:
    """Delays stay with the inputs that they were given to; a later withWatermark is for all."""
    one = read(live=live).withWatermark("ts", "1 second")
    two = read(live=[live, live]).withWatermark("ts", "2 seconds")
    assert delays(one.union(two)) == [1000, 2000, 2000]
    assert delays(two.union(one).union(two)) == [2000, 2000, 1000, 2000, 2000]
    assert delays(one.union(two).withWatermark("ts", "3 seconds")) == [3000] * 3
    renamed = one.union(two).withColumnRenamed("ts", "at")
    assert renamed._watermark is not None
    assert renamed._watermark.event_time == "at"
    assert delays(renamed) == [1000, 2000, 2000]


def test_the_watermarks_of_a_union_are_of_one_column(live: DataFrame) -> None:
    """By position the right side's column becomes the left one's; a side without a watermark is refused."""
    left = read(live=live.select("k", "ts")).withWatermark("ts", "1 second")
    right = read(live=live.select("k", F.col("ts").alias("at"))).withWatermark("at", "2 seconds")
    assert delays(left.union(right)) == [1000, 2000]
    with pytest.raises(PlanError, match="of the columns ts and none"):
        left.union(read(live=live.select("k", "ts")))


def test_a_history_belongs_to_the_inputs_that_it_was_read_with(history: DataFrame, live: DataFrame) -> None:
    """Rows carry the number of their frame, and each live input knows which numbers move its watermark."""
    both = read(history=history, live=[live, live])
    assert [one.frames for one in both._inputs.live_inputs] == [(0, 1), (0, 2)]
    apart = read(history=history, live=live).union(read(live=live))
    assert [one.frames for one in apart._inputs.live_inputs] == [(0, 1), (2,)]


def test_ways_of_one_watermark_move_it_together(history: DataFrame, live: DataFrame) -> None:
    """Rows of one source behind one call of withWatermark, as Spark's watermark is of the call."""
    both = read(history=history, live=live)
    timed = both.withWatermark("ts", "1 second")
    together = timed.where("v > 1").union(timed.select("*"))
    assert [one.frames for one in together._inputs.live_inputs] == [(0, 1, 2, 3)] * 2
    assert [
        one.frames for one in both.union(both.where("v > 1")).withWatermark("ts", "1 second")._inputs.live_inputs
    ] == [(0, 1, 2, 3)] * 2
    twice = timed.union(both.withWatermark("ts", "1 second"))
    assert [one.frames for one in twice._inputs.live_inputs] == [(0, 1), (2, 3)]
    several = read(live=[live, live.select("*")]).withWatermark("ts", "1 second")
    assert [one.frames for one in several._inputs.live_inputs] == [(0,), (1,)]


def test_a_look_at_rows_tells_inputs_apart(spark: SparkSession) -> None:
    """Greatest event times come by input; one without rows is left out, one without times has none."""
    rows = [(0, "2024-01-01 00:00:09"), (1, "2024-01-01 00:00:05"), (3, None)]
    frame = spark.createDataFrame(rows, f"{INPUT_COLUMN} int, ts string").withColumn("ts", F.to_timestamp("ts"))
    inputs = [LiveInput("a", (0, 1)), LiveInput("b", (2,)), LiveInput("c", (3,)), LiveInput("d", (1,))]

    found = look_at(frame, "ts", inputs)

    second_ms = 1_704_067_200_000
    assert found.rows == 3
    assert found.seen == {"a": second_ms + 9000, "c": None, "d": second_ms + 5000}


def test_the_plan_names_inputs_delays_and_where_late_rows_go(live: DataFrame, tmp_path: Any) -> None:
    """explain() says what each input's watermark is, when it is idle, and what becomes of late rows."""
    one = read(live={"a": live}).withWatermark("ts", "1 second")
    both = one.union(read(live={"b": live}).withWatermark("ts", "2 minutes"))
    writer = both.groupBy("k").count().writeStream.outputMode("update").format("noop")
    plan = writer.option("pipeline.watermark.idle-timeout", "5 min").plan()
    text = " ".join(plan.explain().split())
    assert [source.name for source in plan.sources] == ["a", "b"]
    assert "the least of the live inputs' own (a - 1 s, b - 2 min; idle after 5 min)" in text
    assert "late rows" not in text
    late = writer.option("pipeline.late-data.path", str(tmp_path / "late")).plan().explain()
    assert f"parquet files in {tmp_path / 'late'}: exactly-once" in " ".join(late.split())


def test_late_rows_must_fit_into_parquet(live: DataFrame, tmp_path: Any) -> None:
    """A column that Parquet cannot hold is refused before the first late row comes."""
    frame = read(live=live.withColumn("odd", F.expr("make_interval(1)"))).withWatermark("ts", "1 second")
    writer = frame.groupBy("k").count().writeStream.outputMode("update").format("noop")
    with pytest.raises(PlanError, match="column odd is of type interval, which Parquet cannot hold"):
        writer.option("pipeline.late-data.path", str(tmp_path / "late")).plan()
    twice = read(live=live.withColumn("odd", F.struct("k", "k"))).withWatermark("ts", "1 second")
    writer = twice.groupBy("k").count().writeStream.outputMode("update").format("noop")
    with pytest.raises(PlanError, match="column odd has structs with two fields named k, which Parquet cannot hold"):
        writer.option("pipeline.late-data.path", str(tmp_path / "late")).plan()
