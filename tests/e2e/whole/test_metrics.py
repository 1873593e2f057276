"""What a running job says about itself: numbers of real epochs and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import support
from mixedmode import MixedQuery
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(120, seed=31)


@pytest.fixture(scope="module")
def finished(worlds: Callable[[], World]) -> tuple[World, MixedQuery]:
    """A job with a backlog and three micro-batches, the last one with a late row, and a checkpoint after each."""
    world = worlds()
    options = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}
    query = support.live(world.start(support.sessions(world.history(EVENTS[:60]), world.live()), options))
    world.feed(query, EVENTS[60:90], EVENTS[90:], [("late", 0, 1), *support.flush_after(EVENTS)])
    query.stop()
    return world, query


def epochs(query: MixedQuery) -> list[Any]:
    """Progress of the epochs that had rows."""
    return [progress for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.slow
def test_time_of_an_epoch_is_split_into_phases(finished: tuple[World, MixedQuery]) -> None:
    """The keyed stage and what was outside of it are the epoch; live epochs restore state, the backlog does not."""
    backlog, *live = epochs(finished[1])
    assert "restore" not in backlog.durationMs and all("restore" in progress.durationMs for progress in live)
    for progress in (backlog, *live):
        durations = progress.durationMs
        assert {"triggerExecution", "addBatch", "read", "process", "publish"} <= set(durations)
        assert durations["keyedStage"] + durations["outsideTasks"] == durations["addBatch"] == progress.batchDuration
    json.loads(backlog.json)


def test_every_shard_says_how_it_found_its_state(finished: tuple[World, MixedQuery]) -> None:
    """Each visited shard with state is a hit or a miss of its local copy, and what was brought in is counted."""
    _, first, second, _ = [progress.stateOperators[0]["customMetrics"] for progress in epochs(finished[1])]
    assert first["replicaCacheMisses"] + first["replicaCacheHits"] == 2
    assert first["stateBytesRead"] > 0
    # Whether the second epoch hits depends on which Python workers Spark takes.
    assert second["replicaCacheMisses"] + second["replicaCacheHits"] == 2
    assert second["stateFilesRead"] > 0
    backlog, *live = [progress.stateOperators[0]["memoryUsedBytes"] for progress in epochs(finished[1])]
    assert backlog == 0 and min(live) > 0, "a first backlog has no local copy, and each live epoch has"


def test_rows_keys_and_bytes_are_counted(finished: tuple[World, MixedQuery]) -> None:
    """Rows in, keys touched, state and output written, and rows dropped as late, per epoch."""
    query = finished[1]
    per_epoch = epochs(query)
    assert [progress.numInputRows for progress in per_epoch] == [60, 30, 30, 2]
    # A backlog may read the live source, too; later only that is read.
    of_sources = [[source["numInputRows"] for source in progress.sources] for progress in per_epoch]
    assert of_sources == [[None, None], [0, 30], [0, 30], [0, 2]]
    assert per_epoch[0].stateOperators[0]["numRowsUpdated"] == len({event[0] for event in EVENTS[:60]})
    assert [progress.stateOperators[0]["numRowsDroppedByWatermark"] for progress in per_epoch] == [0, 0, 0, 1]
    for progress in per_epoch:
        metrics = progress.stateOperators[0]["customMetrics"]
        assert metrics["inputBytes"] > 0 and metrics["stateBytesWritten"] > 0 and metrics["stateFilesWritten"] > 0
        written = progress.sink["metrics"]
        assert (written["outputBytes"] > 0) == (progress.sink["numOutputRows"] > 0) == (written["outputFiles"] > 0)
    fired = sum(p.stateOperators[0]["customMetrics"]["numExpiredTimers"] for p in query.recentProgress)
    assert 0 < fired <= sum(progress.sink["numOutputRows"] for progress in query.recentProgress)
    assert "exactly-once" in per_epoch[0].sink["description"]


def test_checkpoints_say_what_they_added(finished: tuple[World, MixedQuery]) -> None:
    """Each checkpoint has its parts, the files and bytes that the one before lacked, and the rows it made visible."""
    world, query = finished
    checkpoints = query.checkpoints
    assert checkpoints[0]["trigger"] == "switch"
    assert checkpoints[0]["newFiles"] == checkpoints[0]["stateFiles"]
    assert checkpoints[0]["newBytes"] == checkpoints[0]["stateBytes"]
    assert all(0 < one["newBytes"] < one["stateBytes"] for one in checkpoints[1:3])
    assert sum(one["numOutputRows"] for one in checkpoints) == len(world.output())
    for one in checkpoints:
        assert list(one["durationsMs"]) == ["write", "commit"]
        assert sum(one["durationsMs"].values()) <= one["durationMs"] + len(one["durationsMs"])
    assert query.lastProgress is not None and query.lastProgress.checkpoint == checkpoints[-1]


def test_first_checkpoint_after_a_restart_counts_only_what_is_new(finished: tuple[World, MixedQuery]) -> None:
    """What the recovered checkpoint had is not new."""
    world, before = finished
    query = support.live(world.start(support.sessions(world.history(EVENTS[:60]), world.live())))
    world.land([("again", 10**6, 1)])
    support.finish(query)
    first = query.checkpoints[0]
    assert first["id"] == before.checkpoints[-1]["id"] + 1
    assert 0 < first["newFiles"] < first["stateFiles"]


def test_sink_that_shows_at_once_has_its_time_in_progress(world: World) -> None:
    """The delivery of an epoch is part of its record."""
    keyed = support.sessions(world.history(EVENTS), None)
    query = keyed.writeStream.format("memory").queryName("metrics_table").option("pipeline.parallelism", 2).start()
    query.awaitTermination(300)
    durations = query.recentProgress[-1].durationMs
    assert durations["triggerExecution"] == durations["addBatch"] + durations["deliver"]
    assert world.spark.table("metrics_table").count() == len(world.expected(EVENTS))


@pytest.mark.parametrize("value", ["sum(value)", "sum(value) + 1"], ids=["aggregate", "expression"])
def test_rows_that_nobody_takes_are_counted(world: World, value: str) -> None:
    """With noop the output rows are counted, though none is written."""
    frame = world.read(EVENTS, live=False).groupBy("key").agg(F.expr(value).alias("total"))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(world.checkpoints)).start()
    query.awaitTermination()
    (backlog,) = epochs(query)
    assert backlog.sink["numOutputRows"] == len({event[0] for event in EVENTS})
    assert backlog.sink["metrics"]["outputFiles"] == 0
