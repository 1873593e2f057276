"""Savepoints, other shards, pauses, stops and a drain while a checkpoint is in flight all the time.

That is so by default, and in a period that is over when a checkpoint is complete: the job's starts have both in turn.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import support
from intervals import KINDS
from mixedmode import MixedQuery
from mixedmode.runtime.checkpoints.store import CheckpointStore
from support import World

pytestmark = pytest.mark.slow

#: A session stays open over several micro-batches; a micro-batch has few rows.
EVENTS = support.stream_of(240, seed=33)
ROWS = 4
#: What the store takes for ``_metadata``: several epochs go by meanwhile.
SLOW_S = 0.4


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints take longer than epochs, so that one is in flight whenever there are rows."""
    write = CheckpointStore.write

    def slowly(self: CheckpointStore, metadata: Any) -> None:
        time.sleep(SLOW_S)
        write(self, metadata)

    monkeypatch.setattr(CheckpointStore, "write", slowly)


def start(world: World, **options: Any) -> MixedQuery:
    keyed = support.sessions(world.history(EVENTS[:60]), world.live(maxFilesPerTrigger="1")).uid("sessions")
    interval = {"execution.checkpointing.interval": KINDS[len(world.queries) % len(KINDS)]}
    query = support.live(world.start(keyed, {"pipeline.parallelism": None, **interval, **options}))
    return query


def land(world: World, first: int, last: int) -> None:
    """Rows in many files, each of which is an epoch."""
    world.land(*[EVENTS[place : place + ROWS] for place in range(first, last, ROWS)])


def rows_read(query: MixedQuery) -> int:
    """Rows of all epochs of this run."""
    return sum(one["numInputRows"] for one in query.recentProgress)


def more_to_come(query: MixedQuery) -> None:
    """Return while epochs run and a checkpoint is on its way beside them."""
    epoch = query.status["epoch"]
    support.wait_until(lambda: query.status["epoch"] > epoch and support.in_flight(query))


def test_whatever_is_asked_for_comes_beside_checkpoints_in_flight(world: World, tmp_path: Path) -> None:
    """Each of them is asked for while an earlier checkpoint is on its way and epochs go on; rows come out once."""
    query = start(world, **{"pipeline.parallelism": 2})
    land(world, 60, 140)
    more_to_come(query)
    assert query.savepoint(tmp_path / "running") == str(tmp_path / "running")
    more_to_come(query)
    query.rescale(3)
    assert query.status["shards"] == {"sessions": 3}
    more_to_come(query)
    query.pause()
    assert query.status["isPaused"] and not support.in_flight(query)
    assert set(world.output()) <= set(support.sessions_of(EVENTS[:140])), "what is visible in a pause is whole"
    query.resume()
    more_to_come(query)
    support.stop(query)

    query = start(world)
    land(world, 140, 200)
    more_to_come(query)
    query.stopWithSavepoint(tmp_path / "suspended")

    query = start(world)
    query.processAllAvailable()
    before = rows_read(query)
    land(world, 200, len(EVENTS))
    # What a drain does not find processed is left to the next start. A checkpoint of the last epochs takes longer yet.
    support.wait_until(lambda: rows_read(query) - before == len(EVENTS) - 200)
    query.stopWithSavepoint(tmp_path / "drained", drain=True)
    assert world.output() == world.expected(EVENTS)
    assert len(list(world.checkpoints.glob("mixedmode/checkpoints/*/_metadata"))) >= 1
