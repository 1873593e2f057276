"""cogroup: two groupings become one stage of a processor with two iterators; what does not fit says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.stages.stage import ANY_EPOCH
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.spec import Settings
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType

OUTPUT = "k string, n long"


class Two(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, left: Any, right: Any, timerValues: Any) -> Iterator[Row]:
        yield from ()


class One(Two):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # type: ignore[override]
        yield from ()


class Keys(Two):
    def handleInputRows(self, key: Any) -> Iterator[Row]:  # type: ignore[override]
        yield from ()


class Whatever(Two):
    def handleInputRows(self, *given: Any) -> Iterator[Row]:
        yield from ()


@pytest.fixture
def payments(live: DataFrame) -> MixedFrame:
    return read(live=live.selectExpr("v AS amount", "ts AS paid", "k AS customer"))


def cogrouped(left: Any, right: Any, processor: Any = None, time_mode: str = "none", **more: Any) -> MixedFrame:
    return left.cogroup(right).transformWithState(processor or Two(), OUTPUT, "append", time_mode, **more)


def operator_of(frame: MixedFrame) -> ProcessorOperator:
    operator = frame._stage.build("stage", "append", Settings())
    assert isinstance(operator, ProcessorOperator)
    return operator


def test_the_stage_takes_both_sides_in_one_frame(both: MixedFrame, payments: MixedFrame) -> None:
    """Keys are called as on the left side; each side has its own columns and delay; in order, a call's rows come side
    by side within one event time, else within the key."""
    orders = both.withWatermark("ts", "1 hour")
    frame = cogrouped(
        orders.groupBy(F.upper("k").alias("K")),
        payments.withWatermark("paid", "1 minute").groupBy("customer"),
        time_mode="eventTime",
    )
    operator, stage = operator_of(frame), frame._stage
    assert operator.key_columns == ("__k0",)
    assert operator.key_schema.names == ["K"]
    assert operator.uses_event_time and operator.event_time == "__time"
    assert [part.name for part in stage.inputs.parts] == ["history", "live-1", "live-2"]
    assert stage.watermark is not None
    assert [stage.watermark.delay_of(name) for name in ("live-1", "live-2")] == [3_600_000, 60_000]
    assert [side.fieldNames() for side in operator.form.schemas] == [both.columns, payments.columns]  # type: ignore[attr-defined]
    epoch = replace(ANY_EPOCH, in_order=InOrder(0, 0))
    assert operator.order_in(epoch) == ("__time", "__side")
    assert operator.order_in(ANY_EPOCH) == ("__side", "__time")
    history = stage.inputs.history
    assert history is not None
    rows = operator.prepare(history, ANY_EPOCH)
    assert [row["__k0"] for row in rows.orderBy("__k0").collect()] == ["A", "B"]
    assert operator.fingerprint() is not None
    assert "of two inputs" in operator.describe()["processor"]


def test_late_rows_say_which_side_they_are_of(both: MixedFrame, payments: MixedFrame, spark: SparkSession) -> None:
    """With their columns in a struct; the other one is null."""
    orders = both.withWatermark("ts", "1 hour").groupBy("k")
    paid = spark.sql("select 5L as amount, timestamp'2020-01-01 12:00:00' as paid, 'a' as customer")
    right = read(history=paid).withWatermark("paid", "1 minute").groupBy("customer")
    frame = cogrouped(orders, right, time_mode="eventTime")
    assert frame._stage.inputs.history is not None
    bound_ms = 1000 * spark.sql("select unix_timestamp(timestamp'2020-01-02 00:00:00')").first()[0]
    late = operator_of(frame).late_rows(frame._stage.inputs.history, replace(ANY_EPOCH, late_watermark_ms=bound_ms))
    assert late is not None
    assert late.schema.fieldNames() == frame._stage.input_schema.fieldNames() == ["side", "left", "right"]
    found = [(row.side, row.left and row.left.k, row.right and row.right.amount) for row in late.collect()]
    assert sorted(found) == [("left", "a", None), ("right", None, 5)]


def test_keys_of_different_types_meet_in_one_that_holds_both(both: MixedFrame, payments: MixedFrame) -> None:
    """An int and a bigint are one key; a text is never a number."""
    narrow = payments.withColumn("amount", F.col("amount").cast("int"))
    for left, right in ((both.groupBy("v"), narrow.groupBy("amount")), (narrow.groupBy("amount"), both.groupBy("v"))):
        operator = operator_of(cogrouped(left, right))
        assert [str(field.type) for field in operator.key_schema] == ["int64"]
    with pytest.raises(PlanError, match="key 2 is v bigint on the left side and customer string on the right side"):
        cogrouped(both.groupBy("k", "v"), payments.groupBy(F.upper("customer"), "customer"))
    with pytest.raises(PlanError, match="grouped by k string, v bigint, the right side by customer string; group both"):
        cogrouped(both.groupBy("k", "v"), payments.groupBy("customer"))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda a, b: a.groupBy("k").cogroup(b), r"cogroup takes what groupBy gives.*got MixedFrame"),
        (lambda a, b: cogrouped(a.groupBy("k"), b.groupBy("customer"), One()), "One.handleInputRows is called with key,"
         " left, right, timerValues, which it does not take .*it is a processor of one input; behind cogroup it gets"),
        (lambda a, b: cogrouped(a.groupBy("k"), b.groupBy("customer"), Keys()), "is called with key, left, right"),
        (lambda a, b: a.groupBy("k").transformWithState(Two(), OUTPUT, "append", "none"),
         "which it does not take .*processor of two inputs; .*cogroup"),
        (lambda a, b: cogrouped(a.groupBy("k"), b.groupBy("customer"), time_mode="eventTime"),
         "withWatermark.* before groupBy of one side, or of both"),
        (lambda a, b: cogrouped(a.groupBy(F.session_window("ts", "1 hour")), b.groupBy("customer")), "session window"),
        (lambda a, b: a.groupBy("k").cogroup(b.rollup("customer")), "cogroup is not supported after rollup"),
        (lambda a, b: a.groupBy("k").pivot("v", [1]).cogroup(b.groupBy("customer")), "not supported after pivot"),
        (lambda a, b: a.groupBy("k").cogroup(b.groupBy("customer")).applyInPandas(len, OUTPUT),
         "applyInPandas behind cogroup is not supported.*use transformWithStateInPandas"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_what_to_do(
    both: MixedFrame, payments: MixedFrame, make: Callable[[MixedFrame, MixedFrame], Any], problem: str
) -> None:
    """When it is written."""
    with pytest.raises(PlanError, match=problem):
        make(both, payments)


def test_plain_frames_are_to_be_read_first(both: MixedFrame, history: DataFrame, live: DataFrame) -> None:
    """Spark's own groupings are no side."""
    for frame, instead in ((history, "history=frame"), (live, "live=frame")):
        with pytest.raises(PlanError, match=rf"mixedmode.read\({instead}\)"):
            both.groupBy("k").cogroup(frame.groupBy("k"))  # type: ignore[arg-type]


