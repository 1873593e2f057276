"""What the aggregate planner takes from Spark's analyzer, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from mixedmode.errors import PlanError, StateSchemaError
from mixedmode.planner.stages.aggregates.aggregate import InputTraits, plan_aggregate
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from session_options import session_options

SCHEMA = (
    "k string, v int, d double, m decimal(10,2), ts timestamp, n timestamp_ntz, a array<int>, h map<string,int>,"
    " c string collate UTF8_LCASE"
)
EPOCH = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


def plan(frame: DataFrame, groups: list[Any], *exprs: Any, **options: Any) -> AggregateOperator:
    given = exprs[0] if exprs and isinstance(exprs[0], dict) else list(exprs)
    settings: dict[str, Any] = {"event_time": None, "output_mode": None, "uid": "agg", **options}
    return plan_aggregate(frame, groups, given, **settings)


def test_output_columns_are_named_and_typed_by_spark(frame: DataFrame) -> None:
    """Default names, aliases, dict form, key expressions and windows."""
    groups = ["k", F.window("ts", "10 minutes"), (F.col("v") % 2).alias("odd")]
    exprs = [F.sum("m"), F.avg("m").alias("mean"), F.count("*"), F.expr("sum(v) FILTER (WHERE d > 0)")]
    assert plan(frame, groups, *exprs).output_schema == frame.groupBy(*groups).agg(*exprs).schema
    as_dict = {"v": "sum", "*": "count"}
    assert plan(frame, ["k"], as_dict).output_schema == frame.groupBy("k").agg(as_dict).schema


def test_equal_partial_columns_are_computed_once(frame: DataFrame) -> None:
    """avg and count share one, stddev and variance their moments."""
    operator = plan(frame, ["k"], F.avg("d"), F.count("d"), F.sum("d"), F.stddev("d"), F.variance("d"))
    assert len(operator.partials.columns) == 2 + 1 + 3


def test_prepared_rows_have_one_column_per_key_and_buffer(frame: DataFrame) -> None:
    """Key columns keep their names where those are plain; a session's key is what is left without the session."""
    operator = plan(frame, ["k", F.upper("k")], F.sum("v"), event_time="ts")
    assert operator.key_columns == ("k", "__key1")
    assert operator.prepare(frame, EPOCH).columns == ["k", "__key1", "__b0", "__rows", "__max_ts"]
    session = plan(frame, [F.session_window("ts", "5 minutes"), "k"], F.sum("v"), event_time="ts")
    assert session.key_columns == ("k",)
    assert session.sort_columns == ("__session_start",)
    assert session.prepare(frame, EPOCH).columns == [
        *["__session_start", "__session_end", "k", "__b0", "__rows", "__max_ts"],
    ]


@pytest.mark.parametrize(
    ("groups", "waits"),
    [
        (lambda: ["k"], False),
        (lambda: ["k", F.window("ts", "1 hour")], True),
        (lambda: ["k", F.window("n", "1 hour")], False),
        (lambda: ["k", F.window(F.expr("ts + INTERVAL 1 DAY"), "1 hour")], False),
        (lambda: ["k", F.expr("window(ts, '1 hour') AS w")], True),
        (lambda: ["k", F.session_window("ts", "1 hour")], True),
        (lambda: ["ts"], True),
    ],
)
def test_the_watermark_decides_only_over_keys_made_of_its_column(
    frame: DataFrame, groups: Callable[[], list[Any]], waits: bool
) -> None:
    """A window of another column, or of an expression, never becomes complete by the watermark."""
    assert plan(frame, groups(), F.count("*"), event_time="ts").uses_event_time is waits


def test_what_errors_of_percentiles_propose_is_planned(frame: DataFrame) -> None:
    """The proposed expressions take the place of what is not supported."""
    seconds = F.expr("CAST(CAST(make_dt_interval(v) AS INTERVAL SECOND) AS DECIMAL(18,6))")
    months = F.expr("CAST(CAST(make_ym_interval(v) AS INTERVAL MONTH) AS INT)")
    repeated = frame.select("k", F.expr("explode(array_repeat(v, CAST(v AS INT))) AS v"))
    for rows, percentile in ((frame, F.percentile_approx(seconds, 0.5)), (frame, F.median(months))):
        assert plan(rows, ["k"], percentile)
    assert plan(repeated, ["k"], F.expr("percentile(v, 0.5)"))


