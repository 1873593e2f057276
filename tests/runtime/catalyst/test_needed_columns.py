"""Which columns of its input a plan looks at."""

from __future__ import annotations

from collections.abc import Callable

from mixedmode.runtime.catalyst.needed_columns import needed_columns
from mixedmode.runtime.catalyst.spark_session import frame_without_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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


def test_columns_have_their_own_names(spark: SparkSession) -> None:
    """However expressions spell them: Spark does not tell upper from lower case."""
    assert looked_at(spark, lambda rows: rows.groupBy("KEY").agg(F.sum("Amount"))) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.where("UNUSED > 1").select("Inner.A")) == ["inner", "unused"]
    assert looked_at(spark, lambda rows: rows.select(F.col("Key").alias("other"), "AMOUNT")) == ["key", "amount"]


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

    def the_first(rows: DataFrame) -> DataFrame:
        return spark.sql("SELECT key, (SELECT unused FROM {rows}) AS first FROM {rows}", rows=rows)

    assert looked_at(spark, above_the_greatest) == ["key", "unused"]
    assert looked_at(spark, the_first) == ["key", "unused"]
    assert looked_at(spark, lambda rows: rows.select("key"), lambda rows: rows.select("amount")) == ["key", "amount"]
    assert looked_at(spark, lambda rows: rows.where("false")) == []


def test_what_is_of_no_use_yet_is_looked_at(spark: SparkSession) -> None:
    """Micro-batches go on for days: what expressions say of a moment holds before it, or behind it, only."""
    before, after = ("TIMESTAMP'9999-01-01' > now()", "current_date() > DATE'9999-01-01'")
    later = [
        lambda rows: rows.selectExpr(f"CASE WHEN {before} THEN key ELSE amount END"),
        lambda rows: rows.selectExpr("key", f"if({after}, inner.a, amount)").drop("key"),
        lambda rows: rows.where(f"{before} OR unused > 1").select("key"),
        lambda rows: (
            rows.withColumn("seen", F.now()).alias("all").where(f"{after} AND unused > 1").groupBy("key").count()
        ),
    ]
    expected = [["key", "amount"], ["amount", "inner"], ["key", "unused"], ["key", "unused"]]
    assert [looked_at(spark, make) for make in later] == expected


def test_the_time_of_now_asks_for_no_other_columns(spark: SparkSession) -> None:
    """A column of it beside those that are handed on."""
    assert looked_at(spark, lambda rows: rows.withColumn("seen", F.now()).select("key", "seen")) == ["key"]
