"""A job whose checkpoints and savepoints are far away, and whose sink is slow, in a process of its own.

``python driver_far.py <folder> first|second|last [<savepoint>]``: each life lets its files land together, an epoch
each.  Store and sink are slow as soon as the first life, or the second, is live.  The first one takes a savepoint while
files come, and stops beside a checkpoint; ``said`` in the folder then has its epochs and checkpoints since it was live,
and its requests to the store.  The last one writes ``expected``: what a plain batch gives.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import far_store
import refusing
import support
from mixedmode import RunListener, add_listener
from mixedmode.runtime.connectors.sinks.parquet import ParquetSink
from pyspark import cloudpickle

#: What the sink takes to show the rows of a checkpoint.
COMMIT_S = 0.8
EVENTS = support.stream_of(144, seed=33)
#: First and last event of what lands in each life, and how many of them a file has.
LANDS = {
    "first": (72, 90, 6),
    "stopped": (90, 102, 6),
    "second": (102, 120, 6),
    "last": (120, len(EVENTS), 12),
}
#: In the folder: what makes store and sink slow.
SLOW = "slow"


class Checkpoints(RunListener):
    """Counts those that are complete."""

    def __init__(self) -> None:
        self.count = 0

    def onCheckpointCompleted(self, event: Any) -> None:
        self.count += 1


def slow_down(is_slow: Path) -> None:
    """Have the sink show rows as a table does whose commits take long, while a file is there."""
    commit = ParquetSink.commit

    def slowly(self: ParquetSink, transaction: Any) -> None:
        if is_slow.exists():
            time.sleep(COMMIT_S)
        commit(self, transaction)

    ParquetSink.commit = slowly  # type: ignore[method-assign]


def land(world: support.World, first: int, last: int, rows: int) -> None:
    """Events from one place to another, in files of so many."""
    world.land(*[EVENTS[place : place + rows] for place in range(first, last, rows)])


def main(folder: Path, life: str, savepoint: str = "") -> None:
    for module in (refusing, far_store):
        cloudpickle.register_pickle_by_value(module)
    spark = support.driver_session()
    world = support.World(spark, folder)
    world.checkpoints = folder / "far" / "checkpoints"
    is_slow = folder / SLOW
    is_slow.unlink(missing_ok=True)
    slow_down(is_slow)
    checkpoints = Checkpoints()
    add_listener(checkpoints)
    history = world.history()
    job = support.sessions(history, world.live(maxFilesPerTrigger="1"))
    far_store.move_away(folder / "far", is_slow)
    query = world.start(job, {"pipeline.parallelism": 1})  # each file is a handful of requests
    support.live(query)
    complete, epoch = checkpoints.count, query.status["epoch"]
    if life != "last":
        is_slow.touch()
    land(world, *LANDS[life])
    if savepoint:
        support.wait_until(lambda: query.status["epoch"] > epoch + 1 and support.in_flight(query))
        query.savepoint(savepoint)
        land(world, *LANDS["stopped"])
        support.wait_until(lambda: support.in_flight(query))
    else:
        if life == "last":
            world.land(support.flush_after(EVENTS))
        query.processAllAvailable()
    query.stop()
    query.awaitTermination(1)
    said = {"epochs": query.status["epoch"] - epoch, "checkpoints": checkpoints.count - complete}
    (folder / "said").write_text(json.dumps({**said, "requests": far_store.FarStore.requests}))
    if life == "last":
        (folder / "expected").write_text(repr(support.expected_sessions(spark, EVENTS)))
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
