"""The switch from backlog to stream, back and forth, and its edges; Hypothesis-made streams against stock batch."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import support
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from support import START, World

EVENTS = support.stream_of(150, seed=11)


def live_part(world: World, query: Any, *parts: list[support.Event]) -> None:
    world.feed(query, *parts)


def started(
    world: World, history: list[support.Event] | None, options: dict[str, str] | None = None, **live: str
) -> Any:
    """The test job in its live phase."""
    frame = None if history is None else world.history(history)
    query = support.live(world.start(support.sessions(frame, world.live(**live)), options))
    return query


def closed(world: World, query: Any, events: list[support.Event]) -> list[tuple[Any, ...]]:
    """The output after a row that closes every session."""
    live_part(world, query, support.flush_after(events))
    support.stop(query)
    return world.results()


# -- edges (X18) -------------------------------------------------------------------------------------------------------


def test_empty_backlog(world: World) -> None:
    """An empty history and a live source without data switch at once; the stream then works as ever (X18)."""
    query = started(world, [])
    assert query.checkpoints[0]["trigger"] == "switch"
    live_part(world, query, EVENTS)
    assert closed(world, query, EVENTS) == world.expected(EVENTS)


def test_live_alone(world: World) -> None:
    """Without a history the backlog is what waits at the live source (X18)."""
    world.land(EVENTS[:100])
    query = started(world, None)
    assert query.recentProgress[0].numInputRows == 100
    live_part(world, query, EVENTS[100:])
    assert closed(world, query, EVENTS) == world.expected(EVENTS)


def test_shards_without_keys(world: World) -> None:
    """A job with far more shards than keys works, in the backlog and in the stream (X18)."""
    one_key = [("only", seconds, value) for _, seconds, value in EVENTS]
    query = started(world, one_key[:100], {"pipeline.parallelism": "5"})
    live_part(world, query, one_key[100:])
    assert closed(world, query, one_key) == world.expected(one_key)


@pytest.mark.parametrize("mode", ["batch", "streaming", "mixed"])
def test_empty_history_alone(world: World, mode: str) -> None:
    """A bounded job without a row ends well and writes nothing, in every mode (X5, X18)."""
    query = world.start(support.sessions(world.history([]), None), {"execution.runtime-mode": mode})
    query.awaitTermination(300)
    assert world.output() == []
    assert support.events_of(query)[-1] == "finished"


# -- sources that hand over in pieces ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "limits"), [("batch", "source"), ("mixed", "source"), ("mixed", "lifted")])
def test_rate_limited_source_is_several_chunks_if_asked(world: World, mode: str, limits: str) -> None:
    """The limits of a live source are for the stream; ``source`` has it hand its waiting data over in chunks, too, and
    sessions across chunks stay whole (X9)."""
    world.land(EVENTS[60:90], EVENTS[90:120], EVENTS[120:])
    frame = support.sessions(world.history(EVENTS[:60]), world.live(maxFilesPerTrigger="1"))
    options = {"execution.runtime-mode": mode, "execution.backlog.limits": limits}
    query = world.start(frame, options, availableNow=True)
    query.awaitTermination(300)
    backlog = [p for p in query.recentProgress if p.phase == "backlog"]
    assert sum(p.numInputRows for p in backlog) == len(EVENTS)
    if mode == "mixed":
        assert len(backlog) >= 3 if limits == "source" else len(backlog) == 1
        again = started(world, EVENTS[:60])
        assert closed(world, again, EVENTS) == world.expected(EVENTS)
    else:
        assert world.output() == world.expected(EVENTS)


def test_available_now_runs_go_on_from_each_other(world: World) -> None:
    """A trigger that ends by itself works off what is there; the next run goes on with the state (X6)."""
    for start in range(0, 150, 50):
        world.land(EVENTS[start : start + 50])
        query = world.start(support.sessions(None, world.live()), availableNow=True)
        query.awaitTermination(300)
        assert query.checkpoints, "a run that ends must have committed"
    world.land(support.flush_after(EVENTS))
    query = world.start(support.sessions(None, world.live()), availableNow=True)
    query.awaitTermination(300)
    assert world.results() == world.expected(EVENTS)


# -- late rows (X17) ---------------------------------------------------------------------------------------------------


def test_nothing_in_the_backlog_is_late_but_in_the_stream(world: World) -> None:
    """Rows out of order in the backlog all count; after the switch a row behind the watermark is dropped (X17)."""
    backlog = [("a", seconds, 1) for seconds in (5000, 10, 4000, 20)]
    query = started(world, backlog)
    live_part(world, query, [("a", 15, 100), ("a", 5001, 1)])
    dropped = query.lastProgress.stateOperators[0]["numRowsDroppedByWatermark"]
    live_rows = [p for p in query.recentProgress if p.phase == "live" and p.numInputRows]
    assert [p.stateOperators[0]["numRowsDroppedByWatermark"] for p in live_rows] == [1]
    assert dropped in (0, 1)
    assert closed(world, query, backlog) == world.expected([*backlog, ("a", 5001, 1)])


# -- windows that straddle the switch (X1) -----------------------------------------------------------------------------


@pytest.mark.parametrize("final", [None, pytest.param("max", marks=pytest.mark.slow)])
def test_tumbling_window_over_the_switch(world: World, final: str | None) -> None:
    """A window that straddles the switch fires once with all rows by default, which is observed here
    (tests/planner/plans/test_final_watermark.py); in two parts under max (X1)."""
    rows = [("k", second, 1) for second in range(102)]
    history, live = rows[:50], rows[50:]  # windows of 4 s: the one from 48 to 52 straddles
    keyed = (
        world.read(history)
        .withWatermark("ts", "0 seconds")
        .groupBy("key", F.window("ts", "4 seconds"))
        .agg(F.count("*").alias("n"))
    )
    query = support.live(world.start(keyed, {} if final is None else {"execution.backlog.final-watermark": final}))
    backlog = len(world.output())
    live_part(world, query, live[:20], live[20:], support.flush_after(rows))
    support.stop(query)
    windows = sorted(((row[1]["start"] - START).seconds, row[2]) for row in world.output() if row[0] == "k")
    whole = [(start, 4) for start in range(0, 100, 4)] + [(100, 2)]
    if final != "max":
        assert backlog == 12  # the backlog's watermark is 49: windows up to 48 have ended
        assert windows == whole
    else:
        assert backlog == 13
        assert windows == sorted([*(pair for pair in whole if pair != (48, 4)), (48, 2), (48, 2)])


# -- back into backlog (X6) --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_stream_that_falls_behind_goes_back_into_backlog(world: World) -> None:
    """Watermark lag turns isBacklog on and off any number of times; no result changes by it (X6, I9, I3)."""
    # Event times near the present, so that lag is what the test says it is.

    base_s = int(time.time() - support.START.timestamp())

    def ago(events: list[support.Event], hours: float) -> list[support.Event]:
        shift = base_s - hours * 3600 - events[-1][1]
        return [(key, seconds + shift, value) for key, seconds, value in events]

    old, older = ago(EVENTS[:50], 9), ago(EVENTS[50:100], 6)
    fresh = ago(EVENTS[100:], 0)
    everything = [*old, *older, *fresh]
    options = {"pipeline.backlog.watermark-lag-threshold": "3 hours", "execution.checkpointing.interval": "1 ms"}
    query = started(world, old, options)
    live_part(world, query, older[:25], older[25:], fresh[:25], fresh[25:])
    modes = [p.mode for p in query.recentProgress if p.numInputRows]
    switches = [detail.split(" after")[0] for detail in support.details(query, "switch")]
    assert closed(world, query, everything) == world.expected(everything)
    assert modes[0] == "backlog"
    assert "streaming" in modes and "backlog" in modes[1:]
    assert "live isBacklog=true" in switches
    assert switches[-1] == "live isBacklog=false"


# -- any cut gives the same (X9) ---------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each step of shrinking would cost seconds
)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["a", "b", "", None, "é"]), st.integers(0, 400), st.integers(-(2**40), 2**40)),
        min_size=1,
        max_size=40,
    ),
    cuts=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    shards=st.integers(1, 3),
)
def test_any_stream_cut_anywhere_equals_stock_batch(
    world: World, steps: list[tuple[Any, int, int]], cuts: list[int], shards: int
) -> None:
    """In-order input cut anyhow into history, waiting data and micro-batches gives stock Spark's batch result (X9)."""
    now_s, events = 0, []
    for key, step_s, value in steps:
        now_s += step_s
        events.append((key, now_s, value))
    here = World(world.spark, world.folder / f"example-{len(list(world.folder.iterdir()))}")
    places = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    parts = [events[start:stop] for start, stop in itertools.pairwise(places)]
    here.land(parts[1])
    query = started(here, parts[0], {"pipeline.parallelism": str(shards)})
    live_part(here, query, *[part for part in parts[2:] if part])
    assert closed(here, query, events) == here.expected(events)
