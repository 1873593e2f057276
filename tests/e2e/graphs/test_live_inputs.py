"""Several live inputs in one job: one stream, one state, a watermark each."""

from __future__ import annotations

import time
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import CheckpointMismatchError
from pyspark.sql import functions as F
from support import World

OBSERVED = {"execution.backlog.final-watermark": "observed"}


class TwoInputs:
    """Two landing zones beside one history, output and checkpoints."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.other = World(world.spark, world.folder / "other")

    def lives(self) -> dict[str, Any]:
        return {"a": self.world.live(), "b": self.other.live()}

    def land(self, query: Any, a: list[support.Event] | None = None, b: list[support.Event] | None = None) -> None:
        for world, events in ((self.world, a), (self.other, b)):
            if events:
                world.land(events)
        query.processAllAvailable()


@pytest.fixture
def two(world: World) -> TwoInputs:
    return TwoInputs(world)


def windows(live: Any, history: Any = None) -> Any:
    """Rows per 10 seconds, handed out once the watermark has passed."""
    frame = mixedmode.read(history=history, live=live)
    return windows_of(frame.withWatermark("ts", "0 seconds"))


def windows_of(frame: Any) -> Any:
    return frame.groupBy(F.window("ts", "10 seconds").alias("w")).agg(F.count("*").alias("n"))


def counts(world: World) -> list[tuple[int, int]]:
    """(second in which a window begins, rows in it) of all windows that were handed out."""
    return sorted(((row[0]["start"] - support.START).seconds, row[1]) for row in world.output())


def watermark_of(query: Any) -> str | None:
    found: str | None = query.lastProgress.eventTime.get("watermark")
    return found and found[11:19]


@pytest.mark.slow
def test_all_rows_reach_one_state(two: TwoInputs) -> None:
    """History and both live inputs, waiting and new rows alike, end as stock Spark's batch over all of them.

    One input is always ahead of the other, so what a window holds may not depend on the order in which rows come.
    """
    events = support.stream_of(120, seed=3)
    two.world.land(events[40:50])
    two.other.land(events[50:60])
    history = two.world.history(events[:40])
    window = F.session_window("ts", f"{support.GAP_S} seconds")
    sessions = (
        mixedmode.read(history=history, live=two.lives())
        .withWatermark("ts", "0 seconds")
        .groupBy("key", window.alias("w"))
        .agg(F.count("*").alias("count"), F.sum("value").alias("total"))
    )
    query = support.live(two.world.start(sessions, OBSERVED))
    for first in range(60, 120, 30):
        part = events[first : first + 30]
        two.land(query, a=part[::2])
        two.land(query, b=part[1::2])
    flush = support.flush_after(events)
    two.land(query, a=flush, b=flush)
    two.land(query, a=flush, b=flush)
    query.stop()

    assert query.exception() is None
    rows = two.world.results()
    found = sorted(((key, w["start"].replace(tzinfo=None), *values) for key, w, *values in rows), key=repr)
    assert found == two.world.expected(events)


@pytest.mark.slow
def test_the_slower_input_holds_the_watermark_back(two: TwoInputs) -> None:
    """Rows of the slower input are not late, however far the other one is; windows wait for both."""
    query = two.world.start(windows(two.lives()), OBSERVED)
    two.land(query, a=[("x", 100, 1)])
    assert watermark_of(query) is None
    two.land(query, b=[("x", 15, 1)])
    assert watermark_of(query) == "00:00:15"
    two.land(query, b=[("x", 16, 1), ("x", 31, 1)])
    assert watermark_of(query) == "00:00:31"
    support.finish(query)
    assert counts(two.world) == [(10, 2)]
    assert query.recentProgress[-1].stateOperators[0]["numRowsDroppedByWatermark"] == 0


@pytest.mark.slow
def test_history_counts_for_the_inputs_that_go_on_from_it(two: TwoInputs) -> None:
    """After the backlog each input is as far as the history it was read with; one without a history holds back."""
    history = two.world.history([("x", 0, 1), ("x", 40, 1)])
    both = support.live(two.world.start(windows(two.lives(), history), OBSERVED))
    assert watermark_of(both) == "00:00:40"
    both.stop()
    assert counts(two.world) == [(0, 1)]

    here = World(two.world.spark, two.world.folder / "apart")
    apart = (
        mixedmode.read(history=history, live=two.world.live()).union(two.other.read()).withWatermark("ts", "0 seconds")
    )
    query = support.live(here.start(windows_of(apart), OBSERVED))
    assert watermark_of(query) is None
    query.stop()
    assert counts(here) == []
    here.stop_all()


@pytest.mark.slow
def test_each_input_may_have_a_delay_of_its_own(two: TwoInputs) -> None:
    """A watermark that was declared before the union stays the input's own."""
    left = mixedmode.read(live={"a": two.world.live()}).withWatermark("ts", "5 seconds")
    right = mixedmode.read(live={"b": two.other.live()}).withWatermark("ts", "20 seconds")
    query = two.world.start(windows_of(left.unionByName(right)), OBSERVED)
    two.land(query, a=[("x", 50, 1)], b=[("x", 50, 1)])
    assert watermark_of(query) == "00:00:30"
    two.land(query, b=[("x", 100, 1)])
    assert watermark_of(query) == "00:00:45"
    own = [source["eventTime"]["watermark"][11:19] for source in query.lastProgress.sources]
    assert own == ["00:00:45", "00:01:20"]


