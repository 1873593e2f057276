"""Arguments of aggregates whose SQL text does not say what was written, through whole jobs: stock Spark's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets an option until the end of the test."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        before[name] = str(spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def folders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """History and live rows."""
    rows = spark.range(60).select(
        F.concat(F.lit("k"), F.col("id") % 3).alias("k"),
        F.col("id").cast("int").alias("v"),
        F.col("id").cast("string").alias("s"),
        F.struct(F.col("id").alias("x"), F.concat(F.lit("z"), F.col("id") % 4).alias("y")).alias("st"),
        F.array(F.col("id").cast("int"), F.lit(None), F.lit(3)).alias("l"),
        F.timestamp_seconds(F.col("id") * 1000).alias("ts"),
    )
    base = tmp_path_factory.mktemp("arguments")
    paths = str(base / "history"), str(base / "live")
    rows.where("v < 35").coalesce(1).write.parquet(paths[0])
    rows.where("v >= 35").repartitionByRange(2, "v").write.parquet(paths[1])
    return paths


def arguments() -> list[Column]:
    """Names of struct fields, casts to nested types, options, substituted literals, lambdas, functions in SQL."""
    v, items = F.col("v"), F.col("l")
    doubled = F.element_at(F.transform(items, lambda item: item * 2 + v), 1)
    return [
        F.max_by(F.struct(v.alias("amount")), "v").alias("renamed"),
        F.max(F.struct(v.alias("s"), F.col("s").alias("v"))).alias("swapped"),
        F.min(F.struct("v")).alias("plain"),
        F.max(F.col("st").cast("struct<p:int,q:string>")).alias("nested_cast"),
        F.max(F.array_max(F.array("s").cast("array<int>"))).alias("array_cast"),
        F.max(F.to_csv(F.struct("v", "s"), {"sep": "|"})).alias("bars"),
        F.max(F.to_csv(F.struct("v", "s"), {"sep": ";"})).alias("semicolons"),
        F.max(F.from_json(F.concat(F.lit('{"a":'), "s", F.lit("}")), "a int")["a"]).alias("json"),
        F.max(F.lit("${env:HOME}")).alias("substituted"),
        F.sum(doubled).alias("sum"),
        F.avg(doubled).alias("mean"),
        F.median(doubled).alias("median"),
        F.approx_count_distinct(F.struct(v.alias("u"))).alias("approximately"),
        F.count_distinct(F.struct((v % 4).alias("u")), F.filter(items, lambda item: item > 50)).alias("distinct"),
        F.max(F.expr("transform(l, x -> aggregate(l, x, (a, y) -> a + coalesce(y, 1)))")).alias("nested_lambda"),
        F.max(F.array_sort(items, lambda a, b: F.when(a < b, 1).otherwise(-1))).alias("sorted"),
        # The argument is not computed where the condition does not hold.
        F.expr("sum(aggregate(array(100 div v), 0L, (a, x) -> a + x)) FILTER (WHERE exists(l, x -> x > 3))").alias(
            "if"
        ),
        F.sum(F.expr("plus_one(v)")).alias("in_sql"),
        (F.max(F.struct(v.alias("u")))["u"] + F.count("*")).alias("expression"),
        F.count("*").alias("n"),
    ]


def results(spark: SparkSession, folders: tuple[str, str], folder: Path, mode: str, exprs: list[Column]) -> list[Row]:
    """The last row of each key."""
    history = spark.read.parquet(folders[0])
    live = spark.readStream.schema(history.schema).option("maxFilesPerTrigger", 1).parquet(folders[1])
    read = mixedmode.read(history=spark.read.parquet(*folders)) if mode == "batch" else mixedmode.read(history, live)
    found: dict[Any, Row] = {}

    def take(frame: DataFrame, number: int) -> None:
        for row in frame.collect():
            if row.k not in found or found[row.k].n <= row.n:
                found[row.k] = row

    writer = read.groupBy("k").agg(*exprs).writeStream.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder)).option("execution.runtime-mode", mode)
    writer = writer.option("execution.history.rows-per-epoch", 20)
    query = (writer if mode == "batch" else writer.trigger(availableNow=True)).start()
    query.awaitTermination()
    return sorted(found.values())


def stock(spark: SparkSession, folders: tuple[str, str], exprs: list[Column]) -> list[Row]:
    return sorted(spark.read.parquet(*folders).groupBy("k").agg(*exprs).collect())


@pytest.mark.slow
def test_arguments_mean_what_they_mean_in_stock_spark(
    spark: SparkSession, folders: tuple[str, str], tmp_path: Path
) -> None:
    """Each of them over the backlog, over micro-batches, and merged over epochs."""
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus_one(x INT) RETURNS INT RETURN x + 1")
    expected = stock(spark, folders, arguments())
    for mode in ("mixed", "streaming"):
        assert results(spark, folders, tmp_path / mode, mode, arguments()) == expected, mode
    assert expected[0].renamed.amount == 57


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "make"),
    [
        ("spark.sql.parser.escapedStringLiterals", "true", lambda: F.sum(F.when(F.col("s") == "\\", 1).otherwise(0))),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", lambda: F.max(F.lit(datetime(2024, 1, 1, tzinfo=timezone.utc)))),
    ],
)
def test_settings_do_not_change_what_was_written(
    spark: SparkSession,
    setting: Callable[[str, str], None],
    folders: tuple[str, str],
    tmp_path: Path,
    name: str,
    value: str,
    make: Callable[[], Column],
) -> None:
    """Literals are read back otherwise than they are written under these settings."""
    setting(name, value)
    exprs = [make().alias("value"), F.count("*").alias("n")]
    assert results(spark, folders, tmp_path, "batch", exprs) == stock(spark, folders, exprs)


def test_nulls_that_only_one_input_has_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    """The history's arrays hold no nulls, the live input's do, and a lambda asks for them."""
    history = spark.range(4).selectExpr("'k' AS k", "array(id) AS l")
    spark.sql("SELECT 'k' AS k, array(1L, null) AS l").write.parquet(str(tmp_path / "live"))
    live = spark.readStream.schema("k string, l array<long>").parquet(str(tmp_path / "live"))
    found: list[Row] = []
    exprs = F.sum(F.size(F.filter("l", lambda item: item.isNull()))).alias("nulls")
    writer = mixedmode.read(history, live).groupBy("k").agg(exprs).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda frame, number: found.extend(frame.collect())).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoints")).start().awaitTermination()
    assert [row.nulls for row in found][-1:] == [1]


def test_names_that_differ_in_case_are_two_where_the_session_says_so(
    spark: SparkSession, setting: Callable[[str, str], None], tmp_path: Path
) -> None:
    """Keys, arguments and results; the job's own threads follow the session as well."""
    setting("spark.sql.caseSensitive", "true")
    rows = spark.range(24).selectExpr("concat('k', id % 3) AS k", "concat('K', id % 2) AS K", "id AS v", "-id AS V")
    exprs = [F.sum("v").alias("v"), F.max(F.struct(F.col("V").alias("v"), F.col("v").alias("V"))).alias("V")]
    found: list[Row] = []
    writer = mixedmode.read(history=rows).groupBy("k", "K").agg(*exprs).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda frame, number: found.extend(frame.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path)).option("execution.runtime-mode", "batch")
    writer.start().awaitTermination()
    assert sorted(found) == sorted(rows.groupBy("k", "K").agg(*exprs).collect())
