"""What tasks make of the rows of files for a deduplication or a join is what Spark makes of them, bit by bit."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.errors import PlanError
from mixedmode.runtime.driver.epochs.source_rows import SourceRows
from mixedmode.runtime.jobs.row_pass import ReadRows, RowPass, recognise_parts
from mixedmode.runtime.jobs.scan_pass import ScanPlace
from mixedmode.runtime.jobs.shuffle import with_key_group
from mixedmode.runtime.operators.contract import EpochSpec, InOrder
from mixedmode.runtime.operators.frame_steps import union_of
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.scan.engines import LEAST_BYTES
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.spec import Settings
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

GROUPS, SHARDS, ROWS = 8, 2, 300
SCHEMA = pa.schema(
    {
        "long": pa.int64(),
        "int": pa.int32(),
        "text": pa.string(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(12, 2),
        "real": pa.float64(),
        "flag": pa.bool_(),
    }
)


def some(number: int) -> dict[str, Any]:
    """A row: a dozen keys of each kind, nulls everywhere, zeros with a sign, times that come again."""
    return {
        "long": None if number % 11 == 0 else number % 12 - 3,
        "int": number % 7,
        "text": None if number % 13 == 0 else "ä" * (number % 5),
        "day": date(2024, 1, 1 + number % 9),
        "at": None
        if number % 17 == 0
        else datetime.fromtimestamp(1_700_000_000 + 60 * (number * 7 % 50), timezone.utc),
        "price": Decimal(number % 10) / 4,
        "real": None if number % 19 == 0 else (-0.0, 0.0, float("nan"), 1.5)[number % 4],
        "flag": None if number % 23 == 0 else number % 2 == 0,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of several row groups, of which two are of one time; names that are not written in a URI as they
    are."""
    folder = tmp_path_factory.mktemp("some files")
    names = {"c %20 ü": 10, "b": 20, "a": 20, "d": 5}
    for number, (name, second) in enumerate(names.items()):
        rows = [some(number * ROWS + at) for at in range(ROWS)]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=70)
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return folder


def epoch(firing_ms: int = MIN_WATERMARK, in_order: InOrder | None = None) -> EpochSpec:
    return EpochSpec(
        1, "sorted", MIN_WATERMARK, firing_ms, MIN_WATERMARK, 0, MIN_WATERMARK, in_order=in_order, delay_ms=7000
    )


def job_of(described: Any, tmp_path: Path) -> tuple[Any, tuple[DataFrame, ...]]:
    """The operator of the first stage, and the rows that it takes, as a run takes them."""
    writer = described.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoints"))
    job = writer.outputMode("append").described()
    return job.stages[0].operator, SourceRows.of_history(job).by_input(job.stages[0])


def read(
    spark: SparkSession,
    operator: Any,
    inputs: tuple[DataFrame, ...],
    spec: EpochSpec,
    tmp_path: Path,
    least_bytes: int = LEAST_BYTES,
    **more: Any,
) -> ReadRows | None:
    options = {"backlog_engine": "arrow", **more}
    rows = RowPass(
        spark,
        operator,
        Settings(**options),
        fs.LocalFileSystem(),
        ScanPlace(str(tmp_path / "runs"), least_bytes=least_bytes),
        GROUPS,
        "run",
    )
    return rows.read(inputs, spec, SHARDS, ())


def bits(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


DEDUPS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda rows: rows.dropDuplicates(["long"]),
    "a text": lambda rows: rows.dropDuplicates(["text"]),
    "several kinds": lambda rows: rows.dropDuplicates(["day", "int", "flag"]),
    "a decimal": lambda rows: rows.dropDuplicates(["price"]),
    "some rows under other names": lambda rows: (
        rows.where("int > 1 AND (flag OR text IS NOT NULL)").selectExpr(
            "long AS text", "text AS long", "at", "int AS i"
        )
    ).dropDuplicates(["text", "i"]),
    "with a time": lambda rows: rows.withWatermark("at", "7 seconds").dropDuplicates(["long"]),
    "with a time that goes": lambda rows: (
        rows.withWatermark("at", "7 seconds").drop("real").dropDuplicates(["text"]).drop("at")
    ),
    "by time": lambda rows: rows.withWatermark("at", "7 seconds").dropDuplicates(["long", "at"]),
    "within the watermark": lambda rows: rows.withWatermark("at", "90 seconds").dropDuplicatesWithinWatermark(["int"]),
    "whole rows": lambda rows: rows.select("long", "text").distinct(),
}


@pytest.mark.parametrize("name", DEDUPS)
def test_a_deduplication_gets_the_rows_that_spark_prepares(
    spark: SparkSession, folder: Path, tmp_path: Path, name: str
) -> None:
    """The same row of each key, its number of rows and greatest time, in the key groups and in their order."""
    described = DEDUPS[name](mixedmode.read(history=spark.read.parquet(str(folder))))
    operator, inputs = job_of(described, tmp_path)
    specs = [epoch()]
    if operator.has_timers:
        specs.append(epoch(in_order=InOrder(MIN_WATERMARK, 90_000)))
    for spec in specs:
        found = read(spark, operator, inputs, spec, tmp_path)
        assert found is not None
        assert found.rows == union_of(inputs).count()
        batches = [batch for shard in range(SHARDS) for batch in found.runs.of_shard(shard)]
        by_spark = with_key_group(operator.prepare(union_of(inputs), spec), operator, GROUPS).toArrow()
        assert {field.name for field in by_spark.schema} == {*batches[0].schema.names}
        ours = pa.Table.from_batches(batches).select(by_spark.schema.names)
        for field in by_spark.schema:
            assert ours.schema.field(field.name).type == field.type or pa.types.is_timestamp(field.type)
        assert bits(ours.cast(by_spark.schema).to_pylist()) == bits(by_spark.to_pylist())
        groups = ours["__kg"].to_pylist()
        assert groups == sorted(groups)


