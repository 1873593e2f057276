"""The order in which a key's rows are met, where it shows: against stock Structured Streaming, file by file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
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


def write_files(folder: Path, kind: str, times: Sequence[int]) -> None:
    """Files whose values fall from row to row and from file to file."""
    folder.mkdir(parents=True, exist_ok=True)
    value = 0
    for number, (rows, second) in enumerate(zip(SIZES, times, strict=True)):
        values = [value - at for at in range(rows)]
        value -= rows
        table = pa.table({"k": [key_of(v) for v in values], "v": values, "pad": [f"{v:020d}" for v in values]})
        path = folder / f"part-{number:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=500)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))


def key_of(value: int) -> int:
    return (value * 7) % KEYS


#: By key its values in the order in which they were written.
VALUES = {key: [v for v in range(0, -sum(SIZES), -1) if key_of(v) == key] for key in range(KEYS)}


@pytest.fixture(scope="module", params=["parquet", "json"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("files") / "in"
    write_files(folder, request.param, TIMES)
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
    some = frame.where("v % 2 = 0").selectExpr("v - 1 AS w", "k AS key", "explode(array(1, 2)) AS part")
    return some.where("part = 2").withColumn("k", some.key + 0)


def test_deduplication_keeps_the_row_that_stock_keeps(world: World) -> None:
    """In the backlog, over files that Spark packs out of order, and in the stream that follows."""
    history, live = world.folder / "history", world.folder / "live"
    write_files(history, "parquet", range(len(SIZES)))
    live.mkdir()
    wanted = stock(world, ("parquet", history), lambda frame: frame.dropDuplicates(["k"]).select("k", "v"))
    assert wanted == [(key, values[0]) for key, values in sorted(VALUES.items())]
    stream = world.spark.readStream.schema(SCHEMA).parquet(str(live))
    job = mixedmode.read(history=read(world.spark, ("parquet", history)), live=stream)
    query = world.start(job.dropDuplicates(["k"]).select("k", "v"))
    assert query.wait_for("live", 300), query.exception()
    assert sorted(world.output()) == wanted
    fresh = [{"k": key, "v": value, "pad": ""} for value in range(9, 5, -1) for key in (3, 1000, 1001)]
    hidden = world.folder / "fresh.parquet"
    pq.write_table(pa.Table.from_pylist(fresh), hidden)
    hidden.rename(live / "fresh.parquet")
    query.processAllAvailable()
    query.stop()
    assert sorted(world.output()) == [*wanted, (1000, 9), (1001, 9)]


def test_files_of_one_time_are_in_the_order_of_their_paths(world: World, files: tuple[str, Path]) -> None:
    """Of a deduplication behind operations without state, over Parquet and over JSON, of which Spark cuts files."""
    rows = narrowed(mixedmode.read(history=read(world.spark, files)))
    query = world.start(rows.dropDuplicates(["k"]).select("k", "w"))
    query.awaitTermination()
    wanted = {key: next(v for v in values if v % 2 == 0) - 1 for key, values in VALUES.items() if key % 2 == 0}
    assert sorted(world.output()) == sorted(wanted.items())


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
    wanted = sorted((key, n, v) for key, values in VALUES.items() for n, v in enumerate(values, 1))
    query = world.start(numbered(mixedmode.read(history=read(world.spark, files))), {"sorter.engine": engine})
    query.awaitTermination()
    assert sorted(world.output()) == wanted


def test_explain_says_once_where_the_order_of_rows_is_not_known(world: World, files: tuple[str, Path]) -> None:
    """Of histories that were shuffled, joined, cached or made in memory; not of aggregates, which do not ask."""
    spark = world.spark
    plain = read(spark, files)
    known = [plain, plain.where("v > 1").withColumn("w", plain.v + 1), plain.unionAll(plain)]
    unknown = [
        plain.repartition(3),
        plain.orderBy("v"),
        plain.join(spark.range(3).withColumnRenamed("id", "k"), "k").select("k", "v"),
        spark.createDataFrame([(1, 2)], "k long, v long"),
        plain.where("v < 0").cache(),
    ]

    def told(frame: Any) -> int:
        writer = frame.writeStream.format("parquet").option("path", str(world.out))
        return str(writer.option("checkpointLocation", str(world.checkpoints)).plan()).count("order of rows")

    jobs = [lambda rows: rows.dropDuplicates(["k"]), numbered]
    assert [told(job(mixedmode.read(history=one))) for one in known for job in jobs] == [0] * 6
    assert [told(job(mixedmode.read(history=one))) for one in unknown for job in jobs] == [1] * 10
    for job in (lambda rows: rows.distinct(), lambda rows: rows.groupBy("k").count()):
        assert told(job(mixedmode.read(history=unknown[0]))) == 0
