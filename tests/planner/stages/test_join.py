"""Joins of two streams as they are planned: what Spark says of the same join, and how long rows wait for partners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.event_time import CARRIER
from mixedmode.planner.stages.join.join import plan_join
from mixedmode.planner.stages.stage import STAGE_UID
from mixedmode.runtime.operators.join.columns import TIME_COLUMN
from mixedmode.runtime.operators.join.definition import StreamJoin
from mixedmode.runtime.spec import JobSpec, Settings
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options

HOUR_US = 3_600_000_000
RANGE = "a.k = b.k AND b.paid BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
OUTER = "a.k = b.k AND b.paid >= a.ts AND b.paid <= a.ts + INTERVAL 1 HOUR"


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    def stream(columns: str) -> DataFrame:
        return spark.readStream.schema(columns).parquet(str(tmp_path_factory.mktemp("landing")))

    return stream("k string, v long, ts timestamp"), stream("k string, w long, paid timestamp")


@pytest.fixture
def a(streams: tuple[DataFrame, DataFrame]) -> MixedFrame:
    return read(live=streams[0]).withWatermark("ts", "1 hour").alias("a")


@pytest.fixture
def b(streams: tuple[DataFrame, DataFrame]) -> MixedFrame:
    return read(live=streams[1]).withWatermark("paid", "10 minutes").alias("b")


@pytest.fixture
def in_berlin(spark: SparkSession) -> Iterator[None]:
    with session_options(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        yield


def joined(left: MixedFrame, right: MixedFrame, on: Any, how: str | None = None) -> StreamJoin:
    """The operator of a join."""
    operator = plan_join(left._stage_input("join"), right._stage_input("join"), on, how).build(
        STAGE_UID, "append", Settings()
    )
    assert isinstance(operator, StreamJoin)
    return operator


def keeps(operator: StreamJoin) -> list[int | None]:
    return [side.keep_us for side in operator.sides]


def bounds(operator: StreamJoin) -> tuple[int | None, int | None]:
    return operator.bounds.least_us, operator.bounds.greatest_us


def compiled(frame: MixedFrame, **options: str) -> JobSpec:
    return frame.writeStream.format("noop").options(**options).described()


@pytest.mark.parametrize(
    ("how", "on"),
    [
        (None, "k"),
        ("inner", ["k"]),
        ("left_outer", OUTER),
        ("right", OUTER),
        ("outer", OUTER),
        ("semi", OUTER),
    ],
)
def test_columns_are_those_of_sparks_own_join(
    a: MixedFrame, b: MixedFrame, streams: tuple[DataFrame, DataFrame], how: str | None, on: Any
) -> None:
    """Names, order, types and nullability, also where a name is there twice."""
    left, right = streams[0].alias("a"), streams[1].alias("b")
    given = F.expr(on) if isinstance(on, str) and " " in on else on
    mine, stock = a.join(b, given, how), left.join(right, given, how)
    assert mine.columns == stock.columns
    assert [(f.dataType, f.nullable) for f in mine.schema.fields] == [
        (f.dataType, f.nullable) for f in stock.schema.fields
    ]


@pytest.mark.parametrize("how", ["left", "right", "full", "leftsemi", "leftanti"])
@pytest.mark.parametrize("on", ["a.k = b.k", "a.k = b.k AND b.paid >= a.ts"])
def test_what_spark_refuses_is_refused_with_its_reason(
    a: MixedFrame, b: MixedFrame, streams: tuple[DataFrame, DataFrame], on: str, how: str
) -> None:
    """The stock query of the same streams, watermarks and condition fails at start() with the same words."""
    left = streams[0].withWatermark("ts", "1 hour").alias("a")
    right = streams[1].withWatermark("paid", "10 minutes").alias("b")
    try:
        left.join(right, F.expr(on), how).writeStream.format("noop").start().stop()
        reason = None
    except AnalysisException as error:
        reason = str(error).split(";", 1)[0]
    if reason is None:
        joined(a, b, F.expr(on), how)
        return
    with pytest.raises(PlanError) as refused:
        a.join(b, F.expr(on), how)
    assert reason in str(refused.value)
    assert ("Use how='left'" in str(refused.value)) == (how == "leftanti")


def test_a_condition_is_keys_bounds_and_a_rest(a: MixedFrame, b: MixedFrame) -> None:
    """Spark is asked about the rest alone; BETWEEN says the same as two comparisons."""
    plain = joined(a, b, F.expr(RANGE), "left")
    assert (bounds(plain), keeps(plain)) == ((-HOUR_US, 0), [HOUR_US, 0])
    assert (plain.key_labels, plain.residual) == (("k",), None)
    rest = joined(a, b, F.expr(f"{RANGE} AND a.v > b.w AND b.paid < a.ts + INTERVAL 1 MINUTE"))
    assert bounds(rest) == (-60_000_000 + 1, 0), "the nearest bounds, and the end left out"
    assert rest.condition_text == "(left.v > right.w)"
    assert rest.output.sources == (("__l0",), ("__l1",), ("__l2",), ("__r0",), ("__r1",), ("__r2",))
    by_seconds = joined(a, b, F.expr("a.k = b.k AND cast(b.paid AS long) - cast(a.ts AS long) BETWEEN 0 AND 60"))
    assert bounds(by_seconds) == (-60_999_999, 999_999), "what is cut off may be all but a second"
    assert by_seconds.residual is not None
    equal = joined(a, b, F.expr("a.ts = b.paid - INTERVAL 5 MINUTES"), "left")
    assert (bounds(equal), equal.residual) == ((-300_000_000, -300_000_000), None)
    far = joined(a, b, F.expr("a.k = b.k AND b.paid BETWEEN a.ts AND a.ts + INTERVAL 290000 YEARS"))
    assert (bounds(far), keeps(far)) == ((None, 0), [None, 0]), "not in 64 bits with a time"
    assert far.residual is not None
    for free in (
        "cast(b.paid AS double) - cast(a.ts AS double) < double('Infinity')",
        "cast(b.paid AS smallint) - cast(a.ts AS smallint) < 60S",
    ):
        assert bounds(joined(a, b, F.expr(f"a.k = b.k AND {free}"))) == (None, None), "of what is no time any more"
    for within in (
        "NOT (b.paid < a.ts) AND NOT (b.paid > a.ts + INTERVAL 1 HOUR)",
        "NOT (b.paid < a.ts OR b.paid > a.ts + INTERVAL 1 HOUR)",
        "NOT (NOT (b.paid >= a.ts AND b.paid <= a.ts + cast('1 hour' AS interval)))",
    ):
        same = joined(a, b, F.expr(f"a.k = b.k AND {within}"))
        assert (bounds(same), same.residual) == ((-HOUR_US, 0), None), "what is not less is as great"
    decimals = joined(a, b, F.expr("a.k = b.k AND cast(b.paid AS decimal(20, 6)) <= cast(a.ts AS decimal(20, 6)) + 60"))
    least, _ = bounds(decimals)
    assert least is not None
    assert -60_001_000 < least < -60_000_000
    assert decimals.residual is not None
    centuries = joined(a, b, F.expr("a.k = b.k AND b.paid <= a.ts + make_interval(0, 0, 0, 0, 3000000)"))
    assert bounds(centuries) == (-3_000_000 * HOUR_US, None), "more nanoseconds than 64 bits hold"
    of_array = joined(a, b, F.expr("a.k = b.k AND exists(array(a.v), x -> x > b.w)"))
    assert of_array.condition_text is not None


def test_a_calendars_day_is_bounded_by_what_the_clock_may_jump(a: MixedFrame, b: MixedFrame, in_berlin: None) -> None:
    """No pair is outside, and Spark is asked about each; hours are hours."""
    day = joined(a, b, F.expr("a.k = b.k AND b.paid BETWEEN a.ts AND a.ts + INTERVAL 1 DAY"))
    least, greatest = bounds(day)
    assert least is not None
    assert greatest == 0
    assert -30 * HOUR_US < least <= -25 * HOUR_US
    assert day.residual is not None
    month = joined(a, b, F.expr("a.k = b.k AND b.paid <= a.ts + INTERVAL 1 MONTH AND b.paid > a.ts"))
    assert month.bounds.least_us is not None
    assert -32 * 24 * HOUR_US < month.bounds.least_us < -31 * 24 * HOUR_US
    hours = joined(a, b, F.expr(RANGE))
    assert hours.residual is None
    with pytest.raises(PlanError, match="appropriate range condition"):  # as in Spark
        joined(a, b, F.expr("a.k = b.k AND b.paid <= a.ts + INTERVAL 1 MONTH AND b.paid > a.ts"), "left")


def test_columns_know_the_frame_they_were_taken_from(a: MixedFrame, b: MixedFrame) -> None:
    """In the condition of a join; where both sides are made of it, the condition says which is meant."""
    same = joined(a, b, (a.k == b.k) & (b["paid"] >= a["ts"]) & (b.paid <= a.ts + F.expr("INTERVAL 1 HOUR")))
    assert bounds(same) == (-HOUR_US, 0)
    derived = joined(a.filter("v > 1").select("ts", "k"), b, a["k"] == b["k"])
    assert derived.key_labels == ("k",)
    with pytest.raises(PlanError, match=r"column k was taken from a frame that both sides are made of.*alias"):
        a.join(a, a.k == a.k)
    itself = joined(a, a.alias("c"), F.expr("a.k = c.k AND c.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts"))
    assert bounds(itself) == (0, HOUR_US)
    assert a.select(a.k, (a["v"] + 1).alias("v")).filter(a.k > "x").groupBy(a.k).count().columns == ["k", "count"]
    with pytest.raises(PlanError, match=r"ambiguous.*alias"):
        a.join(b, F.col("k") == F.col("w"))


def test_what_follows_names_columns_by_their_frames(a: MixedFrame, b: MixedFrame) -> None:
    """As behind a join of Spark's; an output may have one name twice."""
    pairs = a.join(b, F.expr(RANGE))
    job = compiled(pairs.select("a.k", "v", F.col("b.w"), "ts").filter("b.w > 1"))
    assert job.output_schema.fieldNames() == ["k", "v", "w", "ts"]
    assert compiled(pairs.drop(F.col("b.k"))).output_schema.fieldNames() == ["k", "v", "ts", "w", "paid"]
    assert compiled(pairs).sink.schema.names == ["k", "v", "ts", "k", "w", "paid"]
    assert compiled(a.join(b, "k")).output_transform is None, "one name each: nothing is done behind the stage"
    assert pairs.uid("pairs").columns == pairs.columns


