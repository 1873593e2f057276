"""Deduplication: StreamingDeduplicationSuite, StreamingDeduplicationWithinWatermarkSuite."""

from __future__ import annotations

import struct
from typing import Any

from pyspark.sql import functions as F

from ..case import AT_THE_WATERMARK, RESTART, Read, case

DEDUP, WITHIN = "StreamingDeduplicationSuite", "StreamingDeduplicationWithinWatermarkSuite"
TEXT, PAIR, INT = {"in": "value string"}, {"in": "_1 string, _2 int"}, {"in": "value int"}
NAN = float("nan")
#: A NaN of other bits than the usual one.
OTHER_NAN: float = struct.unpack("<f", struct.pack("<I", 0x7FC00123))[0]
FLOAT = {"inputs": {"in": "f float, id int"}, "steps": [{"in": [(NAN, 1)]}, {"in": [(OTHER_NAN, 2)]}]}
THIRTY = [n for _ in range(5) for n in range(10, 16)]


def timed(read: Read, delay: str = "10 seconds", column: str = "value") -> Any:
    return read("in").withColumn("eventTime", F.timestamp_seconds(column)).withWatermark("eventTime", delay)


def seconds() -> Any:
    return F.col("eventTime").cast("long").alias("eventTime")


@case(DEDUP, "deduplicate with all columns", inputs=TEXT, steps=[{"in": ["a"]}, {"in": ["a"]}, {"in": ["b"]}])
def all_columns(read: Read) -> Any:
    return read("in").dropDuplicates()


@case(
    DEDUP,
    "deduplicate with file sink",
    inputs=TEXT,
    steps=[{"in": ["a"]}, {"in": ["a"]}, {"in": ["b"]}],
    history=2,
)
def all_columns_with_a_longer_history(read: Read) -> Any:
    return read("in").dropDuplicates()


@case(
    DEDUP,
    "same NaN bit pattern should be deduplicated",
    inputs={"in": "value float, id int"},
    steps=[{"in": [(NAN, 1)]}, {"in": [(NAN, 2)]}],
)
def by_nan(read: Read) -> Any:
    return read("in").dropDuplicates(["value"])


@case(DEDUP, "NaN normalization in dedup key: scalar float", **FLOAT)
def by_several_nans(read: Read) -> Any:
    return read("in").withColumn("key", F.col("f")).dropDuplicates(["key"]).select("f", "id")


@case(DEDUP, "NaN normalization in dedup key: struct containing float", **FLOAT)
def by_several_nans_in_a_struct(read: Read) -> Any:
    return read("in").withColumn("key", F.struct("f")).dropDuplicates(["key"]).select("f", "id")


@case(DEDUP, "NaN normalization in dedup key: array containing float", **FLOAT)
def by_several_nans_in_an_array(read: Read) -> Any:
    return read("in").withColumn("key", F.array("f")).dropDuplicates(["key"]).select("f", "id")


@case(
    DEDUP,
    "negative zero and positive zero should be deduplicated",
    inputs={"in": "value float, id int"},
    steps=[{"in": [(0.0, 1)]}, {"in": [(-0.0, 2)]}],
)
def by_both_zeros(read: Read) -> Any:
    return read("in").dropDuplicates(["value"])


SOME = [{"in": [("a", 1)]}, {"in": [("a", 2)]}, {"in": [("b", 1)]}]


@case(DEDUP, "deduplicate with some columns", inputs=PAIR, steps=SOME, history=2)
def some_columns(read: Read) -> Any:
    return read("in").dropDuplicates(["_1"])


@case(DEDUP, "multiple deduplicates", inputs=PAIR, steps=SOME)
def twice(read: Read) -> Any:
    return read("in").dropDuplicates().dropDuplicates(["_1"])


@case(
    DEDUP,
    "SPARK-35896: metrics in StateOperatorProgress are output correctly",
    inputs=INT,
    steps=[{"in": THIRTY}, {"in": [25]}, {"in": [10]}, {"in": [10]}],
)
def with_a_watermark_that_is_measured(read: Read) -> Any:
    return timed(read).dropDuplicates().select(seconds())


@case(
    DEDUP,
    "deduplicate with watermark",
    inputs=INT,
    steps=[{"in": THIRTY}, {"in": [25]}, {"in": [10]}, {"in": [45]}],
)
def with_a_watermark(read: Read) -> Any:
    return timed(read).dropDuplicates().select(seconds())


