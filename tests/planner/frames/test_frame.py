"""read() and MixedFrame: what is accepted, what is refused, and that operations reach both inputs."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError, SetupError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.event_time import Watermark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from session_options import session_options

pytestmark = pytest.mark.spark


def test_read_needs_an_input() -> None:
    """No history and no live source is no job."""
    with pytest.raises(PlanError, match="neither history nor live"):
        read()


def test_either_input_is_enough(history: DataFrame, live: DataFrame) -> None:
    """A job may have an end, or no past."""
    assert not read(history=history).isStreaming
    assert read(live=live).isStreaming
    assert read(history=history).schema == history.schema


def test_history_must_end(live: DataFrame) -> None:
    """A stream given as history is refused with what to do."""
    with pytest.raises(PlanError, match="history is a streaming DataFrame"):
        read(history=live)


def test_live_must_be_a_stream(history: DataFrame) -> None:
    """A batch frame given as live is refused with what to do."""
    with pytest.raises(PlanError, match=r"live is a batch DataFrame; read it with spark\.readStream"):
        read(live=history)


def test_inputs_must_be_frames() -> None:
    """A path is not a frame."""
    with pytest.raises(PlanError, match="history must be a DataFrame, got str"):
        read(history="lake/flights")  # type: ignore[arg-type]


def test_a_connect_frame_is_refused() -> None:
    """Spark Connect is named, not "must be a DataFrame"."""
    of_connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()

    with pytest.raises(SetupError, match="Spark Connect"):
        read(live=of_connect)


def test_different_columns_are_named(history: DataFrame, live: DataFrame) -> None:
    """Columns that the history lacks, and columns of two types, are all in the one error."""
    other = history.drop("k").withColumn("v", F.col("v").cast("int")).withColumn("extra", F.lit(1))

    with pytest.raises(PlanError) as caught:
        read(history=other, live=live)

    assert "history lacks k; v is int in history and bigint in live\n" in str(caught.value)


def test_nullability_and_order_of_columns_do_not_matter(history: DataFrame, live: DataFrame) -> None:
    """Live's columns are put into history's order; a column is nullable if it is so in either."""
    shuffled = history.select("ts", "v", "k", "x", "tags").withColumn("v", F.coalesce("v", F.lit(0)))

    frame = read(history=shuffled, live=live)

    assert not shuffled.schema["v"].nullable
    assert frame.schema["v"].nullable
    assert frame._inputs.live is not None
    assert frame.columns == frame._inputs.live.columns == ["ts", "v", "k", "x", "tags"]


def test_two_columns_of_one_name_are_refused(history: DataFrame) -> None:
    """Nothing could be said about such a column."""
    with pytest.raises(PlanError, match="history has several columns named k"):
        read(history=history.select("k", "k", "v"))


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        (lambda frame: frame.dropDuplicates(["k"]), "dropDuplicates"),
        (lambda frame: frame.groupBy("k").count(), "an aggregation"),
        (lambda frame: frame.select("k", "v").join(frame.select("k", "x"), "k"), "joins two streams"),
        (lambda frame: frame.limit(5), "limit"),
    ],
)
def test_a_live_source_with_state_of_its_own_is_refused(live: DataFrame, operation, named: str) -> None:  # type: ignore[no-untyped-def]
    """Spark's state could not be rewound with ours."""
    with pytest.raises(PlanError, match=f"live .*{named}"):
        read(live=operation(live))


def test_a_live_source_joined_with_a_static_table_is_accepted(history: DataFrame, live: DataFrame) -> None:
    """A join with a static frame keeps no state."""
    names = history.groupBy("k").agg(F.max("v").alias("top"))

    assert "top" in read(live=live.join(names, "k")).columns


@pytest.mark.parametrize(
    ("operation", "columns"),
    [
        (lambda frame: frame.select("k", F.col("v")), ["k", "v"]),
        (lambda frame: frame.select(["k", "x"]), ["k", "x"]),
        (lambda frame: frame.selectExpr("k", "v + 1 as w"), ["k", "w"]),
        (lambda frame: frame.where("v > 0").filter(F.col("x") > 0).drop("tags", "x", "ts"), ["k", "v"]),
        (lambda frame: frame.select("k").withColumn("u", F.upper("k")), ["k", "u"]),
        (lambda frame: frame.select("k").withColumns({"a": F.lit(1), "b": F.lit(2)}), ["k", "a", "b"]),
        (lambda frame: frame.select("k", "v").withColumnRenamed("v", "w"), ["k", "w"]),
        (lambda frame: frame.select("k", "v").withColumnsRenamed({"v": "w", "k": "l"}), ["l", "w"]),
        (lambda frame: frame.select("k", "v").dropna(subset=["v"]).fillna(0), ["k", "v"]),
        (lambda frame: frame.transform(lambda side: side.select("k")), ["k"]),
    ],
)
def test_an_operation_is_applied_to_both_inputs(both: MixedFrame, operation, columns: list[str]) -> None:  # type: ignore[no-untyped-def]
    """Both inputs have the new columns, and stay what they were."""
    inputs = operation(both)._inputs

    assert inputs.history is not None
    assert inputs.live is not None
    assert inputs.history.columns == inputs.live.columns == columns
    assert inputs.live.isStreaming
    assert not inputs.history.isStreaming


