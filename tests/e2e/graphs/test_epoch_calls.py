"""How often a steady epoch of the stream calls the JVM: each call is a round trip, and many make an analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mixedmode
import pytest
import support
from epoch_calls import EpochCalls
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(60, seed=3)


def totals(history: DataFrame | None, live: DataFrame | None) -> Any:
    """An aggregate, and what selects of its rows."""
    rows = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds")
    return rows.groupBy("key", F.window("ts", "1 hour")).agg(F.sum("value").alias("total")).where("total > 0")


def uniques(history: DataFrame | None, live: DataFrame | None) -> Any:
    """A deduplication, whose rows the task prepares."""
    return mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds").dropDuplicates(["key", "ts"])


def firsts(history: DataFrame | None, live: DataFrame | None) -> Any:
    """Two stages, of which the first one hands on rows in each epoch."""
    rows = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds").dropDuplicates(["key", "ts"])
    return rows.groupBy(F.window("ts", "1 hour")).agg(F.sum("value").alias("total"))


@pytest.mark.parametrize(
    ("job", "most", "most_in_all"),
    # These numbers may only fall.
    [
        pytest.param(totals, 12, 15, id="an aggregate", marks=pytest.mark.slow),
        pytest.param(uniques, 9, 12, id="a deduplication"),
        pytest.param(support.sessions, 11, 14, id="a processor"),
        pytest.param(firsts, 16, 19, id="two stages", marks=pytest.mark.slow),
    ],
)
def test_a_steady_epoch_makes_few_calls(
    world: World, monkeypatch: pytest.MonkeyPatch, job: Callable[..., Any], most: int, most_in_all: int
) -> None:
    """Once a stage's plan is there, an epoch costs no more calls than this, and no more with each epoch."""
    options = {"execution.checkpointing.interval": "1 hour", "execution.backlog.final-watermark": "observed"}
    history: DataFrame = world.history(EVENTS[:20])
    query = support.live(world.start(job(history, world.live(maxFilesPerTrigger="1")), options))
    calls = EpochCalls(monkeypatch.setattr)
    world.land(*[EVENTS[start : start + 8] for start in range(20, 60, 8)])
    query.processAllAvailable()
    assert len(calls.by_epoch) == 5
    assert max(calls.by_epoch[3:]) <= most, calls.by_epoch
    assert max(calls.by_batch[3:]) <= most_in_all, calls.by_batch
    assert calls.ready[3:] == [1, 1], "one job, planned already"
    if job is uniques:
        plan = str(calls.plans[-1].top.toString())
        assert "Sort" not in plan and KEY_GROUP_COLUMN not in plan, f"the task does that itself: {plan}"
