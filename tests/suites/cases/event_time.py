"""Watermarks: EventTimeWatermarkSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import RESTART, Read, case

SUITE = "EventTimeWatermarkSuite"
INT, PAIR, TWO = {"in": "value int"}, {"in": "_1 long, _2 long"}, {"one": "value int", "two": "value int"}
WAITING = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
ONE_STATE = {"spark.sql.streaming.statefulOperator.allowMultiple": "false"}


def timed(read: Read, delay: str | None = "10 seconds", name: str = "in") -> Any:
    rows = read(name).withColumn("eventTime", F.timestamp_seconds("value"))
    return rows if delay is None else rows.withWatermark("eventTime", delay)


def counted(rows: Any, *keys: Any) -> Any:
    windows = rows.groupBy(*(keys or [F.window("eventTime", "5 seconds").alias("window")]))
    return windows.agg(F.count("*").alias("count")).select(F.col("window.start").cast("long").alias("start"), "count")


TEN = [10, 11, 12, 13, 14, 15]


@case(
    SUITE,
    "withWatermark should work with alias-qualified column name",
    inputs=INT,
    steps=[{"in": [15]}, {"in": [10, 12, 14]}, {"in": [25]}],
    history=2,
)
def by_an_alias(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("value")).alias("a")
    return counted(rows.withWatermark("a.eventTime", "10 seconds"))


METRICS = "event time and watermark metrics"


@case(SUITE, METRICS, inputs=INT, steps=[{"in": [15]}, {"in": [10, 12, 14]}], mode="complete")
def complete_windows_without_watermark(read: Read) -> Any:
    return counted(timed(read, None))


@case(SUITE, METRICS, inputs=INT, steps=[{"in": [15]}, {"in": [10, 12, 14]}, {"in": [25]}], history=2)
def windows_that_are_measured(read: Read) -> Any:
    return counted(timed(read))


@case(
    SUITE,
    "event time and watermark metrics with Trigger.Once (SPARK-24699)",
    inputs=INT,
    steps=[
        {"in": [15]},
        RESTART,
        {"in": [10, 12, 14]},
        RESTART,
        {"in": [25]},
        RESTART,
        {"in": [50]},
        RESTART,
        {"in": [50]},
    ],
    history=1,
)
def windows_of_several_runs(read: Read) -> Any:
    return counted(timed(read))


@case(SUITE, "append mode", inputs=INT, steps=[{"in": TEN}, {"in": [25]}, {"in": [10]}], history=2)
def windows(read: Read) -> Any:
    return counted(timed(read))


@case(
    SUITE,
    "update mode",
    inputs=INT,
    steps=[{"in": TEN}, {"in": [25]}, {"in": [10, 25]}, {"in": [10]}],
    mode="update",
    keys=("start",),
    history=2,
)
def windows_as_updates(read: Read) -> Any:
    return counted(timed(read))


@case(
    SUITE,
    "delay in months and years handled correctly",
    inputs=INT,
    steps=[{"in": [1_700_000_000]}, {"in": [1_700_000_000]}, {"in": [1_800_000_000]}],
)
def windows_with_a_delay_of_months(read: Read) -> Any:
    return counted(timed(read, "2 years 5 months"))


@case(
    SUITE,
    "recovery",
    inputs=INT,
    steps=[{"in": TEN}, {"in": [25]}, RESTART, {"in": [10, 27, 30]}, RESTART, {"in": [17]}, {"in": [40]}],
    history=2,
)
def windows_over_restarts(read: Read) -> Any:
    return counted(timed(read))


@case(
    SUITE,
    "complete mode",
    inputs=INT,
    steps=[{"in": [10, 11, 12]}, {"in": [25]}, {"in": [25]}, {"in": [10]}, {"in": [25]}],
    mode="complete",
    history=2,
)
def complete_windows(read: Read) -> Any:
    return counted(timed(read))


@case(SUITE, "group by on raw timestamp", inputs=INT, steps=[{"in": [10]}, {"in": [25]}])
def by_the_time_itself(read: Read) -> Any:
    counts = timed(read).groupBy("eventTime").agg(F.count("*").alias("count"))
    return counts.select(F.col("eventTime").cast("long").alias("eventTime"), "count")


@case(
    SUITE,
    "watermark with 2 streams",
    inputs=TWO,
    steps=[
        {"one": [11]},
        {"two": [6]},
        {"two": [8]},
        {"one": [21]},
        {"two": [17, 28, 39]},
        {"one": [31]},
        {"one": [41]},
        {"one": [51]},
        {"one": [100], "two": [100]},
        RESTART,
        {"two": [200]},
        {"one": [200]},
    ],
    mode="complete",
)
def complete_sum_of_two_streams(read: Read) -> Any:
    one, two = timed(read, "10 seconds", "one"), timed(read, "5 seconds", "two")
    return one.select("value").union(two.select("value")).agg(F.sum("value").alias("total"))


@case(SUITE, "error on bad column", inputs=INT, steps=[{"in": [1]}], refused="badColumn")
def by_an_unknown_column(read: Read) -> Any:
    return read("in").withWatermark("badColumn", "1 minute")


@case(SUITE, "error on wrong type", inputs=INT, steps=[{"in": [1]}], refused="value")
def by_a_number(read: Read) -> Any:
    return read("in").withWatermark("value", "1 minute")


@case(
    SUITE,
    "error on nested column",
    inputs={"in": "id int, at timestamp"},
    steps=[{"in": [(1, None)]}],
    refused="EVENT_TIME_MUST_BE_TOP_LEVEL_COLUMN",
)
def by_a_field(read: Read) -> Any:
    rows = read("in").select("id", F.struct(F.col("at").alias("timestamp")).alias("nested_struct"))
    return rows.withWatermark("nested_struct.timestamp", "0 seconds")


NEGATIVE = "delay threshold should not be negative."


def _late(read: Read, delay: str) -> Any:
    return timed(read, delay)


def _negative(delay: str, name: str) -> None:
    def query(read: Read) -> Any:
        return _late(read, delay)

    query.__name__ = name
    case(SUITE, NEGATIVE, inputs=INT, steps=[{"in": [1]}], refused="negative")(query)


for _number, _delay in enumerate(("-1 year", "1 year -13 months", "1 month -40 days", "-10 seconds")):
    _negative(_delay, f"with_a_negative_delay_{_number}")


def _two_times(read: Read) -> Any:
    rows = read("in").withColumn("first", F.timestamp_seconds("_1")).withColumn("second", F.timestamp_seconds("_2"))
    rows = rows.withWatermark("first", "1 minute").select("*").withWatermark("second", "2 minutes")
    return rows.groupBy(F.window("second", "1 minute").alias("window")).count()


@case(
    SUITE,
    "overriding watermark should not be allowed by default",
    inputs=PAIR,
    steps=[{"in": [(100, 200)]}],
    refused="Redefining watermark is disallowed",
)
def two_watermarks(read: Read) -> Any:
    return _two_times(read)


@case(
    SUITE,
    "overriding watermark should not fail in compatibility mode",
    inputs=PAIR,
    steps=[{"in": [(100, 200)]}, {"in": [(500, 700)]}, {"in": [(900, 900)]}],
    session=ONE_STATE,
)
def two_watermarks_as_before(read: Read) -> Any:
    return _two_times(read).select(F.col("window.start").cast("long").alias("start"), "count")


EVENTS = {"one": "_1 string, _2 long", "two": "_1 string, _2 long"}
AB = [{"one": [("A", 200), ("B", 300)], "two": [("A", 190), ("C", 350)]}]


def _joined(read: Read) -> Any:
    one = read("one").selectExpr("_1 AS id1", "timestamp_seconds(_2) AS ts1").withWatermark("ts1", "1 minute")
    two = read("two").selectExpr("_1 AS id2", "timestamp_seconds(_2) AS ts2").withWatermark("ts2", "2 minutes")
    joined = one.join(two, F.expr("id1 = id2 AND ts1 = ts2 + INTERVAL 10 SECONDS"), "inner")
    rows = joined.selectExpr("id1", "ts1", "ts2").dropDuplicates()
    return rows.selectExpr("id1", "CAST(ts1 AS LONG) AS ts1", "CAST(ts2 AS LONG) AS ts2")


@case(
    SUITE,
    "multiple event time columns in an input DataFrame for stateful operator is not allowed",
    inputs=EVENTS,
    steps=AB,
    refused="More than one event time columns are available",
    why="The left side's event time is that of the join, as in Spark's compatibility mode.",
)
def two_times_in_a_dedup(read: Read) -> Any:
    return _joined(read)


@case(
    SUITE,
    "stateful operator should pick the first occurrence of event time column if there is multiple event time columns"
    " in compatibility mode",
    inputs=EVENTS,
    steps=AB,
    session=ONE_STATE,
)
def two_times_in_a_dedup_as_before(read: Read) -> Any:
    return _joined(read)


@case(
    SUITE,
    "SPARK-21565: watermark operator accepts attributes from replacement",
    inputs={"in": "symbol string, price double, at long"},
    steps=[{"in": [("a", 100.0, 1)]}, {"in": [("b", 100.0, 100)]}],
)
def by_a_column_and_the_time(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("at")).withWatermark("eventTime", "2 seconds")
    counts = rows.groupBy("symbol", "eventTime").agg(F.count("price").alias("count"))
    return counts.select("symbol", "eventTime", "count")


@case(
    SUITE,
    "SPARK-27340 Alias on TimeWindow expression cause watermark metadata lost",
    inputs=INT,
    steps=[{"in": TEN}, {"in": [25]}, {"in": [10]}],
    history=2,
)
def by_an_aliased_window(read: Read) -> Any:
    rows = timed(read).select(F.window("eventTime", "5 seconds").alias("aliasWindow"))
    counts = rows.groupBy("aliasWindow").agg(F.count("*").alias("count"))
    return counts.select(F.col("aliasWindow").getField("start").cast("long").alias("start"), "count")


FLAGGED = {"inputs": INT, "steps": [{"in": TEN}, {"in": [25]}]}


@case(SUITE, "test no-data flag", **FLAGGED)
def windows_with_micro_batches_without_rows(read: Read) -> Any:
    return counted(timed(read))


@case(SUITE, "test no-data flag", **FLAGGED, session=WAITING, may_be_empty=True)
def windows_without_micro_batches_without_rows(read: Read) -> Any:
    return counted(timed(read))


def _united(read: Read) -> Any:
    rows = timed(read, "10 seconds", "one").union(timed(read, "15 seconds", "two"))
    return rows.select(F.col("eventTime").cast("int").alias("eventTime"))


UNITED = [{"one": [20], "two": [30]}, RESTART, {"one": [120], "two": [130]}, {"one": [150]}]


@case(
    SUITE,
    "MultipleWatermarkPolicy: max",
    inputs=TWO,
    steps=UNITED,
    session={"spark.sql.streaming.multipleWatermarkPolicy": "max"},
)
def the_greatest_watermark(read: Read) -> Any:
    return _united(read)


@case(
    SUITE,
    "MultipleWatermarkPolicy: min",
    inputs=TWO,
    steps=UNITED,
    session={"spark.sql.streaming.multipleWatermarkPolicy": "min"},
)
def the_least_watermark(read: Read) -> Any:
    return _united(read)


ANSI = "SPARK-35815: Support ANSI intervals for delay threshold (spark.sql.legacy.interval.enabled={})"
DAYS = 86_400


def _ansi(name: str, delay: str, refused: str = "") -> None:
    for legacy in ("true", "false"):

        def query(read: Read) -> Any:
            return counted(timed(read, delay))

        query.__name__ = f"{name}_{legacy}"
        steps = [{"in": [1000 * DAYS, 1000 * DAYS + 7]}, {"in": [1001 * DAYS + 7300]}, {"in": [2000 * DAYS]}]
        session = {"spark.sql.legacy.interval.enabled": legacy}
        case(SUITE, ANSI.format(legacy), inputs=INT, steps=steps, session=session, refused=refused)(query)


_ansi("with_a_delay_of_days_to_seconds", "interval '1 2:3:4' day to second")
_ansi("with_a_delay_of_years_and_months", "\tinterval '1-2' year to month")
_ansi("with_a_delay_of_nonsense", "interval '5' foo", "foo")
