"""FileStreamSinkSuite of Spark: what readers find of files that a query has written, stock or mixedmode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from mixedmode import PlanError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options

from .watched import WAYS, Landing, read

pytestmark = pytest.mark.suites


def numbers(spark: SparkSession, way: str, landing: Landing) -> Any:
    """A stream of whole numbers."""
    live = spark.readStream.format("text").load(str(landing.folder))
    return read(way, live).select(F.col("value").cast("int").alias("value"))


def written(
    frame: Any, at: Path, out: Path | str, kind: str | None = "parquet", options: Mapping[str, str] | None = None
) -> Any:
    """A query that writes files."""
    writer = frame.writeStream.options(**(options or {})).option("checkpointLocation", str(at / "checkpoints"))
    return (writer.format(kind) if kind else writer).start(str(out))


def ended(query: Any) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def both(folder: Path, run: Any) -> list[Any]:
    found = []
    for way in WAYS:
        at = folder / way
        at.mkdir()
        landing = Landing(at / "in", at / "tmp")
        landing.text("1\n2\n3")
        found.append(run(way, at, landing))
    return found


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_rows_are_read_back(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        ended(written(numbers(spark, way, landing), at, at / "out"))
        return rows(spark.read.parquet(str(at / "out")))

    assert both(folder, run) == [[(1,), (2,), (3,)]] * 2


def test_partitions_of_values_with_spaces_are_read_back(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        words = numbers(spark, way, landing).where("value = 1")
        pairs = words.select(F.lit("hello world").alias("value"), F.lit(11).alias("len"))
        query = pairs.writeStream.partitionBy("value").format("parquet")
        ended(query.option("checkpointLocation", str(at / "checkpoints")).start(str(at / "out")))
        return rows(spark.read.parquet(str(at / "out")))

    assert both(folder, run) == [[(11, "hello world")]] * 2


def test_partitions_are_columns_and_prune_what_is_read(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        pairs = numbers(spark, way, landing).select(F.col("value").alias("id"), (F.col("value") * 1000).alias("value"))
        query = pairs.writeStream.partitionBy("id").format("parquet")
        ended(query.option("checkpointLocation", str(at / "checkpoints")).start(str(at / "out")))
        found = spark.read.parquet(str(at / "out"))
        parts = {name.split("/")[-2] for name in found.where("id in (1, 2)").inputFiles()}
        pruned = {row[0].split("/")[-2] for row in found.where("id = 1").select(F.input_file_name()).collect()}
        return found.schema.simpleString(), rows(found), parts >= {"id=1", "id=2"}, pruned

    expected = ("struct<value:int,id:int>", [(1000, 1), (2000, 2), (3000, 3)], True, {"id=1"})
    assert both(folder, run) == [expected] * 2


def test_partitions_of_two_columns_are_read_from_a_glob_with_basepath(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        value = F.col("value")
        triples = numbers(spark, way, landing).select(
            value.alias("id1"), (-value).alias("id2"), (value * 1000).alias("value")
        )
        query = triples.writeStream.partitionBy("id1", "id2").format("parquet")
        ended(query.option("checkpointLocation", str(at / "checkpoints")).start(str(at / "out")))
        return rows(spark.read.option("basePath", str(at / "out")).parquet(f"{at}/out/*/*"))

    assert both(folder, run) == [[(1000, 1, -1), (2000, 2, -2), (3000, 3, -3)]] * 2


def test_windows_are_written_when_they_are_closed(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        landing = Landing(at / "seconds", at / "tmp")
        times = numbers(spark, way, landing).select(F.timestamp_seconds("value").alias("timestamp"))
        windows = times.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "5 seconds")).count()
        query = written(windows.select("window.start", "window.end", "count"), at, at / "out")
        seen = []
        try:
            for seconds in ("100", "104\n123", "140"):
                landing.text(seconds)
                query.processAllAvailable()
                schema = "start timestamp, end timestamp, count long"
                found = spark.read.schema(schema).parquet(str(at / "out"))
                seen.append(rows(found.select(F.col("start").cast("long"), F.col("end").cast("long"), "count")))
        finally:
            query.stop()
        return seen

    first, second = (100, 105, 2), (120, 125, 1)
    assert both(folder, run) == [[[], [first], [first, second]]] * 2


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_files_take_appended_rows_only(spark: SparkSession, folder: Path, mode: str) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        counts = numbers(spark, way, landing).groupBy().count()
        writer = counts.writeStream.format("parquet").outputMode(mode)
        with pytest.raises(Exception, match=rf"(?i){mode}"):
            writer.option("checkpointLocation", str(at / "checkpoints")).start(str(at / "out"))

    both(folder, run)


@pytest.mark.parametrize("kind", [None, "parquet", "orc", "json"])
def test_query_of_a_format_starts(spark: SparkSession, folder: Path, kind: str | None) -> None:
    """As in Spark's test, no row comes."""

    def run(way: str, at: Path, landing: Landing) -> Any:
        pairs = numbers(spark, way, Landing(at / "empty", at / "tmp")).selectExpr(
            "value AS id", "value * 1000 AS value"
        )
        query = written(pairs, at, at / "out", kind)
        ended(query)
        return query.exception()

    assert both(folder, run) == [None] * 2


