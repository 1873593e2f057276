"""Live sources that cannot be read again, and Spark's sources for tests: read as stock reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from line_server import LineServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support import World

pytestmark = pytest.mark.timeout(300)

LINES = ("to be or not to be", "", "that is the question", "be")
MOST_ONCE = "count at most once"


@pytest.fixture
def server() -> Iterator[LineServer]:
    made = LineServer()
    yield made
    made.close()


def lines(spark: SparkSession, server: LineServer) -> DataFrame:
    return spark.readStream.format("socket").option("host", "127.0.0.1").option("port", server.port).load()


def word_count(frame: Any) -> Any:
    """Spark's first example of a stream."""
    return frame.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()


def table(spark: SparkSession, name: str) -> dict[str, int]:
    return {row.word: row["count"] for row in spark.table(name).collect()}


@pytest.mark.slow
def test_a_socket_is_counted_as_stock_counts_it(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """The first example of Spark's guide gives the same table, by one connection, and ``start()`` says at most once."""
    found = {}
    for name in ("stock", "ours"):
        server = LineServer()
        live = lines(spark, server)
        with caplog.at_level(logging.WARNING):
            counted = word_count(live if name == "stock" else mixedmode.read(live=live))
            query = counted.writeStream.outputMode("complete").format("memory").queryName(f"words_{name}").start()
        try:
            server.wait_for_connections(1)
            for line in LINES:
                server.send(line)
            support.wait_until(lambda name=name: table(spark, f"words_{name}").get("be") == 3, 120)
            found[name] = table(spark, f"words_{name}")
            assert server.accepted == 1
        finally:
            query.stop()
            server.close()
    assert found["ours"] == found["stock"]
    assert [one for one in caplog.messages if MOST_ONCE in one and "words_ours" in one]


def test_lines_of_a_socket_go_out_as_they_come(world: World, server: LineServer) -> None:
    """A job without a keyed stage reads a socket, too, behind its history."""
    history = world.spark.createDataFrame([("before",)], "value string")
    lined = mixedmode.read(history=history, live=lines(world.spark, server)).where("value <> ''")
    query = world.start(lined, {"execution.checkpointing.interval": "200 ms"})
    server.wait_for_connections(1)
    server.send(*LINES)
    support.wait_until(lambda: len(world.output()) == len(LINES), 120)
    query.stop()
    assert sorted(row[0] for row in world.output()) == sorted(["before", *[line for line in LINES if line]])


@pytest.mark.slow
def test_a_socket_job_goes_on_with_its_state(
    world: World, server: LineServer, caplog: pytest.LogCaptureFixture
) -> None:
    """History first, then the socket; a restart keeps what was counted, and warns that what came between is lost."""
    spark = world.spark
    history = spark.createDataFrame([("be",), ("be or",)], "value string")
    counts: dict[str, int] = {}

    def keep(rows: DataFrame, _: int) -> None:
        counts.update((row.word, row["count"]) for row in rows.collect())

    def start() -> Any:
        counted = word_count(mixedmode.read(history=history, live=lines(spark, server)))
        writer = counted.writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 2)
        query = writer.option("execution.checkpointing.interval", "1 s").start()
        world.queries.append(query)
        return query

    with caplog.at_level(logging.WARNING):
        first = start()
    assert MOST_ONCE in caplog.text and "'socket'" in caplog.text
    server.wait_for_connections(1)
    server.send("be", "that is")
    support.wait_until(lambda: counts == {"be": 3, "or": 1, "that": 1, "is": 1}, 120)
    first.stop()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        second = start()
        server.wait_for_connections(2)
    assert "since the last checkpoint are lost" in caplog.text
    server.send("be is")
    support.wait_until(lambda: counts == {"be": 4, "or": 1, "that": 1, "is": 2}, 120)
    second.stop()
    assert server.accepted == 2


@pytest.mark.slow
def test_a_socket_beside_files_has_no_checkpoint(world: World, server: LineServer) -> None:
    """Files are read again behind a checkpoint, and a socket cannot be: such a job is refused, and says what to do."""
    world.land([("key", 1, 1)])
    files = world.live().select(F.col("key").alias("value"))
    both = mixedmode.read(live=[lines(world.spark, server), files]).dropDuplicates(["value"])
    error = support.refusal(lambda: world.start(both))
    assert "'socket' cannot be read again" in str(error) and "by a job of its own" in str(error)
    assert server.accepted == 0


@pytest.mark.slow
def test_a_source_of_numbers_gives_each_once(world: World) -> None:
    """A source of numbers goes on over a restart: no number is left out or comes twice, as in stock.  (The source
    ``rate``: test_first_positions.py.)"""
    live = world.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
    numbers = mixedmode.read(live=live).groupBy((F.col("value") % 3).alias("key"))
    sums = numbers.agg(F.count("*").alias("n"), F.max("value").alias("last"), F.sum("value").alias("sum"))
    found: dict[int, Any] = {}

    def keep(rows: DataFrame, _: int) -> None:
        found.update((row.key, row) for row in rows.collect())

    def life(at_least: int) -> None:
        writer = sums.writeStream.outputMode("update").foreachBatch(keep).trigger(processingTime="500 milliseconds")
        writer = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 1)
        query = writer.option("execution.checkpointing.interval", "1 s").start()
        world.queries.append(query)
        support.wait_until(lambda: sum(row.n for row in found.values()) > at_least, 120)
        query.stop()

    life(20)
    life(sum(row.n for row in found.values()) + 20)
    count = sum(row.n for row in found.values())
    assert max(row["last"] for row in found.values()) == count - 1
    assert sum(row["sum"] for row in found.values()) == count * (count - 1) // 2
