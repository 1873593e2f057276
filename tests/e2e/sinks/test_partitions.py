"""``format("parquet").partitionBy(…)``: folders as Spark writes them, exactly once."""

from __future__ import annotations

from pathlib import Path

import mixedmode
import pytest
from failing import fail_at
from mixedmode import MixedQuery
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

#: Keys with nothing, and with characters that no folder can have.
KEYS = ["plain", None, "", "a/b=c", '50%: "x" [y]', "é"]
EVENTS = [(KEYS[nth % 6], nth * 40_000, nth) for nth in range(12)]


def days(history: DataFrame) -> DataFrame:
    return history.withColumn("day", F.when(F.col("value") % 5 > 0, F.to_date("ts")))


def start(world: World) -> MixedQuery:
    keyed = (
        mixedmode.read(history=days(world.history(EVENTS)))
        .groupBy("key", "day")
        .agg(F.sum("value").alias("total"), (F.sum("value") / F.count("*")).alias("mean"))
    )
    writer = keyed.writeStream.format("parquet").partitionBy("day", "key").option("path", str(world.out))
    query: MixedQuery = (
        writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 2).start()
    )
    world.queries.append(query)
    return query


def test_partitions_are_those_of_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, schema and rows, nulls included; a commit that was cut short between renames is completed."""
    fail_at(monkeypatch, "sink-between-files=raise:3")
    with pytest.raises(mixedmode.QueryError):
        start(world).awaitTermination(300)
    fail_at(monkeypatch, "")
    assert len(files(world.out)) == 3
    start(world).awaitTermination(300)

    stock = world.folder / "stock"
    grouped = days(world.history(EVENTS)).groupBy("key", "day")
    expected = grouped.agg(F.sum("value").alias("total"), (F.sum("value") / F.count("*")).alias("mean"))
    expected.write.partitionBy("day", "key").parquet(str(stock))
    theirs, mine = (world.spark.read.parquet(str(folder)) for folder in (stock, world.out))
    assert mine.schema == theirs.schema
    assert sorted(map(tuple, mine.collect()), key=repr) == sorted(map(tuple, theirs.collect()), key=repr)
    assert {path.parent for path in files(world.out)} == {path.parent for path in files(stock)}
    start(world).awaitTermination(300)  # it had reached its end: nothing comes twice
    assert world.spark.read.parquet(str(world.out)).count() == expected.count()


def files(folder: Path) -> list[Path]:
    """The visible files of an output, by their names below it."""
    found = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return [path for path in found if not path.parts[0].startswith("_mixedmode")]
