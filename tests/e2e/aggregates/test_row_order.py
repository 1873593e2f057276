"""The order in which a key's rows are met, where it shows: against stock Structured Streaming, file by file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from session_options import session_options
from support import World

support.by_value(__name__)

SCHEMA = "k long, v long, pad string"
PARQUET = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("pad", pa.string())])
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
    with session_options(spark, PACKING):
        yield


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


@pytest.mark.slow
def test_deduplication_keeps_the_row_that_stock_keeps(world: World) -> None:
    """In the backlog, over files that Spark packs out of order, and in the stream that follows."""
    history, live = world.folder / "history", world.folder / "live"
    write_files(history, "parquet", range(len(SIZES)))
    live.mkdir()
    wanted = stock(world, ("parquet", history), lambda frame: frame.dropDuplicates(["k"]).select("k", "v"))
    assert wanted == [(key, values[0]) for key, values in sorted(VALUES.items())]
    stream = world.spark.readStream.schema(SCHEMA).parquet(str(live))
    job = mixedmode.read(history=read(world.spark, ("parquet", history)), live=stream)
    query = support.live(world.start(job.dropDuplicates(["k"]).select("k", "v")))
    assert sorted(world.output()) == wanted
    fresh = [{"k": key, "v": value, "pad": ""} for value in range(9, 5, -1) for key in (3, 1000, 1001)]
    hidden = world.folder / "fresh.parquet"
    pq.write_table(pa.Table.from_pylist(fresh), hidden)
    hidden.rename(live / "fresh.parquet")
    support.finish(query)
    assert sorted(world.output()) == [*wanted, (1000, 9), (1001, 9)]


@pytest.mark.slow
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


def numbered(frame: Any) -> Any:
    return frame.groupBy("k").transformWithState(Seen(), "k long, n long, v long", "append", "none")


def numbers(rows: Any) -> list[tuple[Any, ...]]:
    """Each row with its number in its key, in the order of the files."""
    return sorted((key, n, v) for key, values in rows.items() for n, v in enumerate(values, 1))


@pytest.mark.slow
def test_files_of_one_time_are_in_order_whatever_their_names(world: World) -> None:
    """Names that a URI writes otherwise, and more files than one byte counts."""
    folder, values = world.folder / "history", iter(range(0, -10_000, -1))
    folder.mkdir()
    seen: dict[int, list[int]] = {}
    for name in sorted(["a b", "a%20b", "ä", "x=1;y", "z'q", *(f"n{number:03d}" for number in range(300))]):
        rows = [{"k": key, "v": next(values), "pad": ""} for key in (1, 2)]
        path = folder / f"{name}.json"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        for row in rows:
            seen.setdefault(row["k"], []).append(row["v"])
    query = world.start(numbered(mixedmode.read(history=read(world.spark, ("json", folder)))))
    query.awaitTermination()
    assert sorted(world.output()) == numbers(seen)


@pytest.mark.slow
def test_a_union_of_reads_is_in_the_order_of_all_files(world: World) -> None:
    """Files of the second read come between those of the first."""
    whole, parts = world.folder / "whole", [world.folder / name for name in ("a", "b")]
    write_files(whole, "parquet", range(len(SIZES)))
    for number, path in enumerate(sorted(whole.iterdir())):
        parts[number % 2].mkdir(exist_ok=True)
        path.rename(parts[number % 2] / path.name)
    one, other = (read(world.spark, ("parquet", part)) for part in parts)
    query = world.start(numbered(mixedmode.read(history=one.unionByName(other))))
    query.awaitTermination()
    assert sorted(world.output()) == numbers(VALUES)


@pytest.mark.parametrize("by_time", [False, True])
def test_lists_and_first_values_of_a_backlog_are_in_the_order_of_its_rows(world: World, by_time: bool) -> None:
    """In that of the files, or of event times where there is a watermark; of values without an order, too."""
    write_files(world.folder / "in", "json", range(len(SIZES)))
    rows = mixedmode.read(history=read(world.spark, ("json", world.folder / "in")))
    if by_time:  # the values fall from row to row
        rows = rows.withColumn("ts", F.timestamp_seconds("v")).withWatermark("ts", "1 hour")
    early = F.when(F.col("v") < -100, F.col("v"))
    lists = rows.groupBy("k").agg(
        *[F.collect_list("v"), F.first("v"), F.last("v"), F.first(early, ignorenulls=True)],
        F.expr("listagg(CAST(v AS STRING), ',') FILTER (WHERE v % 2 = 0)").alias("even"),
        F.to_json(F.expr("collect_list(map('v', nullif(v, 0)))")).alias("maps"),
        F.to_json(F.collect_list(F.struct("v"))).alias("structs"),
    )
    world.start(lists, {"execution.runtime-mode": "batch"}).awaitTermination()
    wanted = []
    for key, values in VALUES.items():
        values = sorted(values) if by_time else values
        even = ",".join(str(v) for v in values if v % 2 == 0) or None
        maps = json.dumps([{"v": v or None} for v in values], separators=(",", ":"))
        first = next(v for v in values if v < -100)
        structs = json.dumps([{"v": v} for v in values], separators=(",", ":"))
        wanted.append((key, values, values[0], values[-1], first, even, maps, structs))
    assert sorted(world.output()) == sorted(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "mode"), [("1", "mixed"), (None, "mixed"), (None, "streaming")])
def test_landed_files_and_micro_batches_of_several_are_in_the_order_of_stock(
    world: World, limit: str | None, mode: str
) -> None:
    """A folder that is drained as a backlog, and files that come together later.

    With a limit stock takes the landed files one by one.  Without one it takes them together, and on one machine gives
    a key's rows as its tasks read them, the largest files first.
    """
    landing, source, spark = world.folder / "landing", world.folder / "source", world.spark
    given: list[tuple[Any, ...]] = []
    first = slice(0, 4)

    def stream() -> DataFrame:
        reader = spark.readStream.schema(SCHEMA)
        return (reader if limit is None else reader.option("maxFilesPerTrigger", limit)).parquet(str(landing))

    def land(some: slice) -> None:
        for path in sorted(source.iterdir())[some]:
            path.rename(landing / path.name)

    write_files(source, "parquet", range(len(SIZES)))
    land(first)
    with support.rocksdb_state_store(spark):
        for _ in range(2):  # the second run takes what has come since
            frames = numbered(stream()).writeStream.option("checkpointLocation", str(world.folder / "stock"))
            writer = frames.foreachBatch(lambda frame, number: given.extend(map(tuple, frame.collect())))
            writer.trigger(availableNow=True).start().awaitTermination()
            if source.exists() and any(source.iterdir()):
                land(slice(0, None))
    later = [path for path in landing.iterdir() if int(path.stem[-3:]) >= 4]
    for path in later:
        path.rename(source / path.name)
    query = support.live(world.start(numbered(mixedmode.read(live=stream())), {"execution.runtime-mode": mode}))
    query.stop()
    landed = sum(SIZES[first])
    assert sorted(world.output()) == sorted(row for row in given if row[2] > -landed)
    land(slice(0, None))
    query = support.live(world.start(numbered(mixedmode.read(live=stream())), {"execution.runtime-mode": mode}))
    support.finish(query)
    assert sorted(world.output()) == sorted(given)


@pytest.mark.slow
def test_backlog_of_a_processor_gives_rows_in_the_order_of_stock(world: World, files: tuple[str, Path]) -> None:
    """With either engine of the sorter: each takes one of the formats."""
    engine = {"parquet": "arrow", "json": "spark"}[files[0]]
    wanted = numbers(VALUES)
    query = world.start(numbered(mixedmode.read(history=read(world.spark, files))), {"sorter.engine": engine})
    query.awaitTermination()
    assert sorted(world.output()) == wanted


@pytest.mark.slow
def test_explain_says_once_where_the_order_of_rows_is_not_known(world: World) -> None:
    """Of histories that were shuffled, joined, cached or made in memory; not of aggregates, which do not ask."""
    spark = world.spark
    write_files(world.folder / "in", "parquet", TIMES)
    plain = read(spark, ("parquet", world.folder / "in"))
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


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 9999)), min_size=1, max_size=6, unique_by=itemgetter(1)
    ),
    kind=st.sampled_from(["parquet", "json"]),
    seed=st.integers(0, 99),
)
def test_a_processor_sees_what_a_stream_of_single_files_brings(
    world: World, files: list[tuple[int, int]], kind: str, seed: int
) -> None:
    """Files of random sizes and times, of whatever rows; stock takes them one by one in the order of their times."""
    again = World(world.spark, world.folder / f"{len(list(world.folder.iterdir()))}")
    chance, folder, brought = Random(seed), again.folder / "history", list[Any]()
    folder.mkdir()
    for number, (count, at_ms) in enumerate(files):
        rows = [(chance.randrange(5), chance.randrange(10**6), "x" * chance.randrange(90)) for _ in range(count)]
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(["k", "v", "pad"])}, PARQUET)
        path = folder / f"part-{number:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=50)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        os.utime(path, ns=(1_700_000_000_000_000_000 + at_ms * 1_000_000,) * 2)
    reader = world.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").format(kind)
    writer = reader.load(str(folder)).writeStream.foreachBatch(lambda frame, number: brought.extend(frame.collect()))
    writer.option("checkpointLocation", str(again.folder / "stock")).trigger(
        availableNow=True
    ).start().awaitTermination()
    seen: dict[int, list[int]] = {}
    for row in brought:
        seen.setdefault(row.k, []).append(row.v)
    again.start(numbered(mixedmode.read(history=read(world.spark, (kind, folder))))).awaitTermination()
    assert sorted(again.output()) == numbers(seen)
