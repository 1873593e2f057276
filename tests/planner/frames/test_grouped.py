"""agg and its short forms: the same columns as Spark's GroupedData, and errors where the expressions are written."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.spec import Settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@pytest.mark.parametrize(
    "call",
    [
        lambda grouped: grouped.agg(F.sum("v").alias("s"), F.count("*"), F.max("ts")),
        lambda grouped: grouped.agg({"v": "sum", "*": "count"}),
        lambda grouped: grouped.agg({"v": "max", "x": "avg"}),
        lambda grouped: grouped.agg({"tags.t": "sum", "v": "mean", "X": "STD", "k": "size", "ts": "max"}),
        lambda grouped: grouped.count(),
        lambda grouped: grouped.sum("v", "x"),
        lambda grouped: grouped.sum(),
        lambda grouped: grouped.avg("v"),
        lambda grouped: grouped.mean("x"),
        lambda grouped: grouped.min("v"),
        lambda grouped: grouped.max(),
    ],
)
def test_an_aggregate_has_the_columns_that_spark_gives_it(both: MixedFrame, history: DataFrame, call: Any) -> None:
    """Names and types of the result, keys first, are those of the same call on a DataFrame."""
    ours, sparks = call(both.groupBy("k")), call(history.groupBy("k"))

    assert ours.dtypes == sparks.dtypes


def test_a_key_in_another_case_has_the_name_that_spark_gives_it(both: MixedFrame, history: DataFrame) -> None:
    """groupBy("K") on a column k gives K."""
    assert both.groupBy("K").count().columns == history.groupBy("K").count().columns == ["K", "count"]


@pytest.mark.parametrize(
    ("aggregates", "named"),
    [
        (lambda: [F.sum("v").alias("k")], "k"),
        (lambda: [F.sum("v").alias("K")], "K, k"),
        (lambda: [(F.sum("v") / F.count("*")).alias("k")], "k"),
        (lambda: [F.sum("v").alias("s"), F.max("v").alias("s")], "s"),
        (lambda: [F.sum("v"), F.sum("v")], r"sum\(v\)"),
    ],
)
def test_two_columns_of_one_name_are_refused(both: MixedFrame, aggregates: Any, named: str) -> None:
    """A key and an aggregate, or two aggregates, that Spark could neither write nor read are an error when planned."""
    with pytest.raises(PlanError, match=f"several columns named {named}; rename"):
        both.groupBy("k").agg(*aggregates())


def test_structs_with_fields_of_one_name_are_refused_by_files_alone(both: MixedFrame) -> None:
    """Spark could neither write nor read them where it does not tell cases apart."""
    fields = F.struct(F.col("v").alias("a"), F.col("v").alias("A"))
    writer = both.groupBy("k").agg(F.max(fields).alias("both")).writeStream.outputMode("update")
    assert "both struct<a:bigint,A:bigint>" in writer.format("console").plan().output_columns
    with pytest.raises(PlanError, match="column both of the output has structs with two fields named a, which table t"):
        writer.option("checkpointLocation", "/tmp/x").toTable("t")


def test_a_window_key_gives_the_columns_that_spark_gives(both: MixedFrame, history: DataFrame) -> None:
    """The window is a struct of start and end."""
    ours = both.withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 hour"), "k").count()

    assert ours.dtypes == history.groupBy(F.window("ts", "1 hour"), "k").count().dtypes


def test_the_operator_is_built_for_the_writers_output_mode(both: MixedFrame) -> None:
    """The output mode is known only at the writer; the operator's schema is the frame's."""
    frame = both.withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 hour")).agg(F.sum("v").alias("s"))

    for mode in ("append", "update"):
        operator = frame._stage.build(frame._stage.uid, mode, Settings())
        assert operator.output_schema.simpleString() == frame.schema.simpleString()
        assert operator.uses_event_time
    assert frame._stage.output_mode is None


def test_a_plan_of_an_aggregate_names_its_results(both: MixedFrame) -> None:
    """The writer takes update where append would wait for a watermark."""
    frame = both.groupBy("k").agg(F.sum("v").alias("s"))

    plan = frame.writeStream.format("noop").outputMode("update").plan()

    assert plan.output_mode == "update"
    assert plan.output_columns == "k string, s bigint"
    assert "  aggregates      s" in str(plan).splitlines()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda grouped: grouped.agg(), r"agg\(\) got no expression"),
        (lambda grouped: grouped.agg("v"), r"agg\(\) takes column functions or one dict, got 'v' \(str\)"),
        (lambda grouped: grouped.agg(F.sum("w")), "`w`"),
        (lambda grouped: grouped.agg(F.col("v")), "v"),
        (lambda grouped: grouped.agg({"w": "sum"}), "`w`"),
        (lambda grouped: grouped.sum("w"), r"column of sum\(\) w does not exist; the columns are k, v"),
        (lambda grouped: grouped.sum("ts"), r"column ts of sum\(\) is of type timestamp, which is not numeric"),
        (lambda grouped: grouped.agg(F.histogram_numeric("v", F.lit(3))), "histogram_numeric"),
    ],
)
def test_a_bad_aggregate_is_refused_where_it_is_written(both: MixedFrame, call: Any, problem: str) -> None:
    """Missing columns, expressions that aggregate nothing, functions that are not supported."""
    with pytest.raises(PlanError, match=problem):
        call(both.groupBy("k"))


def test_append_without_a_window_needs_an_end(both: MixedFrame, history: DataFrame) -> None:
    """A group is final only at the end of input: with a live source there is none, in batch mode and alone there is."""
    writer = both.groupBy("k").count().writeStream.format("noop")

    with pytest.raises(PlanError, match=r"outputMode append .* use outputMode update"):
        writer.plan()
    assert writer.option("execution.runtime-mode", "batch").plan().output_mode == "append"
    assert read(history=history).groupBy("k").count().writeStream.format("noop").plan().output_mode == "append"


def test_no_numeric_column_is_refused(both: MixedFrame) -> None:
    """``sum()`` of strings has nothing to do."""
    with pytest.raises(PlanError, match=r"sum\(\) found no numeric column; the columns are k"):
        both.select("k").groupBy("k").sum()


def test_a_path_goes_before_a_column_of_the_whole_name(spark: SparkSession) -> None:
    """``frame["st.s"]`` and ``pivot("st.s")`` are the field of the struct, as in Spark."""
    history = spark.sql("select named_struct('s', 1) as st, 'x' as `st.s`, 2 as v")
    frame = read(history=history)
    assert frame.select(frame["st.s"]).dtypes == history.select(history["st.s"]).dtypes
    grouped = frame.groupBy("v").pivot("st.s", [1])
    assert grouped._pivot is not None
    assert grouped._pivot.column == "st.s"
