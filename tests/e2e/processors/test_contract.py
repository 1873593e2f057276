"""PySpark's ``StatefulProcessor`` contract in the backlog and in the stream, on one running job per feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

OUTPUT = "key string, what string, n long"


def job(history: Any, live: Any, processor: StatefulProcessor, mode: str = "none", **more: Any) -> Any:
    frame = mixedmode.read(history=history, live=live)
    if mode == "eventTime":
        frame = frame.withWatermark("ts", "0 seconds")
    return frame.groupBy("key").transformWithState(processor, OUTPUT, "append", mode, **more)


def history_then_live(
    world: World,
    processor: StatefulProcessor,
    before: list[support.Event],
    after: list[support.Event],
    mode: str = "none",
) -> list[tuple[Any, ...]]:
    """The same processor over a backlog and then over one live file; returns all that it wrote."""
    query = support.live(world.start(job(world.history(before), world.live(), processor, mode)))
    world.land(after)
    support.finish(query)
    return world.output()


class Variables(StatefulProcessor):
    """Keeps the same facts in a value, a list and a map state, and reports what it reads back."""

    def init(self, handle: Any) -> None:
        self._sum = handle.getValueState("sum", "total long")
        self._seen = handle.getListState("seen", "value long")
        self._by_parity = handle.getMapState("by_parity", "parity string", "rows long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        existed = self._sum.exists()
        for row in rows:
            (total,) = self._sum.get() or (0,)
            self._sum.update((total + row.value,))
            self._seen.appendValue((row.value,))
            parity = "odd" if row.value % 2 else "even"
            (n,) = self._by_parity.getValue((parity,)) if self._by_parity.containsKey((parity,)) else (0,)
            self._by_parity.updateValue((parity,), (n + 1,))
        yield (key[0], "existed", int(existed))
        yield (key[0], "total", self._sum.get()[0])
        for place, (value,) in enumerate(self._seen.get()):
            yield (key[0], f"list {place}", value)
        for (parity,), (n,) in self._by_parity.iterator():
            yield (key[0], parity, n)
        if self._sum.get()[0] > 100:
            self._sum.clear()
            self._seen.put([(0,)])
            self._by_parity.removeKey(("odd",))


def test_value_list_and_map_state_cross_the_switch(world: World) -> None:
    """What the backlog stored in value, list and map state is what the stream reads, changes and clears."""
    before = [("a", 0, 1), ("a", 1, 2), ("b", 0, 101)]
    assert history_then_live(world, Variables(), before, [("a", 9, 5), ("b", 9, 4)]) == [
        ("a", "even", 1),
        ("a", "even", 1),
        ("a", "existed", 0),
        ("a", "existed", 1),
        ("a", "list 0", 1),
        ("a", "list 0", 1),
        ("a", "list 1", 2),
        ("a", "list 1", 2),
        ("a", "list 2", 5),
        ("a", "odd", 1),
        ("a", "odd", 2),
        ("a", "total", 3),
        ("a", "total", 8),
        ("b", "even", 1),
        ("b", "existed", 0),
        ("b", "existed", 0),
        ("b", "list 0", 0),
        ("b", "list 0", 101),
        ("b", "list 1", 4),
        ("b", "odd", 1),
        ("b", "total", 101),
        ("b", "total", 4),
    ]


class Keyworded(StatefulProcessor):
    """A timer handler whose parameters come in another order: it is called by keyword, as in PySpark."""

    def init(self, handle: Any) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            self._handle.registerTimer(row.value)
        yield from ()

    def handleExpiredTimer(self, expiredTimerInfo: Any, timerValues: Any, key: Any) -> Iterator[tuple[Any, ...]]:
        due = expiredTimerInfo.getExpiryTimeInMs() <= timerValues.getCurrentProcessingTimeInMs()
        yield (key[0], "fired", int(due))


@pytest.mark.slow
def test_processing_timers_fire_without_data(world: World) -> None:
    """A processing-time timer of the backlog is a real-time timer: it fires although no row comes (X15)."""
    query = world.start(
        job(world.history([("a", 0, 1), ("b", 0, 10**15)]), world.live(), Keyworded(), "processingTime")
    )
    support.live(query)
    support.finish(query)
    assert world.output() == [("a", "fired", 1)]


def test_processing_timers_of_a_batch_fire_at_the_end_of_their_key(world: World) -> None:
    """In batch mode a processing-time timer fires at once, however far ahead (X15)."""
    keyed = job(world.history([("a", 0, 1), ("b", 0, 10**15)]), None, Keyworded(), "processingTime")
    world.start(keyed, {"execution.runtime-mode": "batch"}).awaitTermination(300)
    assert world.output() == [("a", "fired", 1), ("b", "fired", 0)]


class Ticking(Keyworded):
    """A timer that comes again a millisecond after it fired, for ever."""

    def handleExpiredTimer(self, expiredTimerInfo: Any, timerValues: Any, key: Any) -> Iterator[tuple[Any, ...]]:
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield (key[0], "tick", 1)


def test_timer_that_comes_again_does_not_hold_the_query(world: World) -> None:
    """processAllAvailable fires what is due when it is called, not what timers register meanwhile."""
    query = support.live(world.start(job(world.history([("a", 0, 1)]), world.live(), Ticking(), "processingTime")))
    support.finish(query)
    assert set(world.output()) == {("a", "tick", 1)}


class Expiring(StatefulProcessor):
    """Remembers each key for a millisecond, and for a long time."""

    def init(self, handle: Any) -> None:
        self._seen = {ttl: handle.getValueState(ttl, "value long", ms) for ttl, ms in (("short", 1), ("long", 10**9))}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        known = {ttl: seen.exists() for ttl, seen in self._seen.items()}
        for row in rows:
            for seen in self._seen.values():
                seen.update((row.value,))
        for ttl, is_known in known.items():
            yield (key[0], ttl, int(is_known))


@pytest.mark.slow
def test_ttl_runs_over_the_switch(world: World) -> None:
    """State whose time to live has passed since the backlog is gone in the stream; a longer one is still there."""
    found = history_then_live(world, Expiring(), [("a", 0, 1)], [("a", 1, 1)], "processingTime")
    assert sorted(found) == [("a", "long", 0), ("a", "long", 1), ("a", "short", 0), ("a", "short", 0)]


class Seeded(StatefulProcessor):
    """Starts from an initial state."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sum = handle.getValueState("sum", "total long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        (total,) = self._sum.get() or (0,)
        self._sum.update((total + initialState.seed,))
        self._handle.registerTimer(support.at_ms(500))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        (total,) = self._sum.get() or (0,)
        total += sum(row.value for row in rows)
        self._sum.update((total,))
        yield (key[0], "rows", total)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        yield (key[0], "timer", self._sum.get()[0])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["mixed", "streaming"])
