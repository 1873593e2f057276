"""A job that somebody has put back to an older checkpoint: tables that remember transactions take all that it gives."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from failing import fail_at
from kafka_support import numbered
from lake_support import append
from mixedmode import QueryError, delta
from support import World, live

OUTS = ("delta", "iceberg")


def started(world: World, format: str, **trigger: Any) -> Any:
    """The job of a format, over one and the same table."""
    rows = delta.read(world.spark, world.folder / "source")
    writer = (
        numbered(rows)
        .writeStream.format(format)
        .options(
            **{
                "checkpointLocation": str(world.folder / format),
                "execution.checkpointing.interval": "1 hour",
                "state.checkpoints.num-retained": 5,
                "pipeline.parallelism": 1,
            }
        )
    )
    writer = writer.trigger(**trigger) if trigger else writer
    query = writer.toTable("ice.db.gone_back") if format == "iceberg" else writer.start(str(world.folder / "out"))
    world.queries.append(query)
    return query


def go_back(location: Path, to: int) -> None:
    """As the error about a damaged checkpoint tells."""
    home = location / "mixedmode"
    for folder in (home / "checkpoints").iterdir():
        if int(folder.name.removeprefix("chk-")) > to:
            shutil.rmtree(folder)
    os.unlink(home / "newest.json")


def values_of(world: World, format: str) -> Counter[int]:
    spark = world.spark
    reader = spark.read.format(format)
    out = reader.load("ice.db.gone_back" if format == "iceberg" else f"{world.folder}/out")
    return Counter(row[0] for row in out.select("value").collect())


def test_no_row_is_missing_behind_an_older_checkpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the newer, removed checkpoints had committed is committed again, and so is all that comes later, each row
    once, also where the answer to a commit is lost."""
    append(world.spark, world.folder / "source", range(10))
    queries = {format: started(world, format) for format in OUTS}
    for query in queries.values():
        live(query)
    for at in (10, 20, 30):  # checkpoints 2, 3 and 4
        append(world.spark, world.folder / "source", range(at, at + 10))
        for query in queries.values():
            query.processAllAvailable()
    for format, query in queries.items():
        query.stop()
        go_back(world.folder / format, 2)
    append(world.spark, world.folder / "source", range(40, 50))
    for format in OUTS:
        with monkeypatch.context() as failing:
            fail_at(failing, "sink-after-function=raise")
            query = started(world, format, availableNow=True)
            with pytest.raises(QueryError, match="is complete, but showing its output failed"):
                query.awaitTermination(240)
        query = started(world, format, availableNow=True)
        assert query.awaitTermination(240), query.exception()
    append(world.spark, world.folder / "source", range(50, 60))
    for query in [started(world, format, availableNow=True) for format in OUTS]:
        assert query.awaitTermination(240), query.exception()
    expected = {value: 2 if 20 <= value < 40 else 1 for value in range(60)}
    assert {format: values_of(world, format) for format in OUTS} == dict.fromkeys(OUTS, expected)