def test_an_idle_input_lets_the_watermark_go_on_without_rows(two: TwoInputs) -> None:
    """After the timeout the clock fires what only the silent input held back."""
    query = two.world.start(windows(two.lives()), {**OBSERVED, "pipeline.watermark.idle-timeout": "100 ms"})
    two.land(query, a=[("x", 5, 1), ("x", 100, 1)])
    deadline = time.monotonic() + 300
    while not two.world.output() and time.monotonic() < deadline and query.isActive:
        query.processAllAvailable()
    assert counts(two.world) == [(0, 1)]


@pytest.mark.slow
def test_a_restart_knows_how_far_each_input_was(two: TwoInputs) -> None:
    """The checkpoint holds the event time of each input: after a restart the slower one still holds back."""
    query = two.world.start(windows(two.lives()), OBSERVED)
    two.land(query, a=[("x", 100, 1)], b=[("x", 15, 1)])
    query.stop()
    again = support.live(two.world.start(windows(two.lives()), OBSERVED))
    two.land(again, a=[("x", 110, 1)])
    assert watermark_of(again) == "00:00:15"
    two.land(again, b=[("x", 35, 1)])
    assert watermark_of(again) == "00:00:35"
    assert [source["description"] for source in again.lastProgress.sources] == ["a", "b"]


@pytest.mark.slow
def test_a_stream_that_is_read_twice_is_one_source_of_its_log(two: TwoInputs) -> None:
    """Spark logs a source once, and its offset in each place where it is read: a restart goes on behind its rows."""

    def frame() -> Any:
        live = two.world.live()
        return windows({"a": live, "again": live.where("value > 1"), "b": two.other.live()})

    query = two.world.start(frame(), OBSERVED)
    two.land(query, a=[("x", 1, 1), ("x", 2, 2)], b=[("x", 3, 1)])
    two.land(query, a=[("x", 4, 2)], b=[("x", 5, 1)])
    query.stop()
    again = two.world.start(frame(), OBSERVED)
    two.land(again, a=[("x", 50, 2)], b=[("x", 50, 1)])
    again.stop()
    assert counts(two.world) == [(0, 7)]


def test_the_inputs_of_a_job_are_fixed(two: TwoInputs) -> None:
    """Spark knows streams by their order, so another order, number or name is refused before anything is read."""
    query = two.world.start(windows(two.lives()), OBSERVED)
    two.land(query, a=[("x", 1, 1)])
    query.stop()
    swapped = dict(reversed(two.lives().items()))
    with pytest.raises(CheckpointMismatchError, match="the job's live inputs are b, a, those of checkpoint"):
        two.world.start(windows(swapped), OBSERVED)


@pytest.mark.slow
def test_the_watermark_moves_at_most_once_per_interval(world: World) -> None:
    """Between two steps of the watermark epochs go on with the one before: rows behind the next one are not late."""
    query = support.live(world.start(windows(world.live()), {**OBSERVED, "pipeline.auto-watermark-interval": "1 hour"}))
    for seconds in (100, 200, 120):
        world.feed(query, [("x", seconds, 1)])
    assert watermark_of(query) == "00:01:40"
    assert query.lastProgress.eventTime["max"][11:19] == "00:03:20"
    assert query.lastProgress.stateOperators[0]["numRowsDroppedByWatermark"] == 0