def test_a_later_stage_gets_what_the_join_may_hold_back(a: MixedFrame, b: MixedFrame) -> None:
    """Windows over either side's event time; joins of joins, of windows, and of what has been deduplicated."""
    pairs = a.dropDuplicates(["k", "ts"]).alias("a").join(b, F.expr(RANGE)).select("a.k", "v", "ts", "paid")
    for column in ("ts", "paid"):
        job = compiled(pairs.groupBy(F.window(column, "1 hour"), "k").count())
        assert [stage.operator.kind for stage in job.stages] == ["dropDuplicates", "join", "agg"]
        [edge] = job.stages[-1].edges
        assert (edge.delay_ms, job.stages[-1].keeps_key_groups_of(job.stages[1].operator)) == (3_600_000, True)
    later = pairs.withWatermark("paid", "5 minutes").groupBy(F.window("paid", "1 hour")).count()
    assert compiled(later).stages[-1].edges[0].delay_ms == 3_900_000
    hours = [
        frame.groupBy("k", F.window(time, "1 hour")).agg(F.count("*").alias(f"of_{time}"))
        for frame, time in ((a, "ts"), (b, "paid"))
    ]
    both = compiled(hours[0].join(hours[1], ["k", "window"], "full")).stages[-1]
    assert isinstance(both.operator, StreamJoin)
    assert (bounds(both.operator), keeps(both.operator)) == ((0, 0), [0, 0])
    assert both.operator.output.sources[0] == ("__l0", "__r0")
    twice = pairs.join(b.select("k", "w"), "k")
    assert [stage.operator.kind for stage in compiled(twice).stages][-1] == "join"