def test_windows_are_keys_and_initial_state_comes_first(
    both: MixedFrame, payments: MixedFrame, spark: SparkSession
) -> None:
    """In the first epoch its rows are before those of either side; their keys are by name what the left side's are."""
    hours = F.window("ts", "1 hour").alias("w")
    left = both.withWatermark("ts", "1 hour").groupBy("k", hours)
    right = payments.withWatermark("paid", "1 minute").groupBy("customer", F.window("paid", "1 hour"))
    old = spark.sql("select 'a' as k, timestamp'2020-01-01 00:30:00' as ts").select("k", hours, F.lit(7).alias("kept"))
    frame = cogrouped(left, right, initialState=old.groupBy("k", "w"), time_mode="eventTime")
    operator, history = operator_of(frame), frame._stage.inputs.history
    assert history is not None
    rows = operator.prepare(history, replace(ANY_EPOCH, first=True)).orderBy("__row_kind", "__k0").collect()
    assert [(row["__row_kind"], row["__k0"], row["__side"]) for row in rows] == [
        (0, "a", None),
        (1, "a", 0),
        (1, "b", 0),
    ]
    assert rows[0]["__k1"] == rows[1]["__k1"]
    assert rows[0]["__initial_state"]["kept"] == 7
    assert operator.order_in(ANY_EPOCH) == ("__row_kind", "__side", "__time")
    assert operator.key_schema.names == ["k", "w"]


def test_any_signature_that_takes_the_call_is_right(both: MixedFrame, payments: MixedFrame) -> None:
    """And a frame may be both sides."""
    cogrouped(both.groupBy("k"), payments.groupBy("customer"), Whatever())
    both.groupBy("k").transformWithState(Whatever(), OUTPUT, "append", "none")
    twice = cogrouped(both.groupBy("k"), both.where("v > 0").groupBy("k"))
    assert [part.name for part in twice._stage.inputs.lives] == ["live-1", "live-2"]


def test_the_switch_waits_for_the_other_input(both: MixedFrame, payments: MixedFrame, tmp_path: Any) -> None:
    """MAX_WATERMARK would have all that waits give up, so auto is observed; who asks for max gets it."""
    frame = cogrouped(
        both.withWatermark("ts", "1 hour").groupBy("k"),
        payments.withWatermark("paid", "1 hour").groupBy("customer"),
        time_mode="eventTime",
    )
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    plan = writer.option("checkpointLocation", str(tmp_path / "ckpt")).plan()
    assert (plan.stages[0].final_watermark, plan.settings.timers) == ("observed", "in-order")
    told = " ".join(str(plan).split())
    assert "auto, as event-time timers that straddle the switch must fire once" in told
    assert "Two of two inputs" in told
    asked = writer.option("execution.backlog.final-watermark", "max").plan()
    assert asked.stages[0].final_watermark == "max"


def test_frames_are_planned_alike(both: MixedFrame, payments: MixedFrame) -> None:
    """Two iterators of pandas frames; the output is what it is declared to be."""
    frame = both.groupBy("k").cogroup(payments.groupBy("customer"))
    planned = frame.transformWithStateInPandas(Two(), OUTPUT, "append", "none")
    assert operator_of(planned).describe()["processor"] == "Two of two inputs on pandas frames"
    assert [field.dataType for field in planned.schema.fields] == [StringType(), LongType()]