def test_expressions_over_aggregates_are_named_and_typed_by_spark(frame: DataFrame) -> None:
    """The output is Spark's; what the operator writes are keys and the plain aggregates, each of them once."""
    exprs = [
        F.sum("v") / F.count("*"),
        F.round(F.avg("m"), 2),
        F.concat("k", F.lit("!"), F.max("k")),
        F.struct(F.min("v"), F.sum("v").alias("s")).alias("both"),
        F.count("*"),
        F.upper("k"),
    ]
    operator = plan(frame, ["k", (F.col("v") % 2).alias("odd")], *exprs, (F.col("odd") + F.sum("v")).alias("t"))
    expected = frame.groupBy("k", (F.col("v") % 2).alias("odd")).agg(*exprs, (F.col("odd") + F.sum("v")).alias("t"))
    assert operator.output_schema == expected.schema
    assert operator.projection is not None
    assert operator.projection.row_schema.names == ["k0", "k1", "a0", "a1", "a2", "a3", "a4"]
    assert [result.kind for result in operator.partials.results] == ["value", "count", "decimal_mean", "value", "value"]
    assert operator.describe()["aggregates"] == expected.columns[2:]


def test_an_expression_may_use_another_by_its_alias(frame: DataFrame) -> None:
    """Also one that is plain, and one that uses others itself."""
    exprs = [F.sum("v").alias("s"), (F.col("s") + F.max("v")).alias("t"), (F.col("t") * F.col("s")).alias("u")]
    operator = plan(frame, ["k"], *exprs)
    assert operator.output_schema == frame.groupBy("k").agg(*exprs).schema
    assert len(operator.partials.results) == 2


def test_plain_aggregates_need_no_further_step_in_spark(frame: DataFrame) -> None:
    """Only expressions take the rows back into the JVM."""
    assert plan(frame, ["k"], F.sum("v").alias("total"), F.count("*")).projection is None


def test_an_expression_is_part_of_the_fingerprint(frame: DataFrame) -> None:
    """Shards that were finished for another expression are not taken over, though name, type and state are equal."""
    more, less = (plan(frame, ["k"], F.expr(f"sum(v) {sign} max(v) AS x")) for sign in "+-")
    assert more.registry.to_json() == less.registry.to_json()
    assert more.fingerprint() != less.fingerprint()


def test_without_keys_there_is_one_group(frame: DataFrame) -> None:
    """The output has no key columns, as Spark's."""
    operator = plan(frame, [], F.sum("v"), F.count("*"))
    assert operator.output_schema == frame.agg(F.sum("v"), F.count("*")).schema
    assert operator.key_columns == ()
    assert operator.prepare(frame, EPOCH).columns == ["__b0", "__b1"]  # the second tells how many rows came


def test_the_operator_travels_without_spark_objects(frame: DataFrame) -> None:
    """What tasks get is the whole operator but the Spark columns that only prepare() needs."""
    groups = ["k", F.window("ts", "10 minutes", "5 minutes")]
    operator = plan(frame, groups, F.collect_list("v"), F.sum("v") + 1, event_time="ts")
    there = cloudpickle.loads(cloudpickle.dumps(operator))
    assert there.describe() == operator.describe()
    assert there.key_schema == operator.key_schema
    with pytest.raises(AssertionError, match="driver only"):
        there.prepare(frame, EPOCH)


def test_state_of_other_aggregates_is_another_schema(frame: DataFrame) -> None:
    """The registry names each partial by its SQL, so a changed aggregation cannot take old state for its own."""
    one, other = plan(frame, ["k"], F.sum("v")), plan(frame, ["k"], F.sum("d"))
    assert one.registry.to_json() != other.registry.to_json()
    assert one.registry.to_json() == plan(frame, ["k"], F.sum("v").alias("renamed")).registry.to_json()
    for stored in (other, plan(frame, ["k"], F.sum("v"), F.count("*"))):
        with pytest.raises(StateSchemaError):
            one.registry.evolve(stored.registry)
    [descriptor] = list(one.registry)
    assert [field.type for field in descriptor.schema] == [pa.int64()]


def mean_of(values: pd.Series) -> float:
    return float(values.mean())


