"""Event time is recognised in a key wherever Spark's metadata says that it is, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.inputs.event_time import CARRIER
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

Chain = Callable[[Any], Any]


def window() -> Column:
    return F.window("ts", "10 minutes")


def timed(frame: Any) -> Any:
    return frame.withWatermark("ts", "1 minute")


#: What leads to a key, as a user of either writes it; and the kind of the key that is event time, if one is.
CHAINS: dict[str, tuple[Chain, str | None]] = {
    "window": (lambda f: timed(f).groupBy("k", window()), "window"),
    "withColumn": (lambda f: timed(f).withColumn("w", window()).groupBy("w", "k"), "window"),
    "select": (lambda f: timed(f).select(window().alias("w"), "k").groupBy("w", "k"), "window"),
    "selectExpr": (lambda f: timed(f).selectExpr("window(ts, '1 hour', '5 minutes') w", "k").groupBy("w"), "window"),
    "renamed": (lambda f: timed(f).withColumn("w", window()).withColumnRenamed("w", "u").groupBy("u"), "window"),
    "out of a struct": (
        lambda f: timed(f).select(F.struct(window().alias("w"), "k").alias("s")).select("s.w", "s.k").groupBy("w", "k"),
        "window",
    ),
    "rows between": (lambda f: timed(f).withColumn("w", window()).where("v > 0").dropna().groupBy("w"), "window"),
    "event time itself": (lambda f: timed(f).groupBy("ts"), "plain"),
    "event time renamed": (lambda f: timed(f).withColumnRenamed("ts", "t").groupBy("t"), "plain"),
    "event time selected": (lambda f: timed(f).select(F.col("ts").alias("t"), "k").groupBy("t", "k"), "plain"),
    "time of a window": (lambda f: timed(f).withColumn("w", window()).groupBy(F.window_time("w")), "plain"),
    "window of a window": (
        lambda f: timed(f).withColumn("w", window()).groupBy(F.window(F.window_time("w"), "1 hour")),
        "window",
    ),
    "session": (lambda f: timed(f).withColumn("w", F.session_window("ts", "5 minutes")).groupBy("w", "k"), "session"),
    "end of a window": (lambda f: timed(f).withColumn("w", window()).groupBy("w.end"), None),
    "start as a column": (lambda f: timed(f).select(window().alias("w")).select("w.start").groupBy("start"), None),
    "window before the watermark": (lambda f: timed(f.withColumn("w", window())).groupBy("w"), None),
    "window of something else": (lambda f: timed(f).groupBy(F.window(F.date_trunc("hour", "ts"), "1 hour")), None),
    "event time replaced": (lambda f: timed(f).withColumn("ts", F.date_trunc("hour", "ts")).groupBy("ts"), None),
    "a copy's own watermark": (
        lambda f: timed(
            timed(f).withColumn("w", window()).withColumn("ts", F.col("ts") + F.expr("interval 1 day"))
        ).groupBy("w"),
        None,
    ),
}


def kind_of(frame: MixedFrame, chain: Chain) -> str | None:
    """The kind of the event-time key that an append waits for; None: append is refused."""
    writer = chain(frame).count().writeStream.format("noop").outputMode("append")
    try:
        job = writer.described()
    except PlanError as error:
        if "no key is made of the watermark's column" in str(error):
            return None
        raise
    assert job.operator.uses_event_time
    (key,) = [key for key in job.operator.keys if key.event_time]
    return str(key.kind)


def stock_takes(spark: SparkSession, live: DataFrame, chain: Chain) -> bool:
    """Whether stock Structured Streaming takes the same in append mode."""
    jvm: Any = spark._jvm
    plan = chain(live).count()._jdf.queryExecution().analyzed()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            plan, jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        )
    except AnalysisException as error:
        if "watermark" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("name", CHAINS)
def test_append_is_allowed_where_stock_allows_it(
    spark: SparkSession, history: DataFrame, live: DataFrame, name: str
) -> None:
    """Whatever the inputs are: history, live, both, or a union of such."""
    chain, kind = CHAINS[name]

    assert stock_takes(spark, live, chain) == (kind is not None)
    assert kind_of(read(history, live), chain) == kind
    if name in ("withColumn", "select", "event time selected", "end of a window"):
        assert kind_of(read(live=live), chain) == kind
        assert kind_of(read(history, live).union(read(live=live)), chain) == kind
        batch = chain(read(history=history)).count().writeStream.format("noop").plan()
        assert batch.phases[-1].kind == "finish"


def test_a_window_in_a_struct_is_a_key_like_any_other(history: DataFrame, live: DataFrame) -> None:
    """Stock refuses the field itself, and takes it once it is selected; here both are the same."""
    chain = CHAINS["out of a struct"][0]

    def direct(frame: Any) -> Any:
        return timed(frame).select(F.struct(window().alias("w")).alias("s"), "k").groupBy("s.w", "k")

    assert kind_of(read(history, live), direct) == kind_of(read(history, live), chain) == "window"


def test_unions_of_what_has_lost_its_event_time_keep_it(history: DataFrame, live: DataFrame) -> None:
    """Either side may have its event time among its columns or not; the delays stay each input's own."""
    one = read(history, live).withWatermark("ts", "1 minute").withColumn("w", window())
    other = read(live=live).withWatermark("ts", "1 hour").select("k", "v", "x", "ts", "tags", window().alias("w"))

    for mine, theirs in ((one.drop("ts"), other.drop("ts")), (one.drop("ts"), other), (one, other.drop("ts"))):
        united = mine.unionByName(theirs, allowMissingColumns=True)
        assert CARRIER not in united.columns
        assert kind_of(united, lambda frame: frame.groupBy("w")) == "window"
        assert [united._watermark.delay_of(name) for name in ("live-1", "live-2")] == [60_000, 3_600_000]


def test_a_dropped_event_time_is_not_seen_and_goes_on(both: MixedFrame) -> None:
    """Columns, ordinals, rows and messages have it no more; the watermark does."""
    frame = timed(both).select("k", "v").withColumn("n", F.lit(1))

    assert frame.columns == ["k", "v", "n"]
    assert frame.schema.names == frame.select("*").columns == frame.columns
    assert [field.name for field in frame.groupBy(3)._keys.schema] == ["n"]
    plan = frame.groupBy("k").max().writeStream.format("noop").outputMode("update").plan()
    assert plan.output_columns == "k string, max(v) bigint, max(n) int"
    assert plan.event_time == "ts"
    with pytest.raises(PlanError, match="watermark's column ts"):
        frame.groupBy("k").count().writeStream.format("noop").plan()
    assert timed(frame.withColumn("ts", F.current_timestamp())).columns == ["k", "v", "n", "ts"]


def test_a_session_column_is_refused_in_update_mode(both: MixedFrame) -> None:
    """As a session window in groupBy is, and as in stock."""
    sessions = CHAINS["session"][0](both).count()

    with pytest.raises(PlanError, match="update is not supported with a session window"):
        sessions.writeStream.format("noop").outputMode("update").plan()
