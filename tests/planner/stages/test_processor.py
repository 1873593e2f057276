"""transformWithState: every argument is checked where it is written, and the operator gets what it needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mixedmode import MixedModeError, OperatorCoordinator, PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.stages.frame_settings import frame_settings
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.spec import Settings
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType
from session_options import session_options

OUTPUT = "k string, n long"


class Counter(StatefulProcessor):
    """Counts rows per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=sum(1 for _ in rows))


class WrongTimer(Counter):
    def handleExpiredTimer(self, key: Any, timer_values: Any, info: Any) -> Iterator[Row]:  # type: ignore[override]
        yield from ()


class Unpicklable(Counter):
    def __init__(self) -> None:
        self._lock = threading.Lock()


def planned(frame: MixedFrame, *cols: Any, **changes: Any) -> MixedFrame:
    """transformWithState with good arguments, but for the changes."""
    arguments: dict[str, Any] = {
        "statefulProcessor": Counter(),
        "outputStructType": OUTPUT,
        "outputMode": "append",
        "timeMode": "none",
        **changes,
    }
    return frame.groupBy(*(cols or ("k",))).transformWithState(**arguments)


def operator_of(frame: MixedFrame) -> ProcessorOperator:
    operator = frame._stage.build(frame._stage.uid, "append", Settings())
    assert isinstance(operator, ProcessorOperator)
    return operator


def test_an_output_event_time_needs_a_watermark_somewhere_before(both: MixedFrame) -> None:
    """As in Spark: of the rows, or of a stage that they come through."""
    changes = {"outputStructType": "k string, at timestamp", "eventTimeColumnName": "at"}
    with pytest.raises(PlanError, match="eventTimeColumnName 'at' of transformWithState needs a watermark, as in"):
        planned(both, **changes)
    timed = both.withWatermark("ts", "1 hour")
    assert planned(timed, **changes)._watermark is not None
    assert planned(planned(timed), **changes)._watermark is not None


def test_several_event_times_are_refused_as_in_spark(both: MixedFrame) -> None:
    """A window of the event time is one, too."""
    timed = both.withWatermark("ts", "1 hour").withColumn("w", F.window("ts", "1 hour"))
    with pytest.raises(PlanError, match="transformWithState: more than one event time column is available, ts and w"):
        planned(timed)
    assert planned(timed.drop("w")).columns == ["k", "n"]


def test_the_output_schema_may_be_ddl_or_a_struct_type(both: MixedFrame) -> None:
    """Both say the same."""
    struct = StructType([StructField("k", StringType()), StructField("n", LongType())])

    assert planned(both).schema == planned(both, outputStructType=struct).schema == struct
    assert planned(both).columns == ["k", "n"]
    assert repr(planned(both)) == "MixedFrame[k: string, n: bigint]"


def test_arguments_have_the_order_that_pyspark_has(both: MixedFrame) -> None:
    """A call with positional arguments works unchanged."""
    stage = both.withWatermark("ts", "1 hour").groupBy("k").transformWithState(Counter(), OUTPUT, "Update", "EventTime")

    assert stage._stage.output_mode == "update"
    assert operator_of(stage).time_mode == "eventTime"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"statefulProcessor": Counter}, r"statefulProcessor is the class Counter; give an instance, Counter\(\)"),
        ({"statefulProcessor": object()}, "must be a pyspark.sql.streaming.StatefulProcessor, got object"),
        ({"statefulProcessor": WrongTimer()}, "WrongTimer.handleExpiredTimer is called with keywords key, timerValues"),
        ({"statefulProcessor": Unpicklable()}, "Unpicklable cannot be sent to the tasks .*lock"),
        ({"outputStructType": "k strin g"}, "outputStructType 'k strin g' is not a DDL schema"),
        ({"outputStructType": 5}, "outputStructType must be a StructType or a DDL string .* got 5"),
        ({"outputStructType": StructType([])}, "outputStructType has no columns"),
        ({"outputStructType": "k string, k long"}, "outputStructType has several columns named k"),
        ({"outputStructType": "k string, K long"}, "outputStructType has several columns named K, k"),
        (
            {"outputStructType": "k string, i interval"},
            r"column i of outputStructType is of type interval, which cannot",
        ),
        ({"outputStructType": "k string, c array<char(3)>"}, r"column c of outputStructType is of type array<char"),
        ({"outputMode": "replace"}, "outputMode of transformWithState is 'replace'; use append, update or complete"),
        ({"outputMode": None}, "outputMode of transformWithState is None"),
        ({"timeMode": "wallclock"}, "timeMode is 'wallclock'; use none, processingTime or eventTime"),
        ({"timeMode": "eventTime"}, r"timeMode eventTime needs an event time; call withWatermark"),
        ({"eventTimeColumnName": "m"}, "eventTimeColumnName m does not exist"),
        ({"eventTimeColumnName": "n"}, "event-time column n is of type bigint"),
        ({"initialState": 5}, "initialState must be a grouped batch DataFrame .* got int"),
    ],
)
def test_a_bad_argument_is_refused_by_name(both: MixedFrame, changes: dict[str, Any], problem: str) -> None:
    """The error names the argument, the value, and what is allowed."""
    with pytest.raises(PlanError, match=problem):
        planned(both, **changes)


