"""Two sides in one frame: columns, keys and event times as Spark's joins see them, and what moves the watermark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from mixedmode import read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.sides import JoinSides, Side, united_sides
from mixedmode.planner.stages.stage import ANY_EPOCH
from mixedmode.runtime.operators.join.columns import SIDE_COLUMN, TIME_COLUMN
from mixedmode.runtime.spec import StageEdge, StageSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType

pytestmark = pytest.mark.spark


def side(frame: MixedFrame, *keys: Any) -> Side:
    rows = frame._stage_input("join")
    return Side(rows.inputs, rows.watermark, rows.schema, tuple(map(F.col, keys)))


def united(left: MixedFrame, right: MixedFrame, key: str = "k") -> JoinSides:
    return united_sides(side(left, key), side(right, key), [StringType()], "join")


@pytest.fixture
def payments(live: DataFrame) -> DataFrame:
    return live.select(F.col("k").alias("k"), F.col("v").alias("amount"), F.col("ts").alias("paid"))


def test_a_row_has_its_key_its_side_its_time_and_the_columns_of_both(spark: SparkSession) -> None:
    """A time without a zone counts as if it were of UTC; keys are what both sides are compared as, with one zero."""
    at = "timestamp'2024-03-10 10:00:00'"
    left = read(spark.sql(f"SELECT -0.0D AS k, 1L AS v, {at} AS ts")).withWatermark("ts", "1 hour")
    ntz = "timestamp_ntz'2024-03-10 02:30:00.000001'"
    right = read(spark.sql(f"SELECT 'x' AS c, 0 AS k, {ntz} AS at")).withWatermark("at", "2 hours")
    both = united_sides(side(left, "k"), side(right, "k"), [DoubleType()], "join")
    history = both.inputs.history
    assert history is not None
    columns = ["__k0", SIDE_COLUMN, TIME_COLUMN, "__l0", "__l1", "__l2", "__r0", "__r1", "__r2"]
    assert history.columns == columns
    mine, theirs = history.selectExpr("*", "unix_micros(__time) us").orderBy(SIDE_COLUMN).collect()
    assert str(mine["__k0"]) == str(theirs["__k0"]) == "0.0", "cast to what both are compared as"
    assert mine["us"] == spark.sql(f"SELECT unix_micros({at})").first()[0]
    assert dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(microseconds=theirs["us"]) == dt.datetime(
        2024, 3, 10, 2, 30, 0, 1, dt.timezone.utc
    )
    assert (mine["__l1"], mine["__r0"], theirs["__l1"], theirs["__r0"]) == (1, None, None, "x")
    windows = left.select("k", F.window("ts", "1 hour").alias("w"))
    last = united_sides(side(windows, "k"), side(right, "k"), [LongType()], "join").inputs.history
    assert last is not None
    [carried] = last.where("__side = 0").selectExpr("unix_micros(__time)").collect()
    assert carried[0] == mine["us"], "the watermark's column need not be among the rows' any more"


def test_each_input_keeps_the_delay_of_its_side(history: DataFrame, live: DataFrame, payments: DataFrame) -> None:
    """And the name that both sides' rows go by; one without a watermark is named, but has none."""
    orders = read(history, live).withWatermark("ts", "1 hour")
    paid = read(live=payments).withWatermark("paid", "10 minutes")
    watermark = united(orders, paid).watermark
    assert watermark is not None
    assert (watermark.event_time, watermark.label) == (TIME_COLUMN, "ts and paid")
    assert [watermark.delay_of(name) for name in ("live-1", "live-2")] == [3_600_000, 600_000]
    bare = united(orders, read(live={"payments": payments})).watermark
    assert bare is not None
    assert bare.without == {"payments"}
    assert united(read(history), read(live=payments)).watermark is None


def test_the_sides_of_one_read_are_two_inputs(live: DataFrame) -> None:
    """Even if the user has given them one name: each has its own event times."""
    events = read(live={"events": live})
    both = united(events.withWatermark("ts", "1 hour").filter("v > 1"), events.withWatermark("ts", "1 minute"))
    assert [part.name for part in both.inputs.lives] == ["events", "events-2"]
    assert both.watermark is not None
    assert dict(both.watermark.delays_ms) == {"events": 3_600_000, "events-2": 60_000}


def test_stages_are_sides_beside_sources(both: MixedFrame, live: DataFrame, payments: DataFrame) -> None:
    """Two that nobody has named are told apart, and steps keep what the runtime adds to rows."""
    hours = both.withWatermark("ts", "1 hour").groupBy("k", F.window("ts", "1 hour").alias("w")).count()
    days = both.withWatermark("ts", "1 hour").groupBy("k", F.window("ts", "1 day").alias("w")).count()
    sides = united(hours, days)
    assert sides.watermark is not None
    assert {name for name, _ in sides.watermark.delays_ms} == {part.name for part in sides.inputs.parts}
    assert len(sides.inputs.outputs) == 2
    mixed = united(hours, read(live=payments))
    assert mixed.watermark is not None
    assert mixed.watermark.without == {"live"}
    output = mixed.inputs.outputs[0]
    handed_on = output.origin.template.withColumn("__emitted_ms", F.lit(1)) if output.origin else None
    assert handed_on is not None
    for step in output.steps:
        handed_on = step.keeping(handed_on, "__emitted_ms")
    assert handed_on.columns[-1] == "__emitted_ms"


def test_what_moves_the_watermark_is_told_apart() -> None:
    """Live inputs without event time, and a history of another read, have one beside them looked at by itself."""
    operator: Any = ANY_EPOCH

    def spec(**changes: Any) -> StageSpec:
        return StageSpec(operator, "__time", 0, **changes)

    alone = spec(delays_ms={"a": 0})
    assert not alone.tells_inputs_apart and not alone.needs_input_column
    for beside in (spec(delays_ms={"a": 0}, timeless=("b",)), spec(delays_ms={"a": 0}, has_lone_history=True)):
        assert beside.tells_inputs_apart and beside.needs_input_column
    history_leads = spec(timeless=("b",), has_lone_history=True)
    assert not history_leads.tells_inputs_apart and not history_leads.needs_input_column
    edges = (StageEdge("s"), StageEdge("t", has_watermark=False))
    assert [edge.origin for edge in spec(edges=edges).leading_edges] == ["s"]
