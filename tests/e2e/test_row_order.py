"""The order in which a key's rows are met, where it shows: against stock Structured Streaming, file by file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k long, v long, pad string"
#: Rows of each file.  Spark reads the largest files first, so tasks meet the last ones before the first.
SIZES = (40, 300, 90, 2000, 700, 5000)
KEYS = 60
#: Modification times in seconds; some files have the same.
TIMES = (0, 1, 1, 1, 2, 3)
#: How Spark packs files into tasks: several into one, and a large one into several.
PACKING = {"spark.sql.files.maxPartitionBytes": "60000", "spark.sql.files.openCostInBytes": "2000"}


def write_files(folder: Path, kind: str, first: int = 0) -> int:
    """Files whose values fall from row to row; returns the value below the least."""
    folder.mkdir(parents=True, exist_ok=True)
    value = first
    for number, (rows, second) in enumerate(zip(SIZES, TIMES, strict=True)):
        values = [value - at for at in range(rows)]
        value -= rows
        table = pa.table({"k": [(v * 7) % KEYS for v in values], "v": values, "pad": [f"{v:020d}" for v in values]})
        path = folder / f"part-{number:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=500)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return value


@pytest.fixture(scope="module", params=["parquet", "json"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("files") / "in"
    write_files(folder, request.param)
    return request.param, folder


@pytest.fixture(autouse=True)
def packing(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in PACKING}
    for name, value in PACKING.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, str(value))


def read(spark: SparkSession, files: tuple[str, Path]) -> DataFrame:
    kind, folder = files
    return spark.read.schema(SCHEMA).format(kind).load(str(folder))


def stock(world: World, files: tuple[str, Path], make: Callable[[DataFrame], DataFrame]) -> list[tuple[Any, ...]]:
    """What stock Structured Streaming gives over the files, one micro-batch each."""
    kind, folder = files
    rows: list[tuple[Any, ...]] = []
    spark = world.spark
    with support.rocksdb_state_store(spark):
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").format(kind).load(str(folder))
        writer = make(stream).writeStream.foreachBatch(
            lambda frame, number: rows.extend(tuple(row) for row in frame.collect())
        )
        query = writer.option("checkpointLocation", str(world.folder / "stock")).trigger(availableNow=True).start()
        query.awaitTermination()
    return sorted(rows)


def narrowed(frame: Any) -> Any:
    """Operations of which each keeps the order of rows."""
    return frame.where("v % 3 != 1").selectExpr("k", "v", "v + 1 AS w").withColumn("x", (frame.v * 0).alias("x"))


def test_backlog_of_a_deduplication_keeps_the_row_that_stock_keeps(world: World, files: tuple[str, Path]) -> None:
    """Values fall, so the first row of a key is its greatest; files are packed out of order."""
    wanted = stock(world, files, lambda frame: frame.dropDuplicates(["k"]).select("k", "v"))
    assert [v for _, v in wanted] != [], "there are rows"
    job = mixedmode.read(history=read(world.spark, files)).dropDuplicates(["k"]).select("k", "v")
    query = world.start(job)
    query.awaitTermination()
    assert sorted(world.output()) == wanted


class Seen(StatefulProcessor):
    """Puts out each row with its number in its key."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        seen = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            seen += 1
            yield Row(k=key[0], n=seen, v=row.v)
        self.count.update((seen,))

    def close(self) -> None:
        pass


def numbered(frame: Any) -> Any:
    return frame.groupBy("k").transformWithState(Seen(), "k long, n long, v long", "append", "none")


@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_backlog_of_a_processor_gives_rows_in_the_order_of_stock(
    world: World, files: tuple[str, Path], engine: str
) -> None:
    wanted = sorted(
        (k, n, v)
        for k in range(KEYS)
        for n, v in enumerate((v for v in range(0, -sum(SIZES), -1) if (v * 7) % KEYS == k), 1)
    )
    query = world.start(numbered(mixedmode.read(history=read(world.spark, files))), {"sorter.engine": engine})
    query.awaitTermination()
    assert sorted(world.output()) == wanted