def test_initial_state_comes_first_and_once(world: World, mode: str) -> None:
    """Every key of the initial state is handed over once, before its rows, also keys without rows."""
    seeds = world.spark.createDataFrame([("a", 10), ("a", 5), ("c", 7), ("z", 1)], "key string, seed long")
    options = {"execution.runtime-mode": mode, "execution.backlog.final-watermark": "observed"}

    def start() -> MixedQuery:
        keyed = job(
            world.history([("a", 0, 1), ("b", 0, 2)]),
            world.live(),
            Seeded(),
            "eventTime",
            initialState=seeds.groupBy("key"),
        )
        query = support.live(world.start(keyed, options))
        return query

    start().stop()
    query = start()
    world.land([("c", 1000, 1)])
    support.finish(query)
    assert world.output() == [
        ("a", "rows", 16),
        ("a", "timer", 16),
        ("b", "rows", 2),
        ("c", "rows", 8),
        ("c", "timer", 7),  # in order: due at 500, before the row at 1000
        ("z", "timer", 1),
    ]


class Evolved(Variables):
    """A later version of the same processor that gave up its list."""

    def init(self, handle: Any) -> None:
        self._sum = handle.getValueState("sum", "total long")
        handle.deleteIfExists("seen")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        yield (key[0], "kept", self._sum.get()[0])


def test_delete_if_exists_lets_a_later_version_drop_a_variable(world: World) -> None:
    """A restarted job may drop state variables with deleteIfExists and keeps the others."""
    query = support.live(world.start(job(world.history([("a", 0, 1)]), world.live(), Variables())))
    query.stop()
    again = world.start(job(world.history([("a", 0, 1)]), world.live(), Evolved()))
    world.land([("a", 1, 50)])
    support.live(again)
    support.finish(again)
    assert ("a", "kept", 1) in world.output()


def test_processor_may_yield_nothing(world: World) -> None:
    """A handler that returns an empty iterator writes no file and no row."""

    class Silent(Variables):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            return iter(())

    world.start(job(world.history([("a", 0, 1)]), None, Silent())).awaitTermination(300)
    assert world.output() == []


@pytest.mark.slow
def test_one_huge_key_and_many_small_ones(world: World) -> None:
    """Half of all rows on one key give the right sums, in both engines of the sorter."""

    class Sums(Variables):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            yield (key[0], "sum", sum(row.value for row in rows))

    events = [("huge", n, n) for n in range(30_000)] + [(f"k{n}", n, 1) for n in range(300)]
    expected = sorted([("huge", "sum", sum(range(30_000)))] + [(f"k{n}", "sum", 1) for n in range(300)])
    for engine in ("spark", "arrow"):
        again = World(world.spark, world.folder / engine)
        query = again.start(
            job(again.history(events), None, Sums()), {"sorter.engine": engine, "sorter.memory": "1 MiB"}
        )
        query.awaitTermination(300)
        assert again.output() == expected
