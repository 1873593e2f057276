"""A plan that is made once gives, over each epoch's rows, what its operations give; where it cannot, there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from mixedmode.runtime.catalyst.prepared.micro_batch import handed_over
from mixedmode.runtime.catalyst.prepared.prepared_logical_plan import PlanShape, PreparedLogicalPlan
from mixedmode.runtime.catalyst.prepared.prepared_physical_plan import PreparedPhysicalPlan
from mixedmode.runtime.catalyst.spark_session import activate
from mixedmode.runtime.jvm.gateway import java_class, java_session, query_execution
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

ROWS = StructType([StructField("key", LongType()), StructField("a`b.c", LongType(), False)])
COUNTED = StructType([StructField("key", LongType()), StructField("n", LongType())])


def adding(number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            added = [value + number for value in batch.column("n").to_pylist()]
            yield pa.RecordBatch.from_arrays([batch.column("key"), pa.array(added, pa.int64())], names=["key", "n"])

    return run


def counted(rows: DataFrame) -> DataFrame:
    """Operations of the kind that stages have: rows below a bound, counted by key, and given to a function."""
    found = rows.where("`a``b.c` < bound").groupBy("key").agg(F.count("*").alias("n"))
    return found.repartition(2, "key").sortWithinPartitions("key").mapInArrow(adding(0), COUNTED)


def frame(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).select((F.col("id") % 3).alias("key"), F.col("id").alias("a`b.c"))


def check_operations(
    spark: SparkSession,
    template: PreparedLogicalPlan | PreparedPhysicalPlan | None,
    given: Callable[[DataFrame], DataFrame],
) -> None:
    """A template over rows, as they are given to it, is what the operations are over them."""
    assert template is not None
    for rows, bound, added in ((10, 10, 0), (10, 4, 100), (30, -(2**40), 1), (0, 5, 1), (12, 2**62, 1)):
        made = template.over(given(frame(spark, rows)), [adding(added)], {"bound": bound})
        expected = counted(frame(spark, rows).withColumn("bound", F.lit(bound)))
        assert made.schema == expected.schema
        assert sorted(made.collect()) == sorted((key, n + added) for key, n in expected.collect())


@pytest.mark.slow
def test_it_is_the_operations_over_other_rows_with_other_functions_and_numbers(spark: SparkSession) -> None:
    """Rows, bound and function change; the template does not, and neither do the types."""
    template = PreparedLogicalPlan.of(spark, ROWS, counted, [COUNTED], ["bound"])
    check_operations(spark, template, lambda rows: rows)


def test_there_is_none_for_what_is_not_the_same_each_time(spark: SparkSession) -> None:
    """Other tables beside the rows, none of the rows, random values, subqueries, and functions nobody told of."""
    spark.range(3).createOrReplaceTempView("templates_other")
    others: list[Callable[[DataFrame], DataFrame]] = [
        lambda rows: rows.join(spark.range(3).withColumnRenamed("id", "key"), "key"),
        lambda rows: rows.union(rows),
        lambda rows: spark.range(3).toDF("key"),
        lambda rows: rows.withColumn("x", F.expr("uuid()")),
        lambda rows: rows.where("key IN (SELECT id FROM templates_other)"),
        lambda rows: rows.select("key").mapInArrow(adding(1), COUNTED),
    ]
    try:
        assert [PreparedLogicalPlan.of(spark, ROWS, make, []) for make in others] == [None] * len(others)
        assert PreparedLogicalPlan.of(spark, ROWS, lambda rows: rows.select("key"), [COUNTED]) is None
    finally:
        spark.catalog.dropTempView("templates_other")


def test_shapes_tell_columns_and_steps_apart(spark: SparkSession) -> None:
    """Not what is read, and not how much of it."""
    shape = PlanShape.of(frame(spark, 3))
    assert shape.kinds == ("Project", "Range")
    assert shape == PlanShape.of(frame(spark, 5))
    assert shape != PlanShape.of(frame(spark, 3).where("key > 1"))
    assert shape != PlanShape.of(frame(spark, 3).select("key"))
    assert shape != PlanShape.of(frame(spark, 3).withMetadata("key", {"a": 1}))


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Without adaptive execution, as sessions that plan stages are."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def as_rdd(rows: DataFrame) -> DataFrame:
    """The rows as a micro-batch has them."""
    spark = rows.sparkSession
    schema = java_session(spark).parseDataType(rows.schema.json())
    return DataFrame(java_session(spark).internalCreateDataFrame(query_execution(rows).toRdd(), schema, False), spark)


@pytest.mark.slow
def test_a_physical_plan_is_the_operations_over_other_rows_with_other_functions_and_numbers(
    spark: SparkSession, session: SparkSession
) -> None:
    """Rows, bound and function change; the plan and the types do not.  The rows are of another session."""
    assert PlanShape.of(as_rdd(frame(spark, 1))).is_rdd
    assert not PlanShape.of(frame(spark, 1)).is_rdd
    template = PreparedPhysicalPlan.of(session, ROWS, counted, [COUNTED], ["bound"], lambda _: True)
    check_operations(spark, template, as_rdd)


def test_there_is_no_physical_plan_that_is_not_as_expected(spark: SparkSession, session: SparkSession) -> None:
    """Nor where Spark adapts plans as they run, or reads something else."""
    assert PreparedPhysicalPlan.of(session, ROWS, counted, [COUNTED], ["bound"], lambda _: False) is None
    assert (
        PreparedPhysicalPlan.of(session, ROWS, lambda _: session.range(3).toDF("key"), [], [], lambda _: True) is None
    )
    assert PreparedPhysicalPlan.of(session, ROWS, lambda rows: rows.union(rows), [], [], lambda _: True) is None
    adapting = spark.newSession()
    adapting.conf.set("spark.sql.adaptive.enabled", "true")
    assert PreparedPhysicalPlan.of(adapting, ROWS, counted, [COUNTED], ["bound"], lambda _: True) is None


def test_a_number_is_not_part_of_the_code_that_spark_compiles(spark: SparkSession, session: SparkSession) -> None:
    """Another bound in each epoch would have Spark compile each epoch's code anew."""
    compiled = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    template = PreparedPhysicalPlan.of(session, ROWS, counted, [COUNTED], ["bound"], lambda _: True)
    assert template is not None
    rows = as_rdd(frame(spark, 10))
    template.over(rows, [adding(0)], {"bound": 3}).collect()
    before = compiled.getCount()
    for bound in (4, 5, 6):
        assert sum(n for _, n in template.over(rows, [adding(0)], {"bound": bound}).collect()) == bound
    assert compiled.getCount() == before


