"""Which columns of its live input a job reads: as stock Spark, no others than it looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "key string, ts timestamp, value long, unused int"
#: Of each file the rows, in which ``unused`` is no number.
FILES = [[("a", 10), ("b", 20), ("a", 30), ("c", 40)], [("a", 50), ("d", 61)], [("b", 99), ("b", 100)]]

Read = Callable[[], Any]


def sums(read: Read) -> Any:
    return read().groupBy("key").agg(F.sum("value"), F.count("*"))


def windows(read: Read) -> Any:
    timed = read().withWatermark("ts", "1 second").where("value > 0")
    return timed.groupBy(F.window("ts", "15 seconds"), "key").agg(F.max("value"))


def duplicates(read: Read) -> Any:
    return read().select("key", "value").dropDuplicates(["key"])


def joined(read: Read) -> Any:
    return read().select("key", "value").join(read().selectExpr("key", "value + 1 AS more"), "key")


def filtered(read: Read) -> Any:
    return read().where("value > 10").select("key", "ts")


def spelt(read: Read) -> Any:
    """With columns in other letters than theirs."""
    return read().groupBy(F.col("KEY").alias("k")).agg(F.sum("Value").alias("total"), F.max("TS").alias("last"))


def land(folder: Path, number: int) -> None:
    rows = [
        {"key": key, "ts": support.at(seconds).isoformat(), "value": seconds, "unused": "no number"}
        for key, seconds in FILES[number]
    ]
    hidden = folder / f".{number}.json"
    hidden.write_text("\n".join(map(json.dumps, rows)))
    hidden.rename(folder / f"{number}.json")


def outcome(keyed: Any, mode: str, folder: Path, checkpoints: Path) -> list[str]:
    """Every row that goes out while file after file lands, the first one before the start."""
    found: list[str] = []

    def take(rows: DataFrame, number: int) -> None:
        found.extend(map(str, rows.collect()))

    folder.mkdir(exist_ok=True)
    land(folder, 0)
    writer = keyed.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoints)).foreachBatch(take)
    query = writer.option("execution.backlog.final-watermark", "observed").start()
    try:
        query.processAllAvailable()
        for number in range(1, len(FILES)):
            land(folder, number)
            query.processAllAvailable()
    finally:
        query.stop()
    return sorted(found)


@pytest.mark.parametrize(
    ("describe", "mode"),
    [
        (sums, "update"),
        (windows, "append"),
        (duplicates, "append"),
        (joined, "append"),
        (filtered, "append"),
        (spelt, "update"),
    ],
    ids=["sums", "windows", "duplicates", "joined", "filtered", "spelt"],
)
def test_what_no_stage_looks_at_is_not_read(
    spark: SparkSession, tmp_path: Path, describe: Callable[[Read], Any], mode: str
) -> None:
    """A column of the wrong type in live files stops nothing, even if Spark is told to stop at rows that it cannot
    read, as with stock Spark."""

    def stream(folder: Path) -> DataFrame:
        folder.mkdir(exist_ok=True)
        return spark.readStream.schema(SCHEMA).option("mode", "FAILFAST").json(str(folder))

    of_stock, of_ours = tmp_path / "landed for stock", tmp_path / "landed for ours"
    with support.rocksdb_state_store(spark):
        expected = outcome(describe(lambda: stream(of_stock)), mode, of_stock, tmp_path / "stock")
    keyed = describe(lambda: mixedmode.read(live=stream(of_ours)))
    assert outcome(keyed, mode, of_ours, tmp_path / "ours") == expected and len(expected) > 2