@pytest.mark.parametrize("method", ["init", "handleInputRows", "handleExpiredTimer", "handleInitialState", "close"])
def test_an_async_method_is_refused(both: MixedFrame, method: str) -> None:
    """A call of it does nothing."""

    async def awaited(self: Any, *given: Any, **named: Any) -> None:
        pass

    kind = type("Awaited", (Counter,), {method: awaited})
    with pytest.raises(
        PlanError, match=rf"^Awaited\.{method} is an async function: a call does not run its body; make"
    ):
        planned(both, statefulProcessor=kind())


@pytest.mark.parametrize("method", ["handleEvent", "endInput", "handleArrowRows", "snapshotShard"])
def test_an_async_method_of_ours_is_refused(both: MixedFrame, method: str) -> None:
    """One of the same name that we do not call is the user's own affair."""

    async def awaited(self: Any) -> None:
        pass

    async def own(self: Any, wanted: Any) -> None:
        pass

    with pytest.raises(PlanError, match=f"{method} is an async function"):
        planned(both, statefulProcessor=type("Awaited", (Counter,), {method: awaited})())
    planned(both, statefulProcessor=type("Own", (Counter,), {"endInput": own})())


@pytest.mark.parametrize("method", ["init", "close"])
def test_a_method_whose_rows_nobody_takes_must_not_yield(both: MixedFrame, method: str) -> None:
    """A generator's body does not run until somebody takes what it yields."""
    yielding = type("Yielding", (Counter,), {method: lambda self, *given: (yield)})
    with pytest.raises(PlanError, match=rf"^Yielding\.{method} is a generator function: .*without yield"):
        planned(both, statefulProcessor=yielding())


def test_an_async_method_of_a_coordinator_is_refused(both: MixedFrame) -> None:
    """It runs in the driver, and not in an event loop."""

    class Awaited(OperatorCoordinator):
        async def open(self, context: Any) -> None:  # type: ignore[override]
            pass

    with pytest.raises(PlanError, match=r"^Awaited\.open is an async function"):
        planned(both, coordinator=Awaited())


def test_a_session_window_cannot_be_a_processors_key(both: MixedFrame) -> None:
    """Its extent is known only after all rows."""
    with pytest.raises(PlanError, match="session window cannot be a key of transformWithState"):
        planned(both, F.session_window("ts", "5 minutes"))


def test_the_operator_gets_plain_key_columns_as_they_are(both: MixedFrame) -> None:
    """Key columns by name; rows have the user's columns."""
    timed = both.withWatermark("ts", "1 hour")
    stage = planned(timed, "K", "v", timeMode="eventTime")
    operator = operator_of(stage)

    assert operator.key_columns == ("k", "v")
    assert [str(field.type) for field in operator.key_schema] == ["string", "int64"]
    assert operator.input_schema == timed.schema
    assert operator.event_time == "ts"
    assert operator.uses_event_time
    assert stage._stage.inputs.history is not None
    assert stage._stage.inputs.history.columns == both.columns


def test_the_operator_gets_a_column_for_each_computed_key(both: MixedFrame) -> None:
    """The inputs have it, the processor's rows do not; the key keeps its label in the description."""
    stage = planned(both, F.upper("k").alias("key"), "x")
    operator = operator_of(stage)

    assert operator.key_columns == ("__key_0", "__key_1")
    assert operator.key_schema.names == ["key", "x"]
    assert operator.input_schema == both.schema
    for frame in (stage._stage.inputs.history, stage._stage.inputs.live):
        assert frame is not None
        assert frame.columns == [*both.columns, "__key_0", "__key_1"]


def test_a_computed_key_must_work_on_both_inputs(both: MixedFrame, history: DataFrame) -> None:
    """A column of history alone is refused with the reason."""
    with pytest.raises(PlanError, match="groupBy works on history but not on live"):
        planned(both, history["v"] + 1)


