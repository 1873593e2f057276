"""Jobs whose live source begins from now, in a process of their own: ``python driver_positions.py <folder> <life>``.

In the first life every job is held while it works through its history; rows arrive, and the process kills itself.  In
the second life the jobs run to their end, while further rows arrive.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import feeds
import mixedmode
import support
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

#: Options of each job, after the source that it reads.
JOBS = {
    "stream-mixed": ("stream", {}),
    "stream-checkpoints": (
        "stream",
        {"execution.checkpointing.interval": "1 s", "execution.interval-during-backlog": "1 s"},
    ),
    "stream-streaming": ("stream", {"execution.runtime-mode": "streaming"}),
    "stream-batch": ("stream", {"execution.runtime-mode": "batch"}),
    "simple-mixed": ("simple", {}),
    "rate-mixed": ("rate", {}),
}
HISTORY = list(range(1000, 1006))
OLD, DURING, BETWEEN, LATER = (1, 2, 3), (4, 5), (6, 7, 8), (9, 10)
WAIT_S = 240


class Copy(StatefulProcessor):
    """Hands on its rows.  At one of the history rows arrive, and the first life is held there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        count = 0
        for row in rows:
            if row.value >= HISTORY[0] and not str(row.key).startswith("rate"):
                self._arrive()
            count += 1
            yield (row.key, row.ts, row.value)
        self._count.update((count,))

    def _arrive(self) -> None:
        try:
            os.close(os.open(f"{self._folder}/reached", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            feeds.append(Path(self._folder) / "feed", *DURING)
        for _ in range(WAIT_S * 20):
            if os.path.exists(f"{self._folder}/go"):
                return
            time.sleep(0.05)


def is_held(world: support.World, query: mixedmode.MixedQuery) -> bool:
    """True if the job is held in its history; raises what ended it."""
    if error := query.exception():
        raise error
    return (world.folder / "reached").exists()


def source(spark: Any, kind: str, folder: Path) -> Any:
    if kind == "rate":
        rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        return rate.select(F.lit("rate").alias("key"), F.col("timestamp").alias("ts"), "value")
    return spark.readStream.format("feed").options(**{"path": str(folder / "feed"), "kind": kind, "from": "now"}).load()


def main(folder: Path, life: str) -> None:
    cloudpickle.register_pickle_by_value(feeds)
    spark = support.driver_session("local[8]", {"spark.sql.shuffle.partitions": "1"})
    spark.dataSource.register(feeds.Feed)
    # One after the other: Spark gives each Python source a process of its own, and ten seconds to come up.
    for name, (kind, options) in JOBS.items():
        world = support.World(spark, folder / name)
        history = world.history([("history", value, value) for value in HISTORY])
        described = (
            mixedmode.read(history=history, live=source(spark, kind, world.folder))
            .groupBy("key")
            .transformWithState(Copy(str(world.folder)), feeds.SCHEMA, "append", "none")
        )
        query = world.start(described, {"pipeline.parallelism": 1, **options})
        if life == "first":
            support.wait_until(partial(is_held, world, query), WAIT_S)
        else:
            run_to_the_end(world, query, kind, name)
    os.kill(os.getpid(), signal.SIGKILL)


def run_to_the_end(world: support.World, query: mixedmode.MixedQuery, kind: str, name: str) -> None:
    if name.endswith("batch"):
        query.awaitTermination(WAIT_S)
        return
    query.wait_for("live", WAIT_S)
    feeds.append(world.folder / "feed", *LATER)
    if kind == "rate":
        before = len(support.committed(world.out))
        support.wait_until(lambda: is_growing(world, query, before), WAIT_S)
    support.finish(query)
    query.awaitTermination(WAIT_S)


def is_growing(world: support.World, query: mixedmode.MixedQuery, before: int) -> bool:
    query.processAllAvailable()
    return len(support.committed(world.out)) > before


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
