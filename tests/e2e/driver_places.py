"""A job on a cluster whose rows tell which executor has processed them.

``python driver_places.py <folder>`` prints for every micro-batch a line ``places`` with the executor of each shard,
then a line ``misses`` with how many replicas each epoch had to build, and how many files of compactions there are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import support
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

KEYS = 40
BATCHES = 8


class Place(StatefulProcessor):
    """Says for each key in which shard and on which executor it is."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        batch = max(row.value for row in rows)
        self._count.update(((self._count.get() or (0,))[0] + 1,))
        context = TaskContext.get()
        assert context is not None
        yield batch, context.partitionId(), os.environ["SPARK_LOCAL_DIRS"].rsplit("-", 1)[-1]


def main(folder: Path) -> None:
    settings = {
        "spark.shuffle.reduceLocality.enabled": "false",
        # However slow the machine is: both executors are there first, and a task waits for the one that it prefers.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.locality.wait": "300s",
    }
    spark = support.driver_session(os.environ["SESSIONS_MASTER"], settings)
    support.compact_eagerly()
    world = support.World(spark, folder)
    keyed = mixedmode.read(history=world.history(batch(0)), live=world.live()).groupBy("key")
    placed = keyed.transformWithState(Place(), "batch long, shard int, executor string", "append", "none")
    query = world.start(placed, {"pipeline.parallelism": 4, "execution.checkpointing.interval": "1 ms"})
    query.wait_for("live", 300)
    for number in range(1, BATCHES + 1):
        world.land(batch(number))
        query.processAllAvailable()
    query.stop()
    misses = [record["stateOperators"][0]["customMetrics"]["replicaCacheMisses"] for record in query.recentProgress]
    print("misses", *misses)
    print("compactions", len(list(world.checkpoints.rglob("*-compacted-*"))))
    found = {(row[0], row[1]): row[2] for row in world.output()}
    for number in range(1, BATCHES + 1):
        print("places", *(found.get((number, shard), "nowhere") for shard in range(4)), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def batch(number: int) -> list[support.Event]:
    """One row for each key."""
    return [(f"k{key}", number, number) for key in range(KEYS)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