def test_initial_state_is_rows_and_the_names_of_its_keys(both: MixedFrame, spark: SparkSession) -> None:
    """The keys may have other names than the stage's, but must have the same types."""
    initial = spark.sql("select 'a' as plane, 5L as n")

    operator = operator_of(planned(both, initialState=initial.groupBy("plane")))

    assert operator.initial is not None and operator.initial.frame is not None
    assert operator.initial.frame.columns == ["plane", "n"]
    assert operator.initial.key_columns == ("plane",)


def test_initial_state_must_fit(both: MixedFrame, live: DataFrame, spark: SparkSession) -> None:
    """Batch, grouped by columns of the stage's key types."""
    initial = spark.sql("select 'a' as plane, 5L as n")
    for grouped, problem in [
        (initial.groupBy("n"), r"initialState is grouped by \(bigint\), the stage by \(string\)"),
        (initial.groupBy(F.upper("plane")), r"grouped by upper\(plane\), which is not one of its columns"),
        (live.groupBy("k"), "initialState is a streaming DataFrame"),
        (initial, "got DataFrame"),
    ]:
        with pytest.raises(PlanError, match=problem):
            planned(both, initialState=grouped)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("applyInPandas", "use transformWithState or agg"),
        ("applyInArrow", "use transformWithState or agg"),
    ],
)
def test_what_is_not_there_says_what_to_use(both: MixedFrame, name: str, hint: str) -> None:
    """Other methods of GroupedData are refused by name."""
    with pytest.raises(PlanError, match=f"{name} is not supported.*{hint}"):
        getattr(both.groupBy("k"), name)()


def test_the_variant_in_pandas_is_planned_alike(both: MixedFrame, spark: SparkSession) -> None:
    """Same checks, same identity; how frames look is what the session says when the job is planned."""
    both.groupBy("k").transformWithStateInPandas(Counter(), OUTPUT, "append", "none")
    with pytest.raises(PlanError, match="outputMode of transformWithStateInPandas is 'x'"):
        both.groupBy("k").transformWithStateInPandas(Counter(), OUTPUT, "x", "none")
    with pytest.raises(PlanError, match="a session window cannot be a key of transformWithStateInPandas"):
        both.groupBy(F.session_window("ts", "5 minutes")).transformWithStateInPandas(
            Counter(), OUTPUT, "append", "none"
        )
    confs = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2m",
        "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName": "false",
        "spark.sql.execution.pandas.convertToArrowArraySafely": "true",
    }
    with session_options(spark, confs):
        assert frame_settings(spark) == FrameSettings("Asia/Tokyo", 7, 2 << 20, by_name=False, safe=True)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")
        assert frame_settings(spark).max_rows == 2**31 - 1


class Deaf(OperatorCoordinator):
    """A coordinator whose event types are not dataclasses."""

    eventTypes = (int,)


@pytest.mark.parametrize(
    ("coordinator", "message"),
    [
        (
            OperatorCoordinator,
            r"coordinator is the class OperatorCoordinator; give an instance, OperatorCoordinator\(\)",
        ),
        (Counter(), "coordinator must be a mixedmode.OperatorCoordinator, got Counter"),
        (Deaf(), "eventTypes of Deaf lists <class 'int'>, which is not a dataclass"),
    ],
)
def test_coordinator_is_checked(both: MixedFrame, coordinator: Any, message: str) -> None:
    """A coordinator must be an instance whose event types are dataclasses."""
    with pytest.raises(MixedModeError, match=message):
        planned(both, coordinator=coordinator)


def test_agg_takes_no_coordinator(both: MixedFrame) -> None:
    """Only a processor handles events; other unknown arguments of agg are errors as ever."""
    with pytest.raises(PlanError, match=r"agg\(\) takes no coordinator: .*; use transformWithState"):
        both.groupBy("k").agg(F.count("*"), coordinator=OperatorCoordinator())
    with pytest.raises(TypeError, match="unexpected keyword argument 'coord'"):
        both.groupBy("k").agg(F.count("*"), coord=1)


def test_coordinator_is_explained(both: MixedFrame, tmp_path: Path) -> None:
    """explain() names the coordinator and says when it hears of a backlog; the job's identity does not know it."""
    frames = [planned(both, coordinator=OperatorCoordinator()), planned(both)]
    plans = [
        frame.writeStream.option("checkpointLocation", str(tmp_path / "c")).option("path", str(tmp_path / "o")).plan()
        for frame in frames
    ]
    said = "OperatorCoordinator, in the driver: exchanges events with the processors of the shards"
    assert said in plans[0].explain()
    assert "reaches it at the switch" in " ".join(plans[0].explain().split())
    assert said not in plans[1].explain()
    assert plans[0].operator == plans[1].operator