def test_operations_give_what_a_dataframe_gives(history: DataFrame) -> None:
    """The history's rows are those of the same chain on the DataFrame itself."""

    def chain(frame):  # type: ignore[no-untyped-def]
        return frame.fillna(7, subset=["v"]).where("v > 1").withColumn("w", F.col("v") * 2).select("k", "w")

    result = chain(read(history=history))._inputs.history

    assert result.collect() == chain(history).collect() == [("b", 14)]


def test_a_column_of_one_input_alone_is_refused_with_the_reason(both: MixedFrame, history: DataFrame) -> None:
    """``history['v']`` means nothing to live; the error says what to write."""
    with pytest.raises(PlanError, match=r"select works on history but not on live: .*use its name or F\.col"):
        both.select(history["v"])


def test_a_column_by_item_is_good_for_both_inputs(both: MixedFrame) -> None:
    """``frame['v']`` of the mixed frame is a name, whatever its case."""
    assert both.select(both["V"] + 1, both["k"]).columns == ["(v + 1)", "k"]
    with pytest.raises(PlanError, match="column w does not exist"):
        both["w"]


def test_a_column_by_attribute_is_good_for_both_inputs(both: MixedFrame) -> None:
    """``frame.v`` as on a DataFrame."""
    assert both.select(both.v + 1).columns == ["(v + 1)"]


def test_what_a_mixed_frame_does_not_have_says_what_to_use(both: MixedFrame) -> None:
    """Methods of DataFrame lead to transform; other names are plain attribute errors."""
    with pytest.raises(AttributeError, match=r"has no lateralJoin; transform\(lambda frame: frame\.lateralJoin\(…\)\)"):
        both.lateralJoin  # noqa: B018
    with pytest.raises(AttributeError, match="MixedFrame has no attribute 'nothing'"):
        both.nothing  # noqa: B018
    assert not hasattr(both, "collect")


def test_a_mistake_in_an_expression_is_sparks_own_error(both: MixedFrame) -> None:
    """As on a DataFrame."""
    with pytest.raises(AnalysisException, match="nope"):
        both.where("nope > 1")


def test_transform_takes_a_join_with_a_static_table(both: MixedFrame, history: DataFrame) -> None:
    """The function sees a DataFrame of each input."""
    names = history.select("k", F.lit("name").alias("name"))

    assert both.transform(lambda side, how: side.join(names, "k", how), "left").columns[-1] == "name"


def test_transform_must_give_both_inputs_the_same_columns(both: MixedFrame) -> None:
    """A function that looks at isStreaming may not part the inputs."""
    with pytest.raises(PlanError, match="only history has w"):
        both.transform(lambda side: side if side.isStreaming else side.withColumn("w", F.lit(1)))


def test_transform_must_return_a_frame(both: MixedFrame) -> None:
    """Forgetting ``return`` is found at once."""
    with pytest.raises(PlanError, match="returned NoneType"):
        both.transform(lambda side: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "call",
    [
        lambda frame: frame.select(F.count(F.col("*")).alias("n")),
        lambda frame: frame.select([F.sum("v"), (F.max("v") - F.min("v")).alias("range"), F.lit(1).alias("one")]),
        lambda frame: frame.selectExpr("count(*) AS n", "max(ts)"),
        lambda frame: frame.withWatermark("ts", "1 hour").select(F.avg("v")),
    ],
)
def test_aggregates_in_select_are_one_group_of_all_rows(both: MixedFrame, history: DataFrame, call: Any) -> None:
    """As on a DataFrame: they make a keyed stage, whose columns are those that Spark gives."""
    ours = call(both)

    assert ours._stage is not None
    assert ours.dtypes == call(history).dtypes


def test_other_functions_in_select_make_no_stage(both: MixedFrame) -> None:
    """A call of a function is no aggregate, nor is a mistake, whose error is Spark's."""
    assert both.select(F.upper("k"), F.explode(F.array("v")))._stage is None
    with pytest.raises(Exception, match="MISSING_GROUP_BY"):
        both.select("k", F.count("v"))


@pytest.mark.parametrize(
    ("delay", "expected_ms"),
    [("1 hour", 3_600_000), ("1 hour 30 minutes", 5_400_000), ("0 seconds", 0), ("interval 2 days", 172_800_000)],
)
def test_a_watermark_delay_is_read_as_spark_reads_it(both: MixedFrame, delay: str, expected_ms: int) -> None:
    """Spark's interval syntax; the column's name is written as the schema writes it."""
    assert both.withWatermark("TS", delay)._watermark == Watermark("ts", expected_ms)


