"""A program of several queries over one source: all of them are started, shown and waited for together, as in stock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import support
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

pytestmark = pytest.mark.timeout(600)

EVENTS = support.stream_of(60, seed=33)
PARTS = (EVENTS[:40], EVENTS[40:50], EVENTS[50:])


class Totals:
    """Takes the newest row of each key, until it is told to fail."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.fails = False

    def __call__(self, rows: DataFrame, _: int) -> None:
        if self.fails:
            raise RuntimeError("the table is gone")
        self.rows.update((row.key, row.total) for row in rows.collect())


def totals_of(*parts: list) -> dict[str, int]:
    found: Counter[str] = Counter()
    for key, _, value in (event for part in parts for event in part):
        found[key] += value
    return dict(found)


def test_one_of_several_queries_fails(world: World) -> None:
    """Two sinks of one stateful frame, another stateful query and one without state, all over the same source: each
    gives its own result; when one fails, ``awaitAnyTermination`` raises its error, and the others go on."""
    spark, totals = world.spark, Totals()
    spark.streams.resetTerminated()
    rows = world.read(PARTS[0])
    summed = rows.groupBy("key").agg(F.sum("value").alias("total"))
    first = rows.dropDuplicates(["key"]).select("key")

    def start(name: str, writer: Any) -> Any:
        writer = writer.queryName(name).option("checkpointLocation", str(world.folder / name))
        query = writer.option("pipeline.parallelism", 1).option("execution.checkpointing.interval", "200 ms").start()
        world.queries.append(query)
        return query

    queries = {
        "function": start("function", summed.writeStream.outputMode("update").foreachBatch(totals)),
        "table": start("table", summed.writeStream.outputMode("complete").format("memory")),
        "keys": start("keys", first.writeStream.option("path", str(world.folder / "keys-out"))),
        "rows": start("rows", rows.select("key", "value").writeStream.option("path", str(world.out))),
    }

    def check(*parts: list) -> None:
        assert {row.key: row.total for row in spark.table("table").collect()} == totals_of(*parts)
        assert sorted(row[0] for row in support.committed(world.folder / "keys-out")) == sorted(totals_of(*parts))
        copies = [(key, value) for part in parts for key, _, value in part]
        assert world.output() == sorted(copies, key=repr)

    for query in queries.values():
        support.live(query)
    active = {one.name: one.id for one in spark.streams.active}
    assert {name: active.get(name) for name in queries} == {name: query.id for name, query in queries.items()}
    assert not [name for name in active if name and "live source" in name]
    world.land(PARTS[1])
    for query in queries.values():
        query.processAllAvailable()
    check(*PARTS[:2])
    assert totals.rows == totals_of(*PARTS[:2])
    assert spark.streams.awaitAnyTermination(1) is False
    totals.fails = True
    world.land(PARTS[2])
    with pytest.raises(StreamingQueryException, match="the table is gone"):
        spark.streams.awaitAnyTermination()
    assert not queries["function"].isActive and "the table is gone" in str(queries["function"].exception())
    del queries["function"]
    for query in queries.values():
        query.processAllAvailable()
        assert query.isActive
    check(*PARTS)
    spark.streams.resetTerminated()
    for query in queries.values():
        query.stop()
    assert spark.streams.awaitAnyTermination(60) is True
    spark.streams.resetTerminated()
    assert not queries.keys() & {one.name for one in spark.streams.active}
