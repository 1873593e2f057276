"""Sums of decimals that Spark adds as whole numbers in a backlog, with the results of plain Spark."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import mixedmode
import pytest
from mixedmode.runtime.catalyst.spark_plans import executed_text
from mixedmode.runtime.jobs import rows_as_they_are, stage_jobs
from mixedmode.runtime.jobs.shuffle import HashExchange
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options
from spark_backlog import ours, plain

ANSI = "spark.sql.ansi.enabled"


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows of files: decimals of several widths, of both signs, with nulls, and the ends of their type."""
    folder = str(tmp_path_factory.mktemp("sums") / "files")
    number = F.xxhash64("id")
    some = F.pmod(number, F.lit(10**9)) - 5 * 10**8
    spark.range(0, 3_000, 1, 3).select(
        F.when(F.col("id") % 11 > 0, F.pmod(number, F.lit(300))).alias("k"),
        F.concat(F.lit("ä"), F.pmod(number, F.lit(7))).alias("t"),
        F.when(F.col("id") % 3 > 0, (some / 100).cast("decimal(9, 2)")).alias("price"),
        F.when(F.col("k") > 20, (some / 7).cast("decimal(18, 9)")).alias("fine"),
        (some % 10).cast("decimal(1, 0)").alias("digit"),
        F.lit(None).cast("decimal(12, 3)").alias("nothing"),
        # Hardly any key has several of these.
        F.when(F.col("id") % 100 == 0, F.lit(Decimal(10**18 - 1)))
        .when(F.col("id") % 100 == 1, F.lit(Decimal(1 - 10**18)))
        .cast("decimal(18, 0)")
        .alias("end"),
        F.lit(Decimal(10**18 - 1)).cast("decimal(18, 0)").alias("most"),
        F.lit(Decimal(10**19 - 1)).cast("decimal(19, 0)").alias("wide"),
        F.timestamp_seconds(F.lit(1_711_800_000) + F.col("id") * 97).alias("ts"),
    ).write.parquet(folder)
    return spark.read.parquet(folder)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Any files are large; has the plans that are kept."""
    found: list[str] = []
    holds = HashExchange.holds

    def noted(exchange: HashExchange, job: DataFrame) -> bool:
        is_held = holds(exchange, job)
        if is_held:
            found.append(executed_text(job))
        return is_held

    monkeypatch.setattr(HashExchange, "holds", noted)
    monkeypatch.setattr(stage_jobs, "is_small", lambda frame: False)
    return found


@contextmanager
def ansi(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """The session with ANSI mode or without."""
    with session_options(spark, {ANSI: str(wanted).lower()}):
        yield


def sums() -> list[Any]:
    return [
        F.sum("price").alias("price"),
        F.avg("price"),
        F.sum("fine"),
        F.try_sum("fine"),
        F.try_avg("digit"),
        F.sum("digit"),
        F.sum("nothing"),
        F.sum("end"),
        F.sum(F.when(F.col("t") == "ä1", F.col("price")).otherwise(0)).alias("some"),
        F.sum(F.col("price") * 2).alias("twice"),
        F.expr("sum(price) FILTER (WHERE digit > 0)").alias("positive"),
        F.sum(F.aggregate(F.array("price"), F.lit(Decimal("0.00")).cast("decimal(9, 2)"), lambda a, b: b)).alias("of"),
        F.max("price"),
        F.count("*"),
    ]


@pytest.mark.parametrize("once", [False, True], ids=["twice", "once"])
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "ansi"])
@pytest.mark.parametrize("keys", [["k"], ["t", "k"]], ids=["numbers", "texts"])
def test_decimals_are_added_as_whole_numbers(
    files: DataFrame, plans: list[str], monkeypatch: pytest.MonkeyPatch, keys: list[str], strict: bool, once: bool
) -> None:
    """The sums are Spark's, whether rows are aggregated before the shuffle or behind it."""
    if once:
        monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
        monkeypatch.setattr(rows_as_they_are, "MANY_ROWS", float("inf"))
    with ansi(files.sparkSession, strict):
        assert ours(files, keys, sums()) == plain(files, keys, sums())
    (text,) = plans
    assert "try_sum(UnscaledValue(price" in text
    assert "partial_" in text or once
    assert " sum(price" not in text


def test_wide_decimals_are_added_as_decimals(files: DataFrame, plans: list[str]) -> None:
    """Values of more than 18 digits need more than 64 bits; with many digits behind the point a sum soon does."""
    wanted = [F.sum("wide"), F.sum("fine"), F.sum("price")]
    assert ours(files, ["k"], wanted) == plain(files, ["k"], wanted)
    (text,) = plans
    assert "sum(wide" in text and "sum(fine" in text
    assert "UnscaledValue(price" in text


def test_windows_and_sessions_have_such_sums(files: DataFrame, plans: list[str]) -> None:
    """Rows in several windows, and sessions, are summed so."""
    rows = files.withWatermark("ts", "1 hour")
    for key in (F.window("ts", "20 minutes", "10 minutes"), F.session_window("ts", "90 seconds")):
        keys, wanted = [key, "t"], [F.sum("price"), F.avg("fine")]
        name = f"sums_{uuid.uuid4().hex}"
        stage = mixedmode.read(history=files).withWatermark("ts", "1 hour").groupBy(*keys).agg(*wanted)
        writer = stage.writeStream.outputMode("append").format("memory").queryName(name)
        writer.option("execution.backlog.engine", "spark").start().awaitTermination()
        found = sorted(files.sparkSession.table(name).collect(), key=str)
        assert found == sorted(rows.groupBy(*keys).agg(*wanted).collect(), key=str)
        assert "UnscaledValue(price" in plans.pop()


def test_a_sum_that_needs_more_bits_has_spark_add_decimals(
    files: DataFrame, plans: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Ten of the greatest values are more than 64 bits hold; the pass begins again, and the sums are exact."""
    wanted = [F.sum("most"), F.avg("most"), F.sum("price")]
    with caplog.at_level(logging.WARNING):
        assert ours(files, ["k"], wanted) == plain(files, ["k"], wanted)
    first, second = plans
    assert "UnscaledValue(most" in first
    assert "UnscaledValue" not in second
    (told,) = [one.getMessage() for one in caplog.records if "from now on Spark adds the decimals" in one.getMessage()]
    assert "sum(most) needs more than 64 bits" in told or "avg(most) needs more than 64 bits" in told