@case(
    DEDUP,
    "deduplicate with aggregate - append mode",
    inputs=INT,
    steps=[{"in": THIRTY}, {"in": [25]}, {"in": [10]}, {"in": [40]}],
)
def before_windows(read: Read) -> Any:
    windows = timed(read).dropDuplicates().groupBy(F.window("eventTime", "5 seconds"))
    return windows.agg(F.count("*").alias("count")).select(F.col("window.start").cast("long").alias("start"), "count")


AGGREGATED = [{"in": [("a", 1)]}, {"in": [("a", 1)]}, {"in": [("a", 2)]}, {"in": [("b", 1)]}]


def _sums(read: Read) -> Any:
    rows = read("in").select(F.col("_1").alias("str"), F.col("_2").alias("num"))
    return rows.dropDuplicates().groupBy("str").agg(F.sum("num").alias("total"))


@case(
    DEDUP,
    "deduplicate with aggregate - update mode",
    inputs=PAIR,
    steps=AGGREGATED,
    mode="update",
    keys=("str",),
    history=2,
)
def before_an_aggregate_as_updates(read: Read) -> Any:
    return _sums(read)


@case(
    DEDUP,
    "deduplicate with aggregate - complete mode",
    inputs=PAIR,
    steps=AGGREGATED,
    mode="complete",
    history=2,
)
def before_a_complete_aggregate(read: Read) -> Any:
    return _sums(read)


@case(
    DEDUP,
    "SPARK-19841: watermarkPredicate should filter based on keys",
    why=AT_THE_WATERMARK,
    inputs={"in": "time int, id int"},
    steps=[
        {"in": [(1, 1), (1, 1), (1, 2)]},
        {"in": [(1, 1), (2, 3), (2, 4)]},
        {"in": [(1, 0), (1, 1), (3, 5), (3, 6)]},
        {"in": [(1, 0), (4, 7)]},
    ],
)
def by_a_column_before_the_time(read: Read) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("time")).withWatermark("time", "1 second")
    return rows.dropDuplicates(["id", "time"]).select("id")


@case(
    DEDUP,
    "SPARK-21546: dropDuplicates should ignore watermark when it's not a key",
    inputs={"in": "id int, time int"},
    steps=[{"in": [(1, 1), (1, 2), (2, 2)]}],
)
def without_the_time(read: Read) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("time")).withWatermark("time", "1 second")
    return rows.dropDuplicates(["id"]).select("id", F.col("time").cast("long").alias("time"))


FLAGGED = {"inputs": INT, "steps": [{"in": [10, 11, 12, 13, 14, 15]}, {"in": [25]}]}


@case(DEDUP, "test no-data flag", **FLAGGED)
def with_micro_batches_without_rows(read: Read) -> Any:
    return timed(read).dropDuplicates().select(seconds())