def test_a_side_without_a_watermark_says_nothing_of_it(a: MixedFrame, streams: tuple[DataFrame, DataFrame]) -> None:
    """Its rows wait for ever, as do those for which they are partners; but for those of an equal event time."""
    bare = read(live=streams[1]).alias("b")
    frame = a.join(bare, F.expr(RANGE))
    operator = joined(a, bare, F.expr(RANGE))
    assert (keeps(operator), operator.condition_text is not None) == ([None, None], True)
    stage = compiled(frame.drop(F.col("b.k"))).stages[0]
    assert (dict(stage.delays_ms), stage.timeless) == ({"live-1": 3_600_000}, ("live-2",))
    assert frame._watermark is None
    plan = frame.drop(F.col("b.k")).writeStream.format("noop").plan()
    assert "keeps every row of the left and right sides for ever" in plan.warnings[0]
    equal = joined(a, bare, F.expr("a.ts = b.paid"), "full")
    assert (bounds(equal), keeps(equal)) == ((0, 0), [0, 0])


@pytest.mark.parametrize(
    ("on", "message"),
    [
        (None, "without equality predicate is not supported"),
        (F.expr, "without equality predicate is not supported"),
        ("udf", r"a Python function \(.*withColumn before"),
        ("rand", "deterministic expression"),
        ("query", r"a subquery \(.*withColumn before"),
    ],
)
def test_what_cannot_be_asked_of_pairs_is_refused(a: MixedFrame, b: MixedFrame, on: Any, message: str) -> None:
    """With what to do instead."""
    same = F.udf(lambda one, other: one == other, "boolean")
    given = {
        F.expr: F.expr("a.v > b.w"),
        "udf": (a.k == b.k) & same(a.v, b.w),
        "rand": (a.k == b.k) & (F.rand() > 0.5),
        "query": F.expr("a.k = b.k AND exists(SELECT 1)"),
    }.get(on)
    with pytest.raises((PlanError, AnalysisException), match=message):
        a.join(b, given)


