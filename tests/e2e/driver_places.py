"""Jobs on a cluster whose rows tell which executor has processed them, one after the other.

``python driver_places.py <folder>`` runs one with a single stage and one with two.  Behind some micro-batches an
executor is lost, and another one comes; then there are some more.  A line ``places`` has the executor of each shard in
a micro-batch of the first job, ``misses`` how many local copies each epoch of a stage had to build, ``calls`` and
``ready`` what each micro-batch has cost the driver, ``compactions`` how many files of such there are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import support
from epoch_calls import EpochCalls
from mixedmode.runtime.catalyst.spark_cluster import Executors
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

KEYS = 40
STEADY, MORE = 4, 3
SHARDS = 4


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
    calls = EpochCalls()
    for name in ("one", "two"):
        tell(name, spark, folder / name, calls)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def tell(name: str, spark: SparkSession, folder: Path, calls: EpochCalls) -> None:
    """Run a job, and print what there is to be told of it."""
    world = support.World(spark, folder)
    keyed = world.read(batch(0)).groupBy("key")
    placed = keyed.transformWithState(Place(), "batch long, shard int, executor string", "append", "none")
    if name == "two":
        placed = placed.groupBy("batch", "shard", "executor").agg(F.count("*").alias("keys"))
        writer = placed.writeStream.format("noop").outputMode("update")
    else:
        writer = placed.writeStream.option("path", str(world.out))
    writer = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", str(SHARDS))
    query = writer.option("execution.checkpointing.interval", "1 ms").start()
    query.wait_for("live", 300)
    del calls.by_epoch[:], calls.ready[:]
    for number in range(1, STEADY + MORE + 1):
        if number == STEADY + 1:
            lose_one(spark, folder / "lost")
        world.feed(query, batch(number))
        # A compaction's task on a lost executor would wait for it, as all tasks do here.
        support.wait_until(lambda: support.is_at_rest(query))
    query.stop()
    for stage in range(len(query.lastProgress.stateOperators)):
        metrics = [record["stateOperators"][stage]["customMetrics"] for record in query.recentProgress]
        print(name, "misses", *(one["replicaCacheMisses"] for one in metrics))
    print(name, "compactions", len(list(world.checkpoints.rglob("*-compacted-*"))))
    print(name, "calls", *calls.by_epoch)
    print(name, "ready", *calls.ready)
    found = {(row[0], row[1]): row[2] for row in world.output()} if name == "one" else {}
    for number in range(1, STEADY + MORE + 1) if found else ():
        print(name, "places", *(found.get((number, shard), "nowhere") for shard in range(SHARDS)), flush=True)


def lose_one(spark: SparkSession, flag: Path) -> None:
    """An executor dies; this returns when another one has taken its place, as the cluster sees to."""

    def kill(_: int) -> None:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return  # it runs again on another one
        with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as daemon:
            os.kill(int(daemon.read().rpartition(")")[2].split()[1]), signal.SIGKILL)

    executors = Executors(spark)
    before = set(executors.places())
    spark.sparkContext.parallelize([0], 1).foreach(kill)
    support.wait_until(lambda: len(now := set(executors.places())) == len(before) and now != before)


def batch(number: int) -> list[support.Event]:
    """One row for each key."""
    return [(f"k{key}", number, number) for key in range(KEYS)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