JOINS = {
    "left": "left_outer",
    "full": "full_outer",
    "leftsemi": "left_semi",
}


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.slow if how == "full" else ()) for how in JOINS])
def test_a_join_gets_what_spark_makes_of_a_first_pass(
    spark: SparkSession, folder: Path, tmp_path: Path, how: str
) -> None:
    """Pairs, rows that are over and rows that stay, whatever watermark the pass ends at; one key is widened."""
    frame = spark.read.parquet(str(folder)).where("int < 5")
    left = mixedmode.read(history=frame.select("long", "int", "at", "real", "text")).withWatermark("at", "7 seconds")
    right = mixedmode.read(history=frame.selectExpr("int AS other", "at AS later", "day", "text AS t", "flag"))
    right = right.withWatermark("later", "5 seconds")
    condition = F.expr(
        "long = other AND text = t AND later BETWEEN at - INTERVAL 2 MINUTES AND at + INTERVAL 5 MINUTES"
    )
    operator, inputs = job_of(left.join(right, condition, JOINS[how]), tmp_path)
    for firing_ms in (MIN_WATERMARK, 1_700_001_560_000, MAX_WATERMARK):
        spec = epoch(firing_ms)
        found = read(spark, operator, inputs, spec, tmp_path)
        assert found is not None
        assert found.rows == 2 * frame.count()
        batches = [batch for shard in range(SHARDS) for batch in found.runs.of_shard(shard)]
        made = operator.first_pass(union_of(inputs), spec, lambda rows: rows, counted=False)
        whole = made.output if made.rows is None else made.output.union(made.rows)
        by_spark = with_key_group(whole, operator, GROUPS).toArrow()
        ours = pa.concat_tables(
            pa.Table.from_batches([batch]).select(by_spark.schema.names).cast(by_spark.schema) for batch in batches
        )
        assert by_spark.num_rows > 20
        assert bits(ours.to_pylist()) == bits(by_spark.to_pylist())
        groups = [group for batch in batches for group in batch["__kg"].to_pylist() if batch["__side"][0].as_py() < 2]
        assert groups == sorted(groups)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "is computed": lambda rows: rows.withColumn("long", F.col("long") + 1).dropDuplicates(["long"]),
    "has type double": lambda rows: rows.dropDuplicates(["real"]),
    "hash": lambda rows: rows.where("hash(long) = 0").dropDuplicates(["long"]),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_known_to_be_the_same_is_sparks(
    spark: SparkSession, folder: Path, tmp_path: Path, why: str
) -> None:
    """``auto`` leaves it to Spark, ``arrow`` says why it cannot be had."""
    described = REFUSED[why](mixedmode.read(history=spark.read.parquet(str(folder))))
    operator, inputs = job_of(described, tmp_path)
    with pytest.raises(NotTakenError, match=why):
        recognise_parts(operator, inputs, epoch(), "arrow")
    assert read(spark, operator, inputs, epoch(), tmp_path, backlog_engine="auto") is None
    with pytest.raises(PlanError, match=f"arrow cannot be had for stage .*{why}"):
        read(spark, operator, inputs, epoch(), tmp_path)
    assert not (tmp_path / "runs").exists()


def test_rows_that_belong_together_and_do_not_fit_are_sparks(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """What is found once they are read: the runs are removed, and Spark begins anew."""
    described = mixedmode.read(history=spark.read.parquet(str(folder))).dropDuplicates(["long"])
    operator, inputs = job_of(described, tmp_path)
    with pytest.raises(PlanError, match=r"belong together, and sorter\.memory is"):
        read(spark, operator, inputs, epoch(), tmp_path, sorter_memory_bytes=1 << 12)
    assert not (tmp_path / "runs").exists()


def test_a_join_without_a_range_of_times_is_sparks(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """So is one with a further condition."""
    frame = spark.read.parquet(str(folder))
    for condition, why in (("long = other", "no range"), ("long = other AND at = later AND int < t", "a condition")):
        left = mixedmode.read(history=frame.select("long", "int", "at")).withWatermark("at", "7 seconds")
        right = mixedmode.read(history=frame.selectExpr("long AS other", "at AS later", "int AS t"))
        described = left.join(right.withWatermark("later", "7 seconds"), F.expr(condition))
        operator, inputs = job_of(described, tmp_path)
        with pytest.raises(NotTakenError, match=why):
            recognise_parts(operator, inputs, epoch(), "arrow")


def test_one_large_part_is_enough(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """By ``auto`` a small side of a join is read as the large one is; where all are small, Spark reads them."""
    pq.write_table(pa.table({"k": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))}), tmp_path / "small.parquet")
    left = mixedmode.read(history=spark.read.parquet(str(folder)).select("long", "at")).withWatermark("at", "1 second")
    right = mixedmode.read(history=spark.read.parquet(str(tmp_path / "small.parquet")).toDF("k", "later"))
    described = left.join(right.withWatermark("later", "1 second"), F.expr("long = k AND at = later"))
    operator, inputs = job_of(described, tmp_path)
    size = (tmp_path / "small.parquet").stat().st_size
    for least, is_taken in ((size + 1, True), (1 << 30, False)):
        found = read(spark, operator, inputs, epoch(), tmp_path, least_bytes=least, backlog_engine="auto")
        assert (found is not None) == is_taken
