"""Plain queries and limits: StreamSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..case import RESTART, Read, Restart, case

SUITE = "StreamSuite"
INT = {"in": "value int"}


def steps(*batches: range) -> list[dict[str, Any]]:
    return [{"in": list(batch)} for batch in batches]


@case(SUITE, "map with recovery", inputs=INT, steps=[{"in": [1, 2, 3]}, RESTART, {"in": [4, 5, 6]}])
def plus_one(read: Read) -> Any:
    return read("in").select((F.col("value") + 1).alias("value"))


@case(SUITE, "join", inputs=INT, steps=[{"in": [1, 2, 3]}, {"in": [4]}])
def join_with_a_small_table(read: Read) -> Any:
    from pyspark.sql import SparkSession

    words = [(1, "one"), (2, "two"), (4, "four")]
    table = SparkSession.active().createDataFrame(words, "number int, word string")
    return read("in").join(table, F.col("value") == F.col("number"))


@case(SUITE, "SPARK-20432: union one stream with itself", inputs=INT, named=False, steps=steps(range(11)))
def union_of_one_with_itself(read: Read) -> Any:
    rows = read("in").select("value")
    return rows.union(rows)


@case(
    SUITE,
    "union two streams",
    inputs={"one": "value int", "two": "value int"},
    steps=[{"one": [1, 3, 5]}, {"two": [2, 4, 6]}, RESTART, {"one": [7]}, {"two": [8]}],
)
def union_of_two_streams(read: Read) -> Any:
    return read("one").union(read("two"))


@case(SUITE, "sql queries", inputs=INT, steps=[{"in": [1, 2, 3, 4]}])
def even_numbers_in_sql(read: Read) -> Any:
    from pyspark.sql import SparkSession

    read("in").createOrReplaceTempView("stream")
    return SparkSession.active().sql("SELECT * FROM stream WHERE value % 2 = 0")


UNSUPPORTED = "unsupported queries"


@case(SUITE, UNSUPPORTED, inputs=INT, steps=[{"in": [1]}], refused="start", refuses_method=True)
def counted_like_a_table(read: Read) -> Any:
    read("in").count()


@case(SUITE, UNSUPPORTED, inputs=INT, steps=[{"in": [1]}], refused="not supported")
def sorted_stream(read: Read) -> Any:
    return read("in").sort("value")


@case(
    SUITE,
    "SPARK-19065: dropDuplicates should not create expressions using the same id",
    inputs={"in": "_1 int, _2 int"},
    steps=[{"in": [(1, 2), (2, 3), (3, 4)]}],
)
def first_of_one_column(read: Read) -> Any:
    return read("in").dropDuplicates(["_1"])


@case(
    SUITE,
    "SPARK-44044: non-time-window",
    inputs={"in": "_1 int, _2 int"},
    steps=[{"in": [(1, 2)]}],
    refused="NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
)
def row_numbers(read: Read) -> Any:
    rows = read("in").selectExpr("CAST(_1 AS timestamp) AS col1", "_2 AS col2").withWatermark("col1", "10 seconds")
    numbers = F.row_number().over(Window.partitionBy("col1").orderBy("col2"))
    return rows.withColumn("rn_col", numbers).select("rn_col", "col1", "col2")


PARTITIONS = "spark.sql.shuffle.partitions"


@case(
    SUITE,
    "SPARK-19873: streaming aggregation with change in number of partitions",
    inputs={"in": "_1 int, _2 int"},
    steps=[
        {"in": [(1, 0), (2, 0)]},
        Restart(session={PARTITIONS: "5"}),
        {"in": [(3, 0), (2, 0)]},
        Restart(session={PARTITIONS: "1"}),
        {"in": [(3, 0), (1, 0)]},
    ],
    mode="complete",
    session={PARTITIONS: "2"},
)
def counts_in_other_partitions(read: Read) -> Any:
    return read("in").groupBy("_1").count()


@case(SUITE, "streaming limit without state", inputs=INT, steps=steps(range(1, 9)), may_be_empty=True)
def no_rows(read: Read) -> Any:
    return read("in").limit(0)


@case(SUITE, "streaming limit without state", inputs=INT, steps=steps(range(1, 9)))
def four_rows(read: Read) -> Any:
    return read("in").limit(4)


@case(SUITE, "streaming limit with state", inputs=INT, steps=steps(range(1, 3), range(3, 7), range(7, 10)))
def four_rows_of_several_micro_batches(read: Read) -> Any:
    return read("in").limit(4)


@case(
    SUITE,
    "streaming limit with other operators",
    inputs=INT,
    steps=steps(range(1, 6), range(6, 10), range(10, 13)),
)
def four_odd_rows(read: Read) -> Any:
    return read("in").where("value % 2 = 1").limit(4)


SEVERAL = "streaming limit with multiple limits"


@case(SUITE, SEVERAL, inputs=INT, steps=steps(range(1, 2), range(2, 9)))
def two_of_four_rows(read: Read) -> Any:
    return read("in").limit(4).limit(2)


@case(SUITE, SEVERAL, inputs=INT, steps=steps(range(1, 3), range(3, 9)))
def three_of_four_rows(read: Read) -> Any:
    return read("in").limit(4).limit(100).limit(3)


@case(
    SUITE,
    "SPARK-30658: streaming limit before agg in complete mode",
    inputs=INT,
    steps=steps(range(1, 4), range(1, 10)),
    mode="complete",
)
def counts_of_five_rows(read: Read) -> Any:
    return read("in").limit(5).groupBy("value").count()


BEFORE_AND_AFTER = "SPARK-30658: streaming limits before and after agg in complete mode ({})"


@case(
    SUITE,
    BEFORE_AND_AFTER.format("after limit < before limit"),
    inputs=INT,
    steps=steps(range(1, 10), range(2, 7)),
    mode="complete",
)
def three_counts_of_four_rows(read: Read) -> Any:
    return read("in").limit(4).groupBy("value").count().orderBy("value").limit(3)


@case(
    SUITE,
    BEFORE_AND_AFTER.format("before limit < after limit"),
    inputs=INT,
    steps=steps(range(1, 10), range(2, 7)),
    mode="complete",
)
def three_counts_of_two_rows(read: Read) -> Any:
    return read("in").limit(2).groupBy("value").count().orderBy("value").limit(3)


@case(
    SUITE,
    "SPARK-30657: streaming limit after streaming dedup in append mode",
    inputs=INT,
    steps=[{"in": [1, 2]}, {"in": [3, 4]}],
)
def how_many_rows_behind_a_deduplication(read: Read) -> Any:
    """How many there are; which one Spark keeps depends on how its state store is divided."""
    return read("in").dropDuplicates().limit(1).select((F.col("value") <= 2).alias("early"))


@case(SUITE, "streaming limit in update mode", inputs=INT, steps=[{"in": [1]}], mode="update", refused="Update")
def five_rows_as_updates(read: Read) -> Any:
    return read("in").limit(5)


@case(SUITE, "streaming limit in multiple partitions", inputs=INT, steps=steps(range(1, 11), range(11, 21)))
def how_many_rows_of_two_partitions(read: Read) -> Any:
    """How many there are, and that all are of the first micro-batch."""
    return read("in").repartition(2).limit(7).select((F.col("value") <= 10).alias("early"))


@case(
    SUITE,
    "streaming limit in multiple partitions by column",
    inputs={"in": "_1 int, _2 int"},
    steps=[{"in": [(1, 0), (2, 0), (3, 1), (4, 1)]}, {"in": [(5, 0), (6, 0), (7, 1), (8, 1)]}],
)
def how_many_rows_of_partitions_by_a_column(read: Read) -> Any:
    return read("in").repartition(2, "_2").limit(7).select((F.col("_1") <= 4).alias("early"))


@case(
    SUITE,
    "SPARK-30657: streaming limit should not apply on limits on state subplans",
    inputs=INT,
    steps=[{"in": [1, 2, 3]}, {"in": [1, 3, 5]}],
)
def limit_of_a_static_frame(read: Read) -> Any:
    from pyspark.sql import SparkSession

    static = SparkSession.active().createDataFrame([(1,)], "value int").orderBy("value")
    return read("in").join(static.limit(1), "value")


LIMITS = "SPARK-30657: streaming limit optimization from StreamingLocalLimitExec to LocalLimitExec"


@case(SUITE, LIMITS, inputs=INT, steps=[{"in": [1]}], mode="complete")
def count_of_one_row(read: Read) -> Any:
    return read("in").limit(1).groupBy().count()


@case(SUITE, LIMITS, inputs=INT, steps=[{"in": [1]}])
def one_row_of_one_partition_behind_a_deduplication(read: Read) -> Any:
    return read("in").dropDuplicates().repartition(1).limit(1)


@case(SUITE, LIMITS, inputs=INT, steps=[{"in": [1]}], mode="complete")
def one_count(read: Read) -> Any:
    return read("in").groupBy("value").count().limit(1)
