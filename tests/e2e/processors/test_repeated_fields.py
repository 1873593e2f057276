"""Structs with several fields of one name, as keys, aggregates and rows: sinks get them as stock gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import support
from mixedmode import PlanError
from pyspark.sql import functions as F
from support import World

PARTS = [support.stream_of(40, seed=seed, keys=4) for seed in (5, 6)]
Rows = list[tuple[Any, ...]]


def twice(rows: Any) -> Any:
    """A struct of two fields with one name, and that twice in an array."""
    pair = F.struct(F.col("key").alias("x"), (F.col("value") % 3).alias("x"))
    return rows.select(pair.alias("pair"), F.array(pair, pair).alias("pairs"), "ts", "value")


def totals(rows: Any) -> Any:
    """Keys and aggregates of such a type, also inside an expression over aggregates."""
    both = F.struct(F.sum("value").alias("n"), F.count("*").alias("n")).alias("both")
    most = F.max("pairs")
    return (
        twice(rows).groupBy("pair").agg(F.max("value").alias("most"), both, most.alias("pairs"), most[0].alias("one"))
    )


def once(rows: Any) -> Any:
    return twice(rows).dropDuplicates(["pair"]).select("pair", F.to_json("pairs").alias("json"))


def counts(rows: Any) -> Any:
    """A stage behind one whose rows have such a type."""
    return twice(rows).withWatermark("ts", "0 seconds").dropDuplicates(["pair", "ts"]).groupBy("pair").count()


def delivered(world: World, frame: Any, mode: str, name: str) -> tuple[str, Rows]:
    """Columns and rows of the memory table; with mode update the last row of each key."""
    writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
    with support.one_partition(world.spark):
        query = writer.option("checkpointLocation", str(world.folder / name)).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    table = world.spark.table(name)
    rows = {row[0]: tuple(row) for row in table.collect()}
    return table.schema.simpleString(), sorted(rows.values(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "mode"), [(totals, "update"), (totals, "complete"), (once, "append"), (counts, "complete")]
)
def test_a_table_has_the_names_and_values_of_stock(world: World, job: Callable[[Any], Any], mode: str) -> None:
    """Over history and live input."""
    world.land(PARTS[1])
    ours = job(world.read(PARTS[0]))
    found = delivered(world, ours, mode, f"our_{job.__name__}_{mode}")
    other = World(world.spark, world.folder / "stock")
    other.land(*PARTS)
    assert ours.schema.simpleString() == job(other.live()).schema.simpleString()
    expected = delivered(other, job(other.live()), mode, f"stock_{job.__name__}_{mode}")
    assert expected[1]
    assert found == expected


@pytest.mark.slow
def test_rows_without_a_stage_have_them_too_and_files_cannot(world: World) -> None:
    """Spark reads no such file, so a format of files is refused at start."""
    rows = twice(world.read(PARTS[0], live=False))
    dry = rows.writeStream.format("console").dryRun(rows=2)
    assert dry.schema.simpleString() == twice(world.history(PARTS[0])).schema.simpleString()
    with pytest.raises(PlanError, match="column pair of the output has structs with two fields named x, which format"):
        rows.writeStream.format("parquet").option("path", str(world.out)).plan()
