"""Joins whose epochs fail, and that go on elsewhere: that of an undisturbed run.  (Killed: test_kill.py.)"""

from __future__ import annotations

import intervals
import joins
import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from joins import FURTHER, Pair
from support import World

#: A job's options: every epoch is followed by a checkpoint.
COMMITS = {"execution.checkpointing.interval": intervals.named("1 ms")}


@pytest.mark.slow
@pytest.mark.smoke
def test_failed_epochs_leave_no_trace_and_a_savepoint_goes_on_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed in the backlog is finished by the next run, which takes over its shards; what failed in the stream
    is done again; a savepoint is gone on with under another number of shards, and what waited there finds partners."""
    failures = EpochFailures(monkeypatch, "epoch-before-apply")
    pair, rows = Pair(world), joins.sides_of(seed=9, rows=200)
    history = [joins.of_side(rows[:80], side) for side in (0, 1)]
    pair.land(rows[80:110])
    job = joins.joined(*pair.read(*history), "full", FURTHER)
    query = world.start(job, COMMITS)
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
        query.awaitTermination(300)
    assert world.output() == []
    failures.point = None
    query = support.live(world.start(job, COMMITS))
    assert support.details(query, "reused") == ["2 of 2 shards were finished"]
    at_switch = joins.shown(world.output())
    failures.point = "epoch-before-apply"
    pair.land(rows[110:140])
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
        query.awaitTermination(300)
    assert joins.shown(world.output()) == at_switch
    failures.point = None
    query = support.live(world.start(job, COMMITS))
    query.processAllAvailable()
    known = world.output()
    assert len(known) > len(at_switch)
    savepoint = query.stopWithSavepoint(str(world.folder / "sp"), drain=False)
    assert joins.shown(world.output()) == joins.shown(known), "nothing fires"

    again = World(world.spark, world.folder / "again")
    more = again.start(
        joins.joined(*pair.read(), "full", FURTHER),
        {**COMMITS, "execution.savepoint.path": savepoint, "pipeline.parallelism": 3},
    )
    support.live(more)
    pair.land(rows[140:])
    more.processAllAvailable()
    more.stopWithSavepoint(str(again.folder / "drained"), drain=True)
    assert joins.shown(known + again.output()) == pair.expected(rows, "full", FURTHER)
