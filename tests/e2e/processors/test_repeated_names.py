"""Outputs with several columns of one name: sinks that stock gives them to get them under the names that users know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import support
from mixedmode import PlanError
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from support import World

support.by_value(__name__)

PARTS = [support.stream_of(60, seed=seed, keys=6) for seed in (5, 6, 7)]
Rows = list[tuple[Any, ...]]


def paired(a: Any, b: Any, label: Any) -> Any:
    """All columns of a stream and of itself under another name: each is there twice, with other values."""
    a, b = a.withWatermark("ts", "1 day").alias("a"), b.withWatermark("ts", "1 day").alias("b")
    return a.join(b, F.expr("a.key = b.key AND b.ts > a.ts AND b.ts < a.ts + INTERVAL 5 MINUTES"))


def labelled(a: Any, b: Any, label: Any) -> Any:
    """A static table with a key and a value of its own."""
    return a.join(label, a["key"] == label["key"], "left").filter(label["value"] > 1)


def chosen(a: Any, b: Any, label: Any) -> Any:
    """Columns that are taken from either frame, behind the join and the loss of one of them."""
    joined = a.join(label, a.key == label["key"]).drop(label["key"]).withColumn("twice", a["value"] * 2)
    return joined.filter(a["value"] > label["value"]).select("key", a["value"], label["value"], "twice")


def totals(a: Any, b: Any, label: Any) -> Any:
    grouped = a.groupBy("key").agg(F.sum("value").alias("value"), F.count("*").alias("n"))
    return grouped.join(label, "key", "left")


def static(world: World) -> Any:
    return world.spark.range(6).selectExpr("concat('k', id) AS key", "id AS value")


def ours(world: World, job: Callable[..., Any]) -> Any:
    rows = world.read(PARTS[0])
    return job(rows, rows, static(world))


def stock(world: World, job: Callable[..., Any], mode: str) -> tuple[list[str], Rows]:
    """Columns and rows of stock's memory table over all parts; with mode update the last row of each key."""
    other = World(world.spark, world.folder / "stock")
    other.land(*PARTS)
    name = f"stock_{job.__name__}"
    writer = job(other.live(), other.live(), static(world)).writeStream.format("memory").queryName(name)
    with support.one_partition(world.spark):
        query = writer.outputMode(mode).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    frame = world.spark.table(name)
    return frame.columns, sorted(map(tuple, frame.collect()))


@pytest.mark.slow
@pytest.mark.parametrize("job", [paired, labelled, chosen])
def test_foreach_batch_gets_the_names_that_stock_gives(world: World, job: Callable[..., Any]) -> None:
    """Behind a join of two streams, and of a static table: names, values and their places, over switch and restart."""
    columns: set[tuple[str, ...]] = set()
    found: dict[int, Rows] = {}

    def take(rows: Any, number: int) -> None:
        columns.add(tuple(rows.columns))
        found[number] = list(map(tuple, rows.collect()))

    def start() -> Any:
        writer = ours(world, job).writeStream.foreachBatch(take).option("pipeline.parallelism", 2)
        query = writer.option("checkpointLocation", str(world.checkpoints)).start()
        world.queries.append(query)
        support.live(query)
        return query

    world.land(PARTS[1])
    query = start()
    support.finish(query)
    world.land(PARTS[2])
    start().processAllAvailable()
    expected_columns, expected = stock(world, job, "append")
    assert columns == {tuple(expected_columns)}
    assert len(set(expected_columns)) < len(expected_columns)
    assert expected
    assert sorted(row for rows in found.values() for row in rows) == expected


@pytest.mark.slow
def test_tables_and_rows_have_the_names_too(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    """In memory with the whole result in order, on the console, and one by one; schema and plan show them."""
    expected_columns, expected = stock(world, totals, "complete")
    world.land(*PARTS[1:])
    frame = ours(world, totals)
    assert frame.columns == expected_columns == ["key", "value", "n", "value"]
    writer = frame.orderBy(F.desc("n"), "key").limit(3).writeStream.outputMode("complete").format("memory")
    query = writer.queryName("our_totals").trigger(availableNow=True).start()
    world.queries.append(query)
    assert query.awaitTermination(300)
    table = world.spark.table("our_totals")
    assert table.columns == expected_columns
    assert [tuple(row) for row in table.collect()] == sorted(expected, key=lambda row: (-row[2], row[0]))[:3]
    assert "complete: key string, value bigint, n bigint, value bigint" in writer.plan().explain()

    for by in ("console", "foreach"):
        writer = ours(world, totals).writeStream.outputMode("complete" if by == "console" else "update")
        writer = writer.format("console") if by == "console" else writer.foreach(print_row)
        query = writer.trigger(availableNow=True).start()
        world.queries.append(query)
        assert query.awaitTermination(300)
    printed = capfd.readouterr().out.replace(" ", "")
    assert "|key|value|n|value|" in printed
    dry = ours(world, labelled).writeStream.format("console").dryRun(rows=2)
    assert dry.schema.names == ["key", "ts", "value", "key", "value"]
    assert len(dry.rows) == 2


def print_row(row: Any) -> None:
    assert row.__fields__ == ["key", "value", "n", "value"]
    assert row[3] == int(row["key"][1:])


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "orc", "json", "csv", "kafka"])
def test_formats_that_cannot_have_them_are_refused_at_start(world: World, format: str) -> None:
    """Before anything is read, with the names and the way out; a table, too."""
    writer = ours(world, paired).writeStream.format(format).option("checkpointLocation", str(world.checkpoints))
    with pytest.raises(PlanError, match=f"several columns named key, ts, value, which format {format} cannot have"):
        writer.option("path", str(world.out)).start()
    with pytest.raises(PlanError, match="which table t cannot have; rename or drop them, or use memory, console"):
        ours(world, labelled).writeStream.toTable("t", checkpointLocation=str(world.checkpoints))
    assert not world.out.exists()
    assert not world.checkpoints.exists()


def test_columns_of_either_frame_are_told_apart_before_the_sink(world: World) -> None:
    """As in stock: a name that two columns have is ambiguous, one that is taken from the frame is not."""
    rows, label = world.read(PARTS[0], live=False), static(world)
    plain = world.history(PARTS[0])

    def kept(frame: Any) -> Any:
        joined = frame.join(label, frame["key"] == label["key"])
        return joined.groupBy(frame["key"]).agg(F.sum(label["value"]), F.max(frame["value"]))

    assert kept(rows).columns == kept(plain).columns
    totals = rows.groupBy("key").agg(F.sum("value").alias("value"))
    behind = totals.join(label, totals["key"] == label["key"]).select(totals["key"], totals.value, label["value"])
    assert behind.columns == ["key", "value", "value"]
    with pytest.raises((AnalysisException, PlanError), match="ambiguous"):
        rows.join(label, rows["key"] == label["key"]).select("value")
