"""A job without an option gives what stock Structured Streaming gives over the same rows in event-time order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import mixedmode
import pandas as pd
import pytest
import support
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from support import World

support.by_value(__name__)

#: What was the default of most jobs once, and still is to be had.
MAX = {"execution.backlog.final-watermark": "max"}
WINDOW_S, WINDOWS = 100, 20
#: Three keys, a row every ten seconds, up to the start of the last window, which has one row alone.
ROWS: list[support.Event] = [("abc"[n % 3], 10 * n + 1, n) for n in range(WINDOW_S * (WINDOWS - 1) // 10 + 1)]


def totals(frame: Any) -> Any:
    """Rows and sum of each window."""
    windows = frame.withWatermark("ts", "5 seconds").groupBy(F.window("ts", f"{WINDOW_S} seconds"))
    return windows.agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def closed(world: World) -> list[tuple[int, int, int]]:
    """Start, rows and sum of the windows that are in the output, without that of the flush."""
    zero = support.START
    found = ((round((window["start"] - zero).total_seconds()), n, total) for window, n, total in world.output())
    return sorted(one for one in found if one[0] < WINDOW_S * WINDOWS)


def windows_of(rows: list[support.Event]) -> list[tuple[int, int, int]]:
    by_start = itertools.groupby(rows, key=lambda row: row[1] // WINDOW_S * WINDOW_S)
    return [(start, len(own), sum(row[2] for row in own)) for start, some in by_start for own in [list(some)]]


def night(world: World, rows: list[support.Event], options: dict[str, str] | None = None) -> Any:
    """A run over what has landed since the last one."""
    world.land(rows)
    query = world.start(totals(world.read()), options, availableNow=True)
    query.awaitTermination(300)
    assert query.exception() is None, query.exception()
    return query


@pytest.mark.slow
def test_runs_that_end_by_themselves_give_each_window_once(worlds: Any) -> None:
    """Four runs over twenty windows give twenty rows, those of one run over all: what is open waits for the next run.

    A row behind what an earlier run has fired is late, and its window does not come again.
    """
    one, four = worlds(), worlds()
    flush = [(support.FLUSH_KEY, 10 * WINDOW_S * WINDOWS, 0)]
    night(one, [*ROWS, *flush])
    parts = [ROWS[:47], ROWS[47:95], ROWS[95:143], [*ROWS[143:], *flush]]
    queries = [night(four, part) for part in parts]
    assert closed(four) == closed(one) == windows_of(ROWS)
    assert len(closed(four)) == WINDOWS
    assert all(query.lifecycle[-1].event != "failed" for query in queries)

    last = night(four, [("late", 5, 1000)])
    assert closed(four) == windows_of(ROWS)
    dropped = sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in last.recentProgress)
    assert dropped == 1


@pytest.mark.slow
def test_a_job_that_began_under_max_goes_on_by_default(world: World) -> None:
    """Its switch has fired what straddled it; from then on each window comes once, however it is started again."""
    history, rest = ROWS[:55], ROWS[55:]  # the window from 500 to 600 straddles the switch
    frame = world.history(history)
    for options, part in ((MAX, rest[:20]), ({}, rest[20:70]), ({}, rest[70:])):
        query = support.live(world.start(totals(mixedmode.read(history=frame, live=world.live())), options))
        if options:
            assert closed(world)[-1] == (500, 5, sum(row[2] for row in history[50:]))
        world.land(part)
        support.finish(query)
    straddling = [(500, 5, sum(row[2] for row in ROWS[50:55])), (500, 5, sum(row[2] for row in ROWS[55:60]))]
    whole = [one for one in windows_of(ROWS)[:-2] if one[0] != 500]  # the watermark ends at 1896
    assert closed(world) == sorted([*whole, *straddling])


GAP_MS = 300_000
VISIT = "key string, calls long, what string, watermark long"


def visits(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A visit ends when the watermark has gone on by five minutes since the last call."""
    (calls,) = state.getOption or (0,)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "calls": [calls], "what": ["closed"], "watermark": [0]})
        return
    watermark_ms = state.getCurrentWatermarkMs()
    state.update((calls + 1,))
    state.setTimeoutTimestamp(watermark_ms + GAP_MS)
    yield pd.DataFrame({"key": [key[0]], "calls": [calls + 1], "what": ["rows"], "watermark": [watermark_ms]})


#: In event-time order, one event time after the other; quiet times that are no multiple of the gap.
VISITS: list[support.Event] = [
    (key, second, 0)
    for second, keys in (
        (1000, "ab"),
        (1110, "bc"),
        (1345, "c"),
        (1420, "ad"),
        (1731, "b"),
        (2200, "ae"),
        (2290, "e"),
        (2555, "cf"),
        (2640, "a"),
    )
    for key in keys
]


@pytest.mark.slow
def test_timeouts_set_from_the_watermark_are_those_of_stock(worlds: Any, spark: Any) -> None:
    """A function sees at rows of an event time that time less the delay, also in a backlog, and its timeouts fire where
    stock's do that is fed so: each event time by itself, after a heartbeat that brings the watermark there.

    Visits that are open at the end are open in both.  (Fed with several event times at once, stock shows a function
    the watermark of the micro-batch before, so timeouts that are set from it are earlier by as much.)
    """
    stock = worlds()

    def described(frame: Any) -> Any:
        grouped = frame.withWatermark("ts", "60 seconds").groupBy("key")
        return grouped.applyInPandasWithState(visits, VISIT, "calls long", "append", GroupStateTimeout.EventTimeTimeout)

    for second, rows in itertools.groupby(VISITS, key=lambda row: row[1]):
        stock.land([("beat", second, 0)], list(rows))
    with support.one_partition(spark):
        reference = (
            described(stock.live(maxFilesPerTrigger="1"))
            .writeStream.format("parquet")
            .option("path", str(stock.out))
            .option("checkpointLocation", str(stock.folder / "stock"))
            .trigger(availableNow=True)
            .start()
        )
        reference.awaitTermination(300)

    history, rest = VISITS[:10], VISITS[10:]
    expected = [row for row in support.committed(stock.out) if row[0] != "beat"]
    for options in ({}, {"execution.backlog.final-watermark": "observed"}):
        world = worlds()
        query = world.start(described(world.read(history)), options)
        support.live(query)
        world.land(rest[:3], rest[3:])
        support.finish(query)
        assert world.output() == expected, options

    ends = {what: sum(row[2] == what for row in expected) for what in ("rows", "closed")}
    assert ends["rows"] == len(VISITS) and 0 < ends["closed"] < ends["rows"]