def test_within_a_micro_batch_rows_are_collected_without_a_frame(spark: SparkSession, session: SparkSession) -> None:
    """They are the same; a function that is not told stays the one that the plan was made with; what a function has
    been given by broadcast comes along."""
    template = PreparedPhysicalPlan.of(session, ROWS, counted, [COUNTED], ["bound"], lambda _: True)
    assert template is not None and template.collector is not None
    rows, bound, more = as_rdd(frame(spark, 10)), {"bound": 9}, spark.sparkContext.broadcast(7)

    def adding_more(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return adding(more.value)(batches)

    expected = sorted(template.collected(rows, [adding(0)], bound))
    with handed_over(rows, spark):
        assert sorted(template.collected(rows, [None], bound)) == expected
        assert sorted(template.collected(rows, [adding_more], bound)) == [(key, n + 7) for key, n in expected]
    more.destroy()


def test_a_function_that_stays_is_not_the_one_that_the_plan_was_tried_with(
    spark: SparkSession, session: SparkSession
) -> None:
    """Also where it is not the last step."""

    def made(rows: DataFrame) -> DataFrame:
        return rows.groupBy("key").agg(F.count("*").alias("n")).mapInArrow(adding(5), COUNTED).where("n > 0")

    template = PreparedPhysicalPlan.of(session, ROWS, made, [COUNTED], [], lambda _: True)
    assert template is not None and not template.ends_in_function
    assert sorted(template.over(as_rdd(frame(spark, 9)), [None], {}).collect()) == [(key, 8) for key in range(3)]


def test_the_threads_session_stays_while_a_plan_is_made(spark: SparkSession, session: SparkSession) -> None:
    """The user's functions, and Spark, ask for it."""
    activate(spark)
    assert PreparedPhysicalPlan.of(session, ROWS, counted, [COUNTED], ["bound"], lambda _: True) is not None
    active = java_class(spark, "org.apache.spark.sql.classic.SparkSession").getActiveSession()
    assert active.get().equals(java_session(spark))


def test_rows_that_are_joined_on_the_way_stay(spark: SparkSession, session: SparkSession) -> None:
    """Of an own column, by which the template is told of them; every other join has no template."""
    beside = as_rdd(session.range(3).select(F.col("id").alias("beside")))

    def made(rows: DataFrame) -> DataFrame:
        placed = rows.where("`a``b.c` < bound").repartition(2, "key")
        joined = beside.hint("shuffle_hash").join(placed, F.expr("beside = key"), "left")
        return joined.groupBy("beside").agg(F.count("key").alias("n")).toDF("key", "n").mapInArrow(adding(0), COUNTED)

    nodes = PreparedLogicalPlan.of(session, ROWS, made, [COUNTED], ["bound"], "beside")
    executed = PreparedPhysicalPlan.of(session, ROWS, made, [COUNTED], ["bound"], lambda _: True, beside="beside")
    assert nodes is not None and executed is not None
    for rows, bound, added in ((10, 10, 0), (10, 4, 100), (0, 5, 1)):
        expected = sorted(made(frame(session, rows).withColumn("bound", F.lit(bound))).collect())
        for template in (nodes, executed):
            found = template.over(as_rdd(frame(spark, rows)), [adding(added)], {"bound": bound})
            assert sorted(found.collect()) == [(key, n + added) for key, n in expected]
    assert PreparedLogicalPlan.of(session, ROWS, made, [COUNTED], ["bound"], "other") is None
    assert PreparedPhysicalPlan.of(session, ROWS, made, [COUNTED], ["bound"], lambda _: True) is None