@pytest.mark.parametrize(
    ("column", "delay", "problem"),
    [
        ("tss", "1 hour", "event-time column tss does not exist; did you mean ts?"),
        ("v", "1 hour", "event-time column v is of type bigint; it must be timestamp"),
        ("ts", "an hour", r"delayThreshold 'an hour' of withWatermark is not a duration"),
        ("ts", 10, "delayThreshold of withWatermark must be a str, got 10; use for example"),
        (3, "1 hour", "eventTime of withWatermark must be a str, got 3; use for example"),
        ("ts", "-1 hour", "delayThreshold '-1 hour' of withWatermark is negative"),
    ],
)
def test_a_bad_watermark_is_refused(both: MixedFrame, column: Any, delay: Any, problem: str) -> None:
    """Missing column, wrong type, no duration, negative delay."""
    with pytest.raises(PlanError, match=problem):
        both.withWatermark(column, delay)


def test_a_second_watermark_of_another_column_is_refused(both: MixedFrame, history: DataFrame) -> None:
    """As Spark refuses it, but in its compatibility mode; behind a stage there may be one, and a history alone has none
    in Spark."""
    two = both.withColumn("later", F.col("ts")).withWatermark("ts", "1 hour")
    with pytest.raises(PlanError, match="have a watermark of column ts already, and redefining it is disallowed"):
        two.select("later").withWatermark("later", "2 hours")
    assert two.withWatermark("ts", "2 hours")._watermark == Watermark("ts", 7_200_000)
    assert two.dropDuplicates(["ts"]).withWatermark("later", "1 hour")._watermark == Watermark("later", 3_600_000)
    with session_options(history.sparkSession, {"spark.sql.streaming.statefulOperator.allowMultiple": "false"}):
        assert two.withWatermark("later", "2 hours")._watermark == Watermark("later", 7_200_000)
    alone = read(history=history).withColumn("later", F.col("ts")).withWatermark("ts", "1 hour")
    assert alone.withWatermark("later", "1 hour")._watermark == Watermark("later", 3_600_000)


def test_a_watermark_follows_its_column_through_a_rename(both: MixedFrame) -> None:
    """The watermark is the column's, not the name's."""
    renamed = both.withWatermark("ts", "1 hour").withColumnRenamed("TS", "at")

    assert renamed._watermark == Watermark("at", 3_600_000)


def test_a_watermarked_column_must_still_be_there_at_group_by(both: MixedFrame) -> None:
    """A function that drops it is found when it matters; drop() itself only hides it."""
    timed = both.withWatermark("ts", "1 hour")
    with pytest.raises(PlanError, match="the watermarked column ts is no longer there"):
        timed.transform(lambda frame: frame.drop("ts")).groupBy("k")
    timed.drop("ts").groupBy("k")


def test_a_function_of_batches_loses_the_watermark_as_in_spark(
    both: MixedFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """Its columns are its own, whatever they are called.  What needs no watermark goes on; the log says it."""
    mapped = (
        both.select("k", "ts")
        .withWatermark("ts", "1 hour")
        .mapInPandas(lambda frames: frames, "k string, ts timestamp")
    )
    assert mapped._watermark is None and mapped.columns == ["k", "ts"]
    assert "mapInPandas gives columns of its own: the watermark of ts is lost" in caplog.text
    counts = mapped.groupBy("k", F.window("ts", "1 hour")).count().writeStream.format("noop")
    counts.outputMode("update").plan()
    with pytest.raises(PlanError, match="watermark"):
        counts.outputMode("append").plan()


def test_a_job_needs_no_keyed_stage(both: MixedFrame) -> None:
    """Rows go to the sink as they are, without the columns that are ours; what a sink cannot take is refused."""
    timed = both.withWatermark("ts", "1 hour").withColumn("ts", F.col("ts") + F.expr("INTERVAL 1 DAY"))
    plan = timed.select("k", "v").writeStream.format("noop").plan()
    assert (plan.output_columns, [stage.uid for stage in plan.stages]) == ("k string, v bigint", ["stateless"])
    assert plan._unnamed == "" and plan.warnings == ()
    with pytest.raises(PlanError, match="several columns named k, which format csv cannot have"):
        both.select("k", "k").writeStream.format("csv").plan()
    assert both.select("k", "k").writeStream.format("noop").plan().output_columns == "k string, k string"
    with pytest.raises(PlanError, match="column i of the output is of type interval"):
        both.selectExpr("make_ym_interval(1, 1) AS i").writeStream  # noqa: B018


def test_a_frame_shows_its_columns(both: MixedFrame) -> None:
    """repr and dtypes as on a DataFrame."""
    assert repr(both.select("k", "v")) == "MixedFrame[k: string, v: bigint]"
    assert both.select("k", "v").dtypes == [("k", "string"), ("v", "bigint")]


def test_the_schema_prints_as_a_tree(both: MixedFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """printSchema prints what DataFrame.printSchema prints."""
    both.select("k").printSchema()

    assert "root\n |-- k: string (nullable" in capsys.readouterr().out
