"""A plan that is made once gives, over each epoch's rows, what its operations give; where it cannot, there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from mixedmode.runtime.platform.plan_templates import PlanShape, PlanTemplate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

ROWS = StructType([StructField("key", LongType()), StructField("a`b.c", LongType(), False)])
COUNTED = StructType([StructField("key", LongType()), StructField("n", LongType())])

pytestmark = pytest.mark.spark


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


def test_it_is_the_operations_over_other_rows_with_other_functions_and_numbers(spark: SparkSession) -> None:
    """Rows, bound and function change; the template does not, and neither do the types."""
    template = PlanTemplate.of(spark, ROWS, counted, [COUNTED], ["bound"])
    assert template is not None
    for rows, bound, added in ((10, 10, 0), (10, 4, 100), (30, -(2**40), 1), (0, 5, 1), (12, 2**62, 1)):
        made = template.over(frame(spark, rows), [adding(added)], {"bound": bound})
        expected = counted(frame(spark, rows).withColumn("bound", F.lit(bound)))
        assert made.schema == expected.schema
        assert sorted(made.collect()) == sorted((key, n + added) for key, n in expected.collect())


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
        assert [PlanTemplate.of(spark, ROWS, make, []) for make in others] == [None] * len(others)
        assert PlanTemplate.of(spark, ROWS, lambda rows: rows.select("key"), [COUNTED]) is None
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