def test_output_modes_and_the_final_watermark_are_those_of_joins(a: MixedFrame, b: MixedFrame) -> None:
    """Inner joins may be in update mode, outer ones are append; MAX_WATERMARK at the switch is refused."""
    inner, outer = a.join(b, "k"), a.join(b, F.expr(OUTER), "left").drop(F.col("b.k"))
    assert inner.writeStream.format("noop").outputMode("update").described()
    with pytest.raises(PlanError, match="not supported in Update output mode, only in Append"):
        outer.writeStream.format("noop").outputMode("update").described()
    with pytest.raises(PlanError, match="complete is not supported after a join"):
        inner.writeStream.format("noop").outputMode("complete").described()
    with pytest.raises(OptionError, match="does not go with a join of two streams"):
        compiled(inner, **{"execution.backlog.final-watermark": "max"})


def window() -> Column:
    return F.window("ts", "10 minutes")


WINDOWED: dict[str, Any] = {
    "selected": lambda rows: rows.select("k", window().alias("window")),
    "beside the time": lambda rows: rows.withColumn("window", window()).select("k", "window", "ts"),
    "renamed": lambda rows: rows.select("k", window().alias("w")).withColumnRenamed("w", "window"),
    "in sql": lambda rows: rows.selectExpr("k", "window(ts, '10 minutes', '5 minutes') AS window"),
    "time dropped": lambda rows: rows.withColumn("window", window()).drop("ts", "v", "w"),
    "called as the time": lambda rows: rows.select("k", window().alias("ts")).select("k", F.col("ts").alias("window")),
    "its last instant": lambda rows: rows.select("k", window()).select("k", F.window_time("window").alias("window")),
    "aggregated": lambda rows: rows.groupBy("k", window()).count().select("k", "window"),
}


@pytest.mark.parametrize("windowed", WINDOWED.values(), ids=WINDOWED)
def test_rows_of_a_window_wait_until_it_is_over(a: MixedFrame, b: MixedFrame, windowed: Any) -> None:
    """However its column came to be; the watermark follows the times that ``withWatermark`` was called on."""
    left, right = windowed(a), windowed(b.withColumnRenamed("paid", "ts"))
    operator = joined(left, right, ["k", "window"], "full")
    assert (bounds(operator), keeps(operator), operator.residual) == ((0, 0), [0, 0], None)
    assert [one.event_time for one in operator.sides] == ["window", "window"]
    stage = compiled(left.join(right, ["k", "window"]).select("k", "window")).stages[-1]
    is_apart = windowed is not WINDOWED["aggregated"]
    assert (stage.event_time, stage.operator.input_times) == ((CARRIER, CARRIER) if is_apart else (TIME_COLUMN,) * 2)


def test_a_window_with_a_watermark_is_the_time_of_the_other_side(a: MixedFrame, streams: Any) -> None:
    """Whose rows wait no longer, as in Spark; what is no window of event time, though equal to one, is none."""
    other = read(live=streams[1].withColumnRenamed("paid", "ts")).select("k", window().alias("window"))
    for left, right in (
        (a.select("k", window().alias("window")), other),
        (other, a.select("k", window().alias("window"))),
    ):
        assert keeps(joined(left, right, ["k", "window"], "inner")) == [0, 0]
    started = [rows.select("k", F.col("window.start").alias("at")) for rows in (a.select("k", window()), other)]
    assert keeps(joined(started[0], started[1], ["k", "at"], "inner")) == [None, None]


def test_rows_that_leave_their_event_time_behind_have_none(a: MixedFrame, b: MixedFrame) -> None:
    """They wait for ever, and are never late; the watermark goes on."""
    job = compiled(a.select("k", "v").join(b.select("k", "w"), "k"))
    operator = job.stages[0].operator
    assert isinstance(operator, StreamJoin)
    assert [one.event_time for one in operator.sides] == [None, None]
    assert (job.stages[0].event_time, operator.input_times, job.stages[0].watermark_delay_ms) == (
        CARRIER,
        CARRIER,
        3_600_000,
    )


def test_explain_says_how_long_rows_wait(a: MixedFrame, b: MixedFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """And what Spark is asked about pairs."""
    a.join(b, F.expr(f"{RANGE} AND a.v > b.w")).select("a.k", "v").writeStream.format("noop").explain()
    shown = " ".join(capsys.readouterr().out.split())
    for said in (
        "live-1 unbounded: k string, v bigint, ts timestamp",
        "live-2 unbounded: k string, w bigint, paid timestamp",
        "join by k string",
        "left ts - right paid >= -3600 s and left ts - right paid <= 0 s",
        "condition (left.v > right.w)",
        "left until the watermark is past ts + 3600 s, right until the watermark is past paid",
    ):
        assert said in shown, shown
