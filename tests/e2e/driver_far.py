"""A job whose checkpoints and savepoints are far away, and whose sink is slow, in a process of its own.

``python driver_far.py <folder> first|second|last [<savepoint>]``: each life lets its files land together, an epoch
each.  The first one takes a savepoint while they come, and stops.  ``lives`` in the folder gets a line of each life
that stops: epochs and checkpoints of files, and requests to the store.  The last one writes ``expected``: what a plain
batch gives.
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
from mixedmode import MixedQuery, RunListener, add_listener
from mixedmode.runtime.connectors.sinks.files import ParquetSink
from pyspark import cloudpickle

#: What the sink takes to show the rows of a checkpoint.
COMMIT_S = 2.0
EVENTS = support.stream_of(144, seed=33)
#: Rows of a file.
ROWS = 6
#: First and last event of what lands in each life.
LANDS = {"first": (72, 102), "second": (102, 120), "last": (120, len(EVENTS))}


class Checkpoints(RunListener):
    """Counts those that are complete."""

    def __init__(self) -> None:
        self.count = 0

    def onCheckpointCompleted(self, event: Any) -> None:
        self.count += 1


def slowly(self: ParquetSink, transaction: Any, commit: Any = ParquetSink.commit) -> None:
    """Show rows as a table does whose commits take long."""
    time.sleep(COMMIT_S)
    commit(self, transaction)


def in_flight(query: MixedQuery) -> bool:
    """Whether epochs go on beside a checkpoint."""
    assert query.isActive, query.exception()
    return query._runner._run.checkpoints.in_flight is not None  # type: ignore[union-attr]


def main(folder: Path, life: str, savepoint: str = "") -> None:
    for module in (refusing, far_store):
        cloudpickle.register_pickle_by_value(module)
    spark = support.driver_session()
    world = support.World(spark, folder)
    world.checkpoints = folder / "far" / "checkpoints"
    ParquetSink.commit = slowly  # type: ignore[method-assign]
    checkpoints = Checkpoints()
    add_listener(checkpoints)
    history = spark.read.schema(support.ROW_SCHEMA).parquet(str(folder / "history.parquet"))
    job = support.sessions(history, world.live(maxFilesPerTrigger="1"))
    far_store.move_away(folder / "far")
    query = world.start(job)
    assert query.wait_for("live", 300), query.exception()
    complete, epoch = checkpoints.count, query.status["epoch"]
    first, last = LANDS[life]
    world.land(*[EVENTS[place : place + ROWS] for place in range(first, last, ROWS)])
    if savepoint:
        support.wait_until(lambda: query.status["epoch"] > epoch + 1 and in_flight(query))
        query.savepoint(savepoint)
        support.wait_until(lambda: in_flight(query))
    if life == "last":
        world.land(support.flush_after(EVENTS))
    query.processAllAvailable()
    said = {"epochs": query.status["epoch"] - epoch, "checkpoints": checkpoints.count - complete}
    query.stop()
    query.awaitTermination(1)
    with open(folder / "lives", "a") as lives:
        lives.write(f"{json.dumps({**said, 'requests': far_store.FarStore.requests})}\n")
    if life == "last":
        (folder / "expected").write_text(repr(support.expected_sessions(spark, EVENTS)))
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