def pandas_mean(column: str) -> Any:
    return F.pandas_udf(mean_of, "double")(column)


REFUSED: list[tuple[Callable[[], list[Any]], Callable[[], list[Any]], str]] = [
    (
        lambda: ["k"],
        lambda: [F.histogram_numeric("v", F.lit(3))],
        "function histogram_numeric is not.*use count by F.width_bucket",
    ),
    (lambda: ["k"], lambda: [F.approx_percentile(F.expr("make_ym_interval(v)"), 0.5)], "percentiles of interval"),
    (
        lambda: ["k"],
        lambda: [pandas_mean("v")],
        r"mean_of\(v\) is a pandas function over all rows.*transformWithStateIn",
    ),
    (lambda: ["k"], lambda: [pandas_mean("v") + F.sum("v")], "is a pandas function over all rows of a group"),
    (lambda: ["k"], lambda: [F.expr("try_sum(DISTINCT v)")], "function try_sum with DISTINCT is not supported"),
    (lambda: ["k"], lambda: [F.expr("try_sum(make_dt_interval(v))")], "try_sum of interval day to second is not"),
    (lambda: ["k"], lambda: [F.expr("try_avg(make_dt_interval(v))")], "try_avg of interval.*is not.*use avg"),
    (lambda: ["k"], lambda: [F.avg(F.expr("make_ym_interval(v)"))], "avg of interval year to month is not"),
    (lambda: ["k"], lambda: [F.expr("max_by(v, a, 2)")], "max_by in the order of array<int> is not supported"),
    (
        lambda: ["k"],
        lambda: [F.expr("max_by(v, make_ym_interval(1), 2)")],
        "max_by in the order of interval year to month is not supported",
    ),
    (lambda: ["k"], lambda: [F.expr("hll_sketch_agg(v)")], "hll_sketch_agg is not.*use approx_count_distinct"),
    (
        lambda: ["k"],
        lambda: [F.expr("kll_sketch_agg_bigint(v)")],
        "kll_sketch.* is not.*use percentile_approx",
    ),
    (lambda: ["k"], lambda: [F.expr("stddev(DISTINCT v)")], "function stddev with DISTINCT is not supported"),
    (lambda: ["k"], lambda: [F.approx_count_distinct("v", 0.002)], r"rsd 0.002 is not.*2\^18 are allowed"),
    (lambda: ["k"], lambda: [F.approx_count_distinct("c")], "approx_count_distinct of string collate UTF8_LCASE"),
    (lambda: ["k"], lambda: [F.approx_count_distinct("h")], "cannot be taken over"),
    (
        lambda: ["k"],
        lambda: [F.expr("percentile(v, 0.5, v) AS p")],
        r"percentile with the frequency v is not .*\(column p\)\nRepeat .*explode\(array_repeat\(v, CAST\(v AS INT",
    ),
    (
        lambda: ["k"],
        lambda: [F.median(F.expr("make_ym_interval(v)"))],
        r"percentiles of interval year to month are not .* number, as in CAST\(CAST\(.* AS INTERVAL MONTH\) AS INT\)",
    ),
    (
        lambda: ["k"],
        lambda: [F.percentile_approx(F.expr("make_dt_interval(v)"), 0.5)],
        r"percentiles of interval day to second are not .*CAST\(CAST\(.* AS INTERVAL SECOND\) AS DECIMAL\(18,6\)\)",
    ),
    (lambda: ["k"], lambda: [F.mode("a")], "mode of array<int> is not supported"),
    (
        lambda: ["k"],
        lambda: [F.expr("listagg(k) WITHIN GROUP (ORDER BY v NULLS LAST)")],
        r"ORDER BY \.\.\. ASC NULLS LAST\) is not supported; leave NULLS LAST out",
    ),
    (lambda: ["k"], lambda: [F.lit(1)], "at least one aggregate function"),
    (lambda: ["k"], lambda: [F.sum("v") + F.rand()], "is not deterministic"),
    (lambda: ["k"], lambda: [F.expr("sum(v) + (SELECT 1)")], "contains a subquery"),
    (lambda: ["k"], lambda: [F.expr("sum(v) + d")], "agg: .*MISSING_AGGREGATION.*d"),
    (lambda: ["k"], lambda: [F.sum("nope")], "nope"),
    (lambda: ["k"], lambda: [F.sum("v").over(Window.partitionBy("k"))], "agg: "),
    (lambda: ["nope"], lambda: [F.sum("v")], "nope"),
    (lambda: ["h"], lambda: [F.sum("v")], "h.*map|map.*h"),
    (lambda: [F.rand()], lambda: [F.sum("v")], "not deterministic"),
    (lambda: ["k"], lambda: [], "at least one aggregate"),
    (lambda: [F.session_window("ts", "1 minute")], lambda: [F.sum("v")], "session window needs another column"),
    (lambda: ["ts", F.window("ts", "1 minute")], lambda: [F.sum("v")], "ts and window are all made of"),
    (lambda: [F.collate("k", "UTF8_LCASE")], lambda: [F.sum("v")], "collation UTF8_LCASE"),
    (lambda: ["k"], lambda: [F.max("c")], "collation UTF8_LCASE"),
    (lambda: ["k"], lambda: [F.sum(F.expr("make_ym_interval(v)"))], "interval year to month"),
]


