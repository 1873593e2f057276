"""The same job gives the same results whether its rows come as a backlog, as a stream, or as both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timezone
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedQuery
from mixedmode.runtime.connectors.sources import live_query
from mixedmode.runtime.driver.run import phases
from orderly_stream import orderly_stream
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World, at, at_ms

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
DELAY_S, GAP_S = 60, 900
#: Five sessions of ten rows for each of two keys, the second key's half a day later.
FIVE = [
    (key, day * 86_400 + shift_s + n * 30, n)
    for key, shift_s in (("a", 0), ("b", 43_200))
    for day in range(5)
    for n in range(10)
]
FLUSH = [(support.FLUSH_KEY, 6 * 86_400, 0)]


class TimerSessions(StatefulProcessor):
    """Sessions that only a timer closes: what it gives depends on when timers fire between rows.

    Yields (key, start, rows in the session, watermark that its timer saw in seconds since START).
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "first long, last long, count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        first, last, count = self._open.get() or (None, None, 0)
        if count:
            self._handle.deleteTimer(last + GAP_S * 1000)
        for row in rows:
            ts_ms = round(row.ts.replace(tzinfo=timezone.utc).timestamp() * 1000)
            first, last, count = min(first or ts_ms, ts_ms), max(last or ts_ms, ts_ms), count + 1
        self._open.update((first, last, count))
        self._handle.registerTimer(last + GAP_S * 1000)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        first, _, count = self._open.get()
        self._open.clear()
        seen_s = timerValues.getCurrentWatermarkInMs() // 1000 - at_ms(0) // 1000
        yield Row(key=key[0], start=first // 1000 - at_ms(0) // 1000, count=count, seen=seen_s)


class Reorder(StatefulProcessor):
    """Gives each row out when the watermark has passed it: one timer registers the next."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._rows = handle.getListState("rows", "ts long, value long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            self._rows.appendValue((round(row.ts.replace(tzinfo=timezone.utc).timestamp() * 1000), row.value))
        if not any(True for _ in self._handle.listTimers()):
            self._handle.registerTimer(min(ts_ms for ts_ms, _ in self._rows.get()))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        due_ms = expiredTimerInfo.getExpiryTimeInMs()
        rest = []
        for ts_ms, value in self._rows.get():
            if ts_ms <= due_ms:
                yield (key[0], ts_ms, value, 0)
            else:
                rest.append((ts_ms, value))
        self._rows.clear()
        if rest:
            self._rows.put(rest)
            self._handle.registerTimer(min(ts_ms for ts_ms, _ in rest))


def job(world: World, history: list[support.Event] | None, processor: StatefulProcessor | None = None) -> Any:
    """A processor over a history and what lands."""
    frame = None if history is None else world.history(history)
    return (
        mixedmode.read(history=frame, live=world.live())
        .withWatermark("ts", f"{DELAY_S} seconds")
        .groupBy("key")
        .transformWithState(
            processor or TimerSessions(), "key string, start long, count long, seen long", "append", "eventTime"
        )
    )


def live(world: World, keyed: Any, options: dict[str, str], *parts: list[support.Event]) -> MixedQuery:
    """A query that has taken the parts one by one."""
    query = support.live(world.start(keyed, options))
    world.feed(query, *parts)
    return query


def output(world: World, query: MixedQuery) -> list[tuple[Any, ...]]:
    support.stop(query)
    return world.results()


def by_stock(world: World, described: Any) -> list[tuple[Any, ...]]:
    """What stock Structured Streaming makes of all that has landed."""
    query = (
        described.writeStream.format("parquet")
        .option("path", str(world.folder / "stock"))
        .option("checkpointLocation", str(world.folder / "stock-checkpoints"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    return support.committed(world.folder / "stock")


def model_of(events: list[support.Event], processor: type[StatefulProcessor] = TimerSessions) -> list[tuple[Any, ...]]:
    """What the orderly stream gives."""
    timed = [(key, at_ms(seconds), Row(key=key, ts=at(seconds), value=value)) for key, seconds, value in events]
    keys = orderly_stream(processor, timed, DELAY_S * 1000)
    rows = (tuple(row) for one in keys.values() for row in one.output)
    return sorted((row for row in rows if row[0] != support.FLUSH_KEY), key=repr)


@pytest.mark.parametrize("days_of_history", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_sessions_closed_by_timers_are_the_orderly_streams(world: World, days_of_history: int) -> None:
    """Five sessions are five, each closed at its time, from one micro-batch, or from it and a backlog (P1, P5; from a
    backlog alone: the test of a bounded history)."""
    cut_s = days_of_history * 86_400
    history, rest = [e for e in FIVE if e[1] < cut_s], [e for e in FIVE if e[1] >= cut_s]
    query = live(world, job(world, history or None), OBSERVED, *([rest] if rest else []), FLUSH)

    assert output(world, query) == model_of([*FIVE, *FLUSH])


@pytest.mark.slow
def test_the_model_of_the_orderly_stream_is_what_stock_gives(world: World) -> None:
    """Stock, given one event time a micro-batch and heartbeats behind each timer, closes the sessions of the model."""
    events = [("a", 0, 0), ("b", 100, 0), ("a", 600, 0), ("a", 2400, 0)]
    closing_s = [100 + GAP_S, 600 + GAP_S, 2400 + GAP_S]
    # The watermark of a micro-batch is that of the one before, and its timers fire after its rows: two heartbeats each.
    beats = [("beat", ms_s + DELAY_S + more, 0) for ms_s in closing_s for more in (1, 2)]
    world.land(*[[event] for event in sorted([*events, *beats], key=lambda event: event[1])])
    frame = world.live(maxFilesPerTrigger="1").withWatermark("ts", f"{DELAY_S} seconds").groupBy("key")
    schema = "key string, start long, count long, seen long"
    with support.rocksdb_state_store(world.spark):
        rows = by_stock(world, frame.transformWithState(TimerSessions(), schema, "append", "eventTime"))

    stock = [row[:3] for row in rows if row[0] != "beat"]
    assert stock == [row[:3] for row in model_of([*events, *FLUSH])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("final", "timers", "sessions"),
    [
        ("max", None, [("a", 50), ("b", 50)]),  # FLIP-327 to the letter
        ("max", "in-order", [("a", 10)] * 5 + [("b", 10)] * 5),
        ("observed", "after-rows", [("a", 50), ("b", 50)]),
    ],
)
def test_the_order_of_timers_does_not_depend_on_the_final_watermark(
    world: World, final: str, timers: str | None, sessions: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """All combinations work; after-rows is the default under max, of which start() warns once (P5, P10)."""
    options = {"execution.backlog.final-watermark": final, **({"pipeline.timers": timers} if timers else {})}
    keyed = job(world, FIVE)
    with caplog.at_level(logging.WARNING, "mixedmode"):
        query = live(world, keyed, options, FLUSH)

    assert sorted((key, count) for key, _, count, _ in output(world, query)) == sessions
    option = "execution.backlog.final-watermark"
    said = [record for record in caplog.records if option in record.getMessage()]
    assert len(said) == (1 if final == "max" else 0)


@pytest.mark.parametrize("mode", ["mixed", "batch"])
def test_a_bounded_history_is_as_orderly_as_one_that_goes_on(world: World, mode: str) -> None:
    """In-order, timers fire between the rows of a history that no live source follows (P5)."""
    rows = world.read(FIVE, live=False).withWatermark("ts", f"{DELAY_S} seconds").groupBy("key")
    schema = "key string, start long, count long, seen long"
    keyed = rows.transformWithState(TimerSessions(), schema, "append", "eventTime")
    world.start(keyed, {"execution.runtime-mode": mode, "pipeline.timers": "in-order"}).awaitTermination(300)
    assert sorted((key, count) for key, _, count, _ in world.output()) == [("a", 10)] * 5 + [("b", 10)] * 5


def test_timers_of_timers_at_a_switch_under_max_are_carried_into_the_stream(world: World) -> None:
    """A reorder buffer, in which each timer registers the next, loses nothing at a switch under max (X13)."""
    events = [("k", 10 * n, n) for n in range(60)]
    options = {"execution.backlog.final-watermark": "max"}
    query = live(world, job(world, events[:40], Reorder()), options, events[40:], FLUSH)

    assert sorted(value for _, _, value, _ in output(world, query)) == list(range(60))


def test_timers_of_timers_at_the_end_of_input_are_counted_and_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """At the end of all input they are ignored, which progress and one warning say (X13)."""
    keyed = (
        world.read([(key, second, 0) for key in "ab" for second in (1, 2, 3)], live=False)
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .transformWithState(Reorder(), "key string, start long, count long, seen long", "append", "eventTime")
    )
    with caplog.at_level(logging.WARNING, "mixedmode"):
        query = world.start(keyed, {"pipeline.timers": "after-rows"})  # in order, all of them fire before the end
        query.awaitTermination(300)

    ignored = sum(p.stateOperators[0]["customMetrics"]["numIgnoredTimers"] for p in query.recentProgress)
    assert ignored == 2
    said = [record.getMessage() for record in caplog.records if "event time has ended" in record.getMessage()]
    assert len(said) == 1 and "2 timers that timers registered at the end of input are ignored" in said[0]


WAITING = [[("k", 1800, 1)], [("k", 600, 2)], [("k", 601, 4)]]


def totals(frame: Any) -> Any:
    windows = frame.withWatermark("ts", "5 minutes").groupBy("key", F.window("ts", "10 minutes"))
    return windows.agg(F.sum("value").alias("total"))


@pytest.fixture(scope="module")
def stock_waiting(worlds: Callable[[], World]) -> list[tuple[Any, Any]]:
    """Keys and totals of what waits, by stock Structured Streaming."""
    world = worlds()
    world.land(*WAITING)
    return [(row[0], row[-1]) for row in by_stock(world, totals(world.live(maxFilesPerTrigger="1")))]


@pytest.mark.slow
def test_late_is_late_for_what_has_fired(world: World, stock_waiting: list[tuple[Any, Any]]) -> None:
    """A row that waits behind one that moves the watermark counts, as in stock; behind what fired it is late (P8)."""
    world.land(*WAITING)
    keyed = totals(mixedmode.read(live=world.live(maxFilesPerTrigger="1")))
    query = world.start(keyed, {"execution.runtime-mode": "streaming"}, availableNow=True)
    query.awaitTermination(300)

    assert [(row[0], row[-1]) for row in world.output()] == stock_waiting == [("k", 2)]
    assert sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in query.recentProgress) == 1


@pytest.mark.slow
def test_nothing_fires_in_front_of_rows_that_wait(
    world: World, stock_waiting: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live, too, a row that waits behind one that moves the watermark counts, as in stock: the clock fires nothing
    before Spark has looked and found that no more rows wait; then what is due fires, although no row comes (P8)."""
    steps, step = [], phases._live_step

    def counted(*parts: Any) -> None:
        step(*parts)
        steps.append(parts)

    def clock_comes_first(name: str) -> None:
        if name == "batch-before-spark-commit":
            before = len(steps)
            support.wait_until(lambda: len(steps) > before + 1)

    monkeypatch.setattr(phases, "_live_step", counted)
    monkeypatch.setattr(live_query, "failpoint", clock_comes_first)
    query = support.live(world.start(totals(mixedmode.read(live=world.live(maxFilesPerTrigger="1")))))
    with query._runner.context.turn:  # all three are there before the first is taken
        world.land(*WAITING)
        source = query._runner.context.live
        assert source is not None
        support.wait_until(lambda: source.query is not None and source.query.status["isDataAvailable"])
    support.wait_until(lambda: bool(world.output()) or query.exception() is not None)
    support.finish(query)

    assert [(row[0], row[-1]) for row in world.output()] == stock_waiting == [("k", 2)]
    assert sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in query.recentProgress) == 1


def test_late_rows_of_a_processor_are_those_behind_what_has_fired(world: World) -> None:
    """The same holds for a processor: rows in are rows used and rows late (P8, P16, P18)."""
    world.land([("k", 0, 0), ("k", 1800, 1)])
    query = live(world, job(world, None), {"execution.backlog.final-watermark": "max"}, *WAITING[1:])
    # The switch has fired everything, but for lateness up to 1800 s - 60 s only.
    used, late = (
        sum(p.numInputRows for p in query.recentProgress),
        sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in query.recentProgress),
    )
    world.feed(query, [("k", 1741, 8)])
    late_after = sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in query.recentProgress)
    query.stop()

    assert (used, late, late_after) == (4, 2, 2)