def test_format_that_cannot_hold_the_rows_is_refused_before_there_are_any(spark: SparkSession, folder: Path) -> None:
    """Stock fails at the first row, and Spark's test has none."""

    def run(way: str, at: Path, landing: Landing) -> Any:
        pairs = numbers(spark, way, Landing(at / "empty", at / "tmp"))
        pairs = pairs.selectExpr("value AS id", "value * 1000 AS value")
        if way == "stock":
            ended(written(pairs, at, at / "out", "text"))
        else:
            with pytest.raises(PlanError, match="format text cannot hold the output"):
                written(pairs, at, at / "out", "text")

    both(folder, run)


def test_output_may_have_special_characters_in_its_path(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        ended(written(numbers(spark, way, landing), at, at / "output @#output"))
        return rows(spark.read.parquet(str(at / "output @#output")))

    assert both(folder, run) == [[(1,), (2,), (3,)]] * 2


def test_task_that_fails_leaves_no_file(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        broken = numbers(spark, way, landing).select(F.expr("value div 0 AS value"))
        query = written(broken, at, at / "out")
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            ended(query)
        return list((at / "out").rglob("*.parquet"))

    with session_options(spark, {"spark.sql.ansi.enabled": "true"}):
        assert both(folder, run) == [[]] * 2


@pytest.mark.parametrize("kind", ["parquet", "orc", "text", "json"])
def test_partitions_without_rows_leave_no_trace(spark: SparkSession, folder: Path, kind: str) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        landing.text("4\n5")
        texts = numbers(spark, way, landing).select(F.col("value").cast("string")).repartition(10)
        ended(written(texts, at, at / "out", kind))
        files = [path for path in (at / "out").rglob(f"*.{'txt' if kind == 'text' else kind}") if path.stat().st_size]
        found = spark.read.format(kind).load(str(at / "out")).selectExpr("CAST(value AS INT)")
        return rows(found), 0 < len(files) < 10

    assert both(folder, run) == [([(n,) for n in range(1, 6)], True)] * 2


@pytest.mark.parametrize("ignored", ["true", "false"])
def test_files_of_others_are_read_unless_stock_keeps_a_log(spark: SparkSession, folder: Path, ignored: str) -> None:
    """mixedmode has no log of files in the output: readers find all that is there."""

    def run(way: str, at: Path, landing: Landing) -> Any:
        landing.text("4\n5")
        with session_options(spark, {"spark.sql.streaming.fileStreamSink.ignoreMetadata": ignored}):
            ended(written(numbers(spark, way, landing).select(F.col("value").cast("string")), at, at / "out", "text"))
            (at / "out" / "additional.txt").write_text("6")
            return rows(spark.read.format("text").load(str(at / "out")).selectExpr("CAST(value AS INT)"))

    stock, ours = both(folder, run)
    assert stock == [(n,) for n in range(1, 7 if ignored == "true" else 6)]
    assert ours == [(n,) for n in range(1, 7)]


@pytest.mark.parametrize(
    ("asked", "of_session", "found"),
    [
        ("TIMESTAMP_MICROS", "INT96", ("INT64", "us", "GZIP")),
        ("TIMESTAMP_MILLIS", "INT96", ("INT64", "ms", "GZIP")),
        ("INT96", "TIMESTAMP_MICROS", ("INT96", "ns", "GZIP")),
    ],
)
def test_options_of_a_writer_win_over_the_settings_of_the_session(
    spark: SparkSession, folder: Path, asked: str, of_session: str, found: tuple[str, str, str]
) -> None:
    kind = "spark.sql.parquet.outputTimestampType"

    def run(way: str, at: Path, landing: Landing) -> Any:
        times = numbers(spark, way, landing).select(F.timestamp_seconds("value").alias("ts"))
        ended(written(times, at, at / "out", options={kind: asked, "compression": "gzip"}))
        read = spark.read.parquet(str(at / "out")).selectExpr("CAST(ts AS long)")
        forms = set()
        for path in (at / "out").glob("*.parquet"):
            column = pq.read_metadata(path).row_group(0).column(0)
            forms.add((column.physical_type, pq.read_schema(path).field(0).type.unit, column.compression))
        return rows(read), forms

    with session_options(spark, {kind: of_session}):
        assert both(folder, run) == [([(1,), (2,), (3,)], {found})] * 2


def test_relative_path_is_one_of_the_working_folder(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path, landing: Landing) -> Any:
        relative = os.path.relpath(at / "out", spark._jvm.System.getProperty("user.dir"))
        ended(written(numbers(spark, way, landing), at, relative))
        return rows(spark.read.parquet(str(at / "out")))

    assert both(folder, run) == [[(1,), (2,), (3,)]] * 2
