"""The jobs of chaos runs.  Whatever they put out must follow from the rows alone; :mod:`models` says what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timezone
from typing import Any

import mixedmode
from plans import Plan
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

UID = "chaos"
#: A quiet period of this length ends a session.
GAP_S = 300
WINDOW_S, SLIDE_S = 600, 200
#: How many alarms a quiet key raises.
ALARMS = 3
#: How often the timer of a key fires at least, in jobs with processing time.
TICKS = 4
#: Name of the state variable whose final values are looked at, by kind.
FINAL_STATE = {"sessions": "open", "quiet": "seen", "reorder": "done", "ticks": "done"}


def job_of(plan: Plan, history: DataFrame | None, live: list[DataFrame]) -> Any:
    """The described job, up to ``writeStream``."""
    inputs = live[0] if len(live) == 1 else {"ab"[number]: frame for number, frame in enumerate(live)}
    rows = mixedmode.read(history=history, live=inputs)
    if plan.kind == "ticks":
        return (
            rows.groupBy("key")
            .transformWithState(Ticks(), "key string, step long, count long, total long", "append", "processingTime")
            .uid(UID)
        )
    timed = rows.withWatermark("ts", f"{plan.delay_s} seconds")
    if plan.kind == "reorder":
        schema = "key string, ts long, nth long, total long"
        return timed.groupBy("key").transformWithState(Reorder(), schema, "append", "eventTime").uid(UID)
    if plan.kind == "quiet":
        schema = "key string, since long, count long, alarm long"
        return timed.groupBy("key").transformWithState(Quiet(), schema, "append", "eventTime").uid(UID)
    if plan.kind == "sessions":
        schema = "key string, start long, count long, total long"
        return timed.groupBy("key").transformWithState(Sessions(), schema, "append", "eventTime").uid(UID)
    if plan.kind == "session-windows":
        window = F.session_window("ts", f"{GAP_S} seconds")
    else:
        window = F.window("ts", f"{WINDOW_S} seconds", f"{SLIDE_S} seconds")
    values = [F.count("*").alias("count"), F.sum("value").alias("total"), F.max("value").alias("greatest")]
    if plan.kind == "means":
        values = [(F.sum("value") / F.count("*")).alias("mean")]
    return timed.groupBy("key", window.alias("w")).agg(*values).uid(UID)


def ms_of(row: Any) -> int:
    return round(row.ts.replace(tzinfo=timezone.utc).timestamp() * 1000)


class Sessions(StatefulProcessor):
    """Closes a session by the next row or by a timer, whichever comes first."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "start long, last long, count long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        gap_ms = GAP_S * 1000
        start, last, count, total = self._open.get() or (0, 0, 0, 0)
        if count:
            self._handle.deleteTimer(last + gap_ms)
        for ts, value in sorted((ms_of(row), row.value) for row in rows):
            if count and ts >= last + gap_ms:
                yield (key[0], start, count, total)
                count = total = 0
            start = start if count else ts
            last, count, total = ts, count + 1, total + value
        self._open.update((start, last, count, total))
        self._handle.registerTimer(last + gap_ms)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        start, _, count, total = self._open.get()
        self._open.clear()
        yield (key[0], start, count, total)


class Quiet(StatefulProcessor):
    """Counts rows, and raises an alarm when a key has been quiet for a while, and again, at most ALARMS times; then it
    forgets the key.

    What it counts depends on whether the timers between two rows fire before the second one.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._seen = handle.getValueState("seen", "count long, alarms long, timer long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            count, _, timer = self._seen.get() or (0, 0, -1)
            if timer >= 0:
                self._handle.deleteTimer(timer)
            timer = ms_of(row) + GAP_S * 1000
            self._handle.registerTimer(timer)
            self._seen.update((count + 1, 0, timer))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        count, alarms, timer = self._seen.get()
        if alarms + 1 < ALARMS:
            self._handle.registerTimer(timer + GAP_S * 1000)
            self._seen.update((count, alarms + 1, timer + GAP_S * 1000))
        else:
            self._seen.clear()
        yield (key[0], timer, count, alarms + 1)


class Reorder(StatefulProcessor):
    """Hands rows out in the order of their event times, each with its number and the total so far.

    There is one timer a key, for the earliest row that waits; when it fires it registers the next one.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._waiting = handle.getMapState("waiting", "ts long", "value long")
        self._done = handle.getValueState("done", "nth long, total long, timer long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        nth, total, timer = self._done.get() or (0, 0, -1)
        earliest = timer
        for row in rows:
            ts = ms_of(row)
            self._waiting.updateValue((ts,), (row.value,))
            earliest = ts if earliest < 0 else min(earliest, ts)
        if earliest != timer:
            if timer >= 0:
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(earliest)
        self._done.update((nth, total, earliest))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        nth, total, _ = self._done.get()
        fired = expiredTimerInfo.getExpiryTimeInMs()
        waiting = sorted((ts[0], value[0]) for ts, value in self._waiting.iterator())
        for ts, value in waiting:
            if ts <= fired:
                nth, total = nth + 1, total + value
                self._waiting.removeKey((ts,))
                yield (key[0], ts, nth, total)
        left = [ts for ts, _ in waiting if ts > fired]
        if left:
            self._handle.registerTimer(left[0])
        self._done.update((nth, total, left[0] if left else -1))


class Ticks(StatefulProcessor):
    """Hands out what has come since the last tick of a key's clock, a timer of processing time that goes on ticking
    for a while, and again when rows come."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._since = handle.getListState("since", "value long")
        self._done = handle.getValueState("done", "step long, ticking boolean")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        step, ticking = self._done.get() or (0, False)
        for row in rows:
            self._since.appendValue((row.value,))
        if not ticking:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 20)
            self._done.update((step, True))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        step, _ = self._done.get()
        values = [value[0] for value in self._since.get()]
        self._since.clear()
        ticking = step + 1 < TICKS
        if ticking:
            self._handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + 10)
        self._done.update((step + 1, ticking))
        yield (key[0], step + 1, len(values), sum(values))
