"""The same processor and micro-batches in stock ``transformWithState``: timers, watermarks and late rows agree.

One difference is meant: a row exactly at the watermark is late in stock Spark and in time here, because otherwise rows
with equal event times would get lost or not depending on where micro-batches are cut.  The data avoids that case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import support
from pyspark.sql import Row, SparkSession
from support import World

support.by_value(__name__)

DELAY = "100 seconds"


class OrderedSessions(support.Sessions):
    """Stock Spark does not order the rows of a key and takes only Rows for output: this version minds both."""

    @staticmethod
    def _closed(key: Any, start_ms: int, closed_ms: int, count: int, total: int) -> Row:
        closed = support.Sessions._closed(key, start_ms, closed_ms, count, total)
        return Row("key", "start", "count", "total")(*closed)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        yield from super().handleInputRows(key, iter(sorted(rows, key=lambda row: row.ts)), timerValues)


#: Micro-batches with rows out of order, rows that are late, quiet keys, and a flush.
BATCHES: list[list[support.Event]] = [
    [("a", 1000, 1), ("b", 1010, 2), ("a", 950, 3)],
    [("a", 1200, 4), ("b", 905, 5), ("c", 911, 6)],  # the watermark is 910: b is late, c is not
    [("c", 1101, 7), ("a", 1099, 1), ("b", 1650, 8)],  # the watermark is 1100: a is late
    [("d", 1549, 9), ("d", 1551, 10), ("a", 2600, 11)],
    [("e", 2700, 12)],
    [(support.FLUSH_KEY, 10_000, 0)],
]


@pytest.fixture(scope="module")
def stock(spark: SparkSession, worlds: Any) -> list[tuple[Any, ...]]:
    """What stock Spark makes of the micro-batches."""
    world = worlds()
    found: list[tuple[Any, ...]] = []
    with support.rocksdb_state_store(spark):
        query = (
            world.live()
            .withWatermark("ts", DELAY)
            .groupBy("key")
            .transformWithState(OrderedSessions(), support.SESSION_SCHEMA, "append", "eventTime")
            .writeStream.foreachBatch(lambda frame, number: found.extend(tuple(row) for row in frame.collect()))
            .option("checkpointLocation", str(world.checkpoints))
            .start()
        )
        world.feed(query, *BATCHES)
        query.stop()
    return sorted(support.without_flush(found), key=repr)


@pytest.mark.parametrize("mode", ["streaming", "mixed"])
def test_stream_agrees_with_stock(world: World, stock: list[tuple[Any, ...]], mode: str) -> None:
    """From a live source alone, the stream fires and drops exactly what stock transformWithState does (X17)."""
    keyed = (
        world.read()
        .withWatermark("ts", DELAY)
        .groupBy("key")
        .transformWithState(OrderedSessions(), support.SESSION_SCHEMA, "append", "eventTime")
    )
    query = world.start(keyed, {"execution.runtime-mode": mode, "execution.backlog.final-watermark": "observed"})
    support.live(query)
    world.feed(query, *BATCHES)
    query.stop()
    assert world.results() == stock
    assert stock, "the stock query has no result to compare with"
