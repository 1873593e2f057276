"""Which columns of its input a plan looks at."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mixedmode.runtime.catalyst.needed_columns import frame_without_rows, needed_columns
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

COLUMNS = ("key", "amount", "texts", "inner", "unused")


def looked_at(spark: SparkSession, *makes: Callable[[DataFrame], DataFrame]) -> list[str]:
    schema = spark.createDataFrame([], "key int, amount int, texts array<string>, inner struct<a: int>, unused int")
    read = frame_without_rows(spark, schema.schema)
    needed = needed_columns(read, [make(read) for make in makes])
    assert needed <= set(COLUMNS)
    return [name for name in COLUMNS if name in needed]


def test_what_expressions_name_is_looked_at(spark: SparkSession) -> None:
    """Also where a filter, a generator or a window names it, and not what is computed and then dropped."""
    assert looked_at(spark, lambda rows: rows.groupBy("key").agg(F.sum("amount"))) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.where("amount > 1").select("key")) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.select("key", F.explode("texts"))) == ["key", "texts"]
    assert looked_at(spark, lambda rows: rows.select("inner.a")) == ["inner"]
    by_key = "sum(amount) OVER (PARTITION BY key)"
    assert looked_at(spark, lambda rows: rows.selectExpr(by_key)) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.withColumn("more", F.expr("unused + 1")).select("key")) == ["key"]


def test_what_goes_out_is_looked_at(spark: SparkSession) -> None:
    """Rows that are handed on as they are have all columns."""
    assert looked_at(spark, lambda rows: rows.where("key > 1")) == list(COLUMNS)
    assert looked_at(spark, lambda rows: rows.drop("unused", "texts", "inner")) == ["key", "amount"]


def test_a_union_goes_by_places(spark: SparkSession) -> None:
    """The second part's columns have other names there than what is asked for above it."""
    two = ("key AS a", "amount AS b")
    assert looked_at(spark, lambda rows: rows.selectExpr(*two).union(rows.select("amount", "key"))) == ["key", "amount"]

    def one_of_each(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("key AS a", "unused AS b").union(rows.select("amount", "unused")).select("a")

    assert looked_at(spark, one_of_each) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.union(rows)) == list(COLUMNS)


def test_python_code_gets_whole_rows(spark: SparkSession) -> None:
    """Of those that it is given."""
    assert looked_at(spark, lambda rows: rows.mapInArrow(lambda batches: batches, "key int")) == list(COLUMNS)
    few = ["key", "texts"]
    assert looked_at(spark, lambda rows: rows.select(few).mapInArrow(lambda batches: batches, "key int")) == few


def test_a_subquery_looks_too(spark: SparkSession) -> None:
    """Of each plan of several: what one of them looks at is looked at."""

    def above_the_greatest(rows: DataFrame) -> DataFrame:
        return spark.sql("SELECT key FROM {rows} WHERE key > (SELECT max(unused) FROM {rows})", rows=rows)

    assert looked_at(spark, above_the_greatest) == ["key", "unused"]
    assert looked_at(spark, lambda rows: rows.select("key"), lambda rows: rows.select("amount")) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.where("false")) == []