@case(
    DEDUP,
    "test no-data flag",
    **FLAGGED,
    session={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
)
def without_micro_batches_without_rows(read: Read) -> Any:
    return timed(read).dropDuplicates().select(seconds())


@case(
    DEDUP,
    "SPARK-29438: ensure UNION doesn't lead streaming deduplication to use shifted partition IDs",
    inputs={"one": "value int", "two": "value int"},
    steps=[{"one": [11, 12], "two": [21, 22]}, RESTART, {"one": [13, 14], "two": [22, 23]}],
)
def in_a_union(read: Read) -> Any:
    return read("one").select("value").union(read("two").dropDuplicates(["value"]))


@case(
    DEDUP,
    "SPARK-35880: custom metric numDroppedDuplicateRows in state operator progress",
    inputs=PAIR,
    steps=[{"in": [("a", 1)]}, {"in": [("a", 2), ("b", 3)]}, {"in": [("a", 5), ("b", 2), ("c", 9)]}],
)
def some_columns_that_are_measured(read: Read) -> Any:
    return read("in").dropDuplicates(["_1"])


@case(
    DEDUP,
    "SPARK-35880: custom metric numDroppedDuplicateRows in state operator progress",
    inputs=INT,
    steps=[{"in": THIRTY}, {"in": [14]}, {"in": [25]}, {"in": [10]}, {"in": [26, 26]}],
)
def with_a_watermark_that_is_measured_longer(read: Read) -> Any:
    return timed(read).dropDuplicates().select(seconds())


@case(
    DEDUP,
    "collation aware deduplication",
    inputs=PAIR,
    steps=[{"in": [("a", 1)]}, {"in": [("a", 2)]}, {"in": [("ä", 1)]}],
)
def by_binary_collation(read: Read) -> Any:
    rows = read("in").select(
        F.expr("try_cast(_1 AS STRING COLLATE UTF8_BINARY)").alias("str"), F.col("_2").alias("int")
    )
    return rows.dropDuplicates(["str"])


@case(
    DEDUP,
    "non-binary collation aware deduplication not supported",
    inputs=TEXT,
    steps=[{"in": ["a"]}],
    refused="BINARY_INEQUALITY",
)
def by_other_collations(read: Read) -> Any:
    rows = read("in").select(F.expr("try_cast(value AS STRING COLLATE UTF8_LCASE)").alias("str"))
    return rows.dropDuplicates(["str"])


@case(
    WITHIN,
    "deduplicate without event time column should result in error",
    inputs=TEXT,
    steps=[{"in": ["a"]}],
    refused="streaming DataFrames/DataSets without watermark",
)
def within_no_watermark(read: Read) -> Any:
    return read("in").dropDuplicatesWithinWatermark()


@case(
    WITHIN,
    "deduplicate without event time column should result in error",
    inputs=TEXT,
    steps=[{"in": ["a"]}],
    refused="streaming DataFrames/DataSets without watermark",
)
def within_no_watermark_by_a_column(read: Read) -> Any:
    return read("in").withColumn("newcol", F.col("value")).dropDuplicatesWithinWatermark(["newcol"])


@case(
    WITHIN,
    "deduplicate without event time column should result in error",
    inputs={**TEXT, "other": "_1 string, _2 int"},
    steps=[{"in": ["a"], "other": [("a", 1)]}],
    refused="streaming DataFrames/DataSets without watermark",
)
def within_no_watermark_before_a_join(read: Read) -> Any:
    other = read("other").select(F.col("_1").alias("key"), F.timestamp_seconds("_2").alias("time"))
    deduplicated = read("in").select(F.col("value").alias("key")).dropDuplicatesWithinWatermark()
    return deduplicated.join(other.withWatermark("Time", "10 seconds"), "key")


@case(
    WITHIN,
    "deduplicate with all columns with event time column in DataFrame",
    inputs=INT,
    steps=[{"in": THIRTY}, {"in": [13, 14, 15, 16, 17]}, {"in": [5]}, {"in": [35]}, {"in": [55]}],
    history=2,
)
def within_all_columns(read: Read) -> Any:
    return timed(read).dropDuplicatesWithinWatermark().select(seconds())


@case(
    WITHIN,
    "deduplicate with subset of columns which event time column is not in subset",
    inputs=PAIR,
    steps=[
        {"in": [("a", 17)]},
        {"in": [("a", 16)]},
        {"in": [("a", 13)]},
        {"in": [("b", 22), ("c", 21)]},
        {"in": [("a", 21)]},
        {"in": [("d", 25)]},
    ],
)
def within_some_columns(read: Read) -> Any:
    return timed(read, "2 seconds", "_2").dropDuplicatesWithinWatermark(["_1"]).select("_1", seconds())


@case(
    WITHIN,
    "SPARK-46676: canonicalization of StreamingDeduplicateWithinWatermarkExec should work",
    inputs=PAIR,
    steps=[{"in": [("a", 1)]}, {"in": [("a", 2), ("b", 3)]}],
    history=2,
)
def within_some_columns_of_two_micro_batches(read: Read) -> Any:
    return timed(read, "10 seconds", "_2").dropDuplicatesWithinWatermark(["_1"]).select("_1", seconds())


@case(
    WITHIN,
    "SPARK-50492: drop event time column after dropDuplicatesWithinWatermark",
    inputs={"in": "_1 int, _2 int"},
    steps=[{"in": [(1, 2)]}],
)
def within_and_without_the_time_behind(read: Read) -> Any:
    rows = read("in").withColumn("first", F.timestamp_seconds("_1")).withWatermark("first", "10 seconds")
    return rows.dropDuplicatesWithinWatermark(["_2"]).select("_2")
