"""What comes out of a keyed stage is a MixedFrame: a template with its columns, and the steps that are done to them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.event_time import Watermark
from mixedmode.planner.stages.stage import stages_of
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Echo(StatefulProcessor):
    """One row for each row."""

    def init(self, handle: StatefulProcessorHandle) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield from ()


def windowed(frame: MixedFrame) -> MixedFrame:
    return frame.withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 hour"), "k").agg(F.sum("v").alias("s"))


def test_steps_are_checked_at_once_and_done_to_rows_later(both: MixedFrame, spark: SparkSession) -> None:
    """The template has the columns of the result; the steps, done to rows of the stage, give what Spark gives."""
    result = both.groupBy("k").agg(F.sum("v").alias("s")).where("s > 1").withColumn("t", F.col("s") * 2).drop("k")

    [part] = result._inputs.parts
    rows = spark.createDataFrame([("a", 1), ("b", 5)], "k string, s long")
    assert result.columns == part.frame.columns == ["s", "t"]
    assert [tuple(row) for row in reduce(lambda frame, step: step(frame), part.steps, rows).collect()] == [(5, 10)]
    with pytest.raises(Exception, match="nope"):
        result.select("nope")


def test_a_stage_over_a_stage_is_described(both: MixedFrame) -> None:
    """The inputs of the second stage are the output of the first, with what was done in between; each stage once."""
    first = windowed(both).uid("first")
    second = first.where("s > 1").groupBy(F.window(F.window_time("window"), "1 day")).agg(F.max("s").alias("m"))

    [part] = second._stage.inputs.parts  # type: ignore[union-attr]
    assert [stage.uid for stage in stages_of(second._inputs)] == ["first", "keyed-0"]
    assert stages_of(second._inputs)[0] is part.origin is first._stage
    assert len(stages_of(first.union(first)._inputs)) == 1
    assert second.isStreaming
    plan = second.writeStream.format("noop").plan()
    assert [(stage.uid, stage.is_named, stage.reads) for stage in plan.stages] == [
        ("first", True, ("history", "live")),
        ("keyed-1", False, ("first",)),
    ]


def test_a_later_stage_needs_an_end_of_its_groups_as_a_first_one_does(both: MixedFrame, history: DataFrame) -> None:
    """A window over what is computed of event time has none that the watermark could reach; a bounded job has one."""

    def later(rows: MixedFrame) -> MixedFrame:
        moved = windowed(rows).withColumn("t", F.window_time("window") - F.expr("interval 5 hours"))
        return moved.groupBy(F.window("t", "1 hour")).agg(F.sum("s").alias("s"))

    with pytest.raises(PlanError, match="no key is made of the watermark's column"):
        later(both).writeStream.format("noop").plan()
    assert later(read(history=history)).writeStream.format("noop").plan().output_mode == "append"
    assert later(both).writeStream.format("noop").outputMode("update").plan().output_mode == "update"


def test_the_watermark_of_an_output_is_its_event_time(both: MixedFrame, history: DataFrame) -> None:
    """The window, the column or what the processor names; else there is none.  It is kept as before a stage."""
    timed = both.withWatermark("ts", "1 hour")
    arguments: dict[str, Any] = {"outputStructType": "k string, at timestamp", "outputMode": "append"}

    def processed(**changes: Any) -> MixedFrame:
        return timed.groupBy("k").transformWithState(Echo(), timeMode="eventTime", **arguments, **changes)

    assert windowed(both)._watermark == Watermark("window", 0, declared_ms=3_600_000)
    assert timed.groupBy("ts", "k").count()._watermark == Watermark("ts", 0, declared_ms=3_600_000)
    assert timed.groupBy("k").count()._watermark is None
    assert processed()._watermark is None
    assert processed(eventTimeColumnName="at")._watermark == Watermark("at", 0, declared_ms=3_600_000)

    kept = windowed(both).select(F.col("window").alias("w"), "s").groupBy("w").agg(F.max("s"))
    assert kept._watermark == Watermark("w", 0, declared_ms=3_600_000)
    gone = windowed(both).select("k", "s")
    assert gone._watermark is not None
    assert (gone.columns, gone._watermark.event_time) == (["k", "s"], "__event_time")
    assert gone._inputs.template.schema["__event_time"].dataType.simpleString() == "timestamp"
    assert gone.writeStream._output.template.columns == ["k", "s"]
    assert not read(history=history).groupBy("k").count().isStreaming


def test_a_function_that_keeps_state_is_given_the_rows_of_the_stage(both: MixedFrame, history: DataFrame) -> None:
    """What it makes is a stage behind that one; one that joins a static frame keeps none, whatever that is made of."""
    counted = both.groupBy("k").count()
    unique = counted.transform(lambda frame: frame.dropDuplicates(["k"]))
    assert unique._stage is not None and unique._stage is not counted._stage
    static = history.groupBy("k").agg(F.max("v").alias("top"))
    counted.transform(lambda frame: frame.join(static, "k")).writeStream  # noqa: B018


def test_a_stage_is_named_right_behind_it(both: MixedFrame) -> None:
    """Elsewhere it is not clear which stage is meant."""
    with pytest.raises(PlanError, match=r"uid\('x'\) names a keyed stage; call it right after agg"):
        both.uid("x")
    with pytest.raises(PlanError, match=r"uid\('x'\) names a keyed stage; call it right after agg"):
        both.groupBy("k").count().select("k").uid("x")
    assert both.groupBy("k").count().uid("x")._stage.uid == "x"  # type: ignore[union-attr]
    assert both.groupBy("k").count().uid("x").uid("x")._stage.uid == "x"  # type: ignore[union-attr]
    with pytest.raises(PlanError, match=r"uid..y.. names a keyed stage that is called 'x' already"):
        both.groupBy("k").count().uid("x").uid("y")


def test_columns_may_be_chosen_behind_a_limit(both: MixedFrame) -> None:
    """Where the result is shown; naming all of them changes nothing, and what may differ each time is refused."""
    five = both.groupBy("k").count().orderBy("count").limit(5)

    assert five.select("k", "count") is five.select("*") is five
    for columns in (["count"], ["count", "k"], [F.col("k"), F.col("count")]):
        assert five.select(columns).columns == both.groupBy("k").count().select(columns).columns
    assert five.where("count > 1").withColumn("more", F.col("count") + 1).drop("k").columns == ["count", "more"]
    for refused in (lambda: five.select(F.rand()), lambda: five.select("k").distinct(), lambda: five.groupBy("k")):
        with pytest.raises(PlanError, match="comes after "):
            refused()