@pytest.mark.parametrize(("groups", "exprs", "message"), REFUSED)
def test_what_cannot_be_done_is_refused_by_name(
    frame: DataFrame, groups: Callable[[], list[Any]], exprs: Callable[[], list[Any]], message: str
) -> None:
    """The error names the function, column or type, before anything runs."""
    with pytest.raises(PlanError, match=message):
        plan(frame, groups(), *exprs(), event_time="ts")


def test_user_defined_functions_inside_an_aggregate_are_refused(frame: DataFrame) -> None:
    """The hint says where to compute them instead."""
    double = F.udf(lambda value: value * 2, LongType())
    with pytest.raises(PlanError, match="user-defined function; compute it with withColumn before groupBy"):
        plan(frame, ["k"], F.sum(double("v")))
    with pytest.raises(PlanError, match="user-defined function; compute that in whatever reads the output"):
        plan(frame, ["k"], double(F.sum("v")))


@pytest.mark.parametrize(
    ("mode", "event_time", "message"),
    [
        (
            "append",
            None,
            r"^add \.withWatermark\(.*no watermark is declared.*append.*allowed here without that: update",
        ),
        ("append", "ts", r"^group by F\.window\('ts', …\) too: no key is made of the watermark's column ts.*append"),
    ],
)
def test_output_modes_that_cannot_work_are_refused(
    frame: DataFrame, mode: str, event_time: str | None, message: str
) -> None:
    """The error names outputMode and what is allowed."""
    with pytest.raises(PlanError, match=message):
        plan(frame, ["k"], F.count("*"), output_mode=mode, event_time=event_time)


def test_update_with_a_session_window_is_refused_as_in_spark(frame: DataFrame) -> None:
    """A merge would take back rows that are already out."""
    groups = ["k", F.session_window("ts", "1 minute")]
    with pytest.raises(PlanError, match="outputMode update is not supported with a session window"):
        plan(frame, groups, F.count("*"), output_mode="update", event_time="ts")


def test_a_bounded_append_needs_no_watermark(frame: DataFrame) -> None:
    """The end of input completes every key."""
    operator = plan(frame, ["k"], F.count("*"), output_mode="append", traits=InputTraits(bounded=True))
    assert operator.output_mode == "append"
    assert not operator.uses_event_time


def test_output_without_group_columns_is_refused(spark: SparkSession, frame: DataFrame) -> None:
    """The error names the Spark option that asks for it."""
    with (
        session_options(spark, {"spark.sql.retainGroupColumns": "false"}),
        pytest.raises(PlanError, match=r"spark\.sql\.retainGroupColumns=false is not supported"),
    ):
        plan(frame, ["k"], F.sum("v"))


def test_windows_of_another_length_are_another_job(frame: DataFrame) -> None:
    """The description by which a checkpoint is recognised holds the windows' definitions."""
    hour, day, again = (
        plan(frame, ["k", F.window("ts", length)], F.sum("v"), event_time="ts").describe()
        for length in ("1 hour", "1 day", "1 hour")
    )
    assert hour == again
    assert hour != day
    assert "1 hour" in hour["windows"][0]
    assert "windows" not in plan(frame, ["k"], F.sum("v")).describe()
