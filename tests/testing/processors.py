"""Processors that the tests of ``mixedmode.testing`` run, here and in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from mixedmode.testing import Harness
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

EPOCH = datetime(1970, 1, 1)
SCHEMA = "k string, ts timestamp, v long"
OUTPUT = "key string, what string, n long"


def at(ms: int) -> datetime:
    """A moment as rows have it."""
    return EPOCH + timedelta(milliseconds=ms)


def harness(processor: Any, **changes: Any) -> Harness:
    """One whose rows and output are those of these processors, with other arguments where a test has them."""
    given: dict[str, Any] = {"key": "k", "schema": SCHEMA, "output": OUTPUT}
    return Harness(processor, **{**given, **changes})


def ms_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


class Buckets(StatefulProcessor):
    """Sums of each 100 ms of event time, told by a timer at their end; a value of 666 is an error."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sums = handle.getMapState("sums", "end long", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            if row.v == 666:
                raise ValueError(f"a value of {row.v}")
            end_ms = ms_of(row.ts) // 100 * 100 + 100
            (total,) = self._sums.getValue((end_ms,)) or (0,)
            self._sums.updateValue((end_ms,), (total + row.v,))
            self._handle.registerTimer(end_ms)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        end_ms = expiredTimerInfo.getExpiryTimeInMs()
        (total,) = self._sums.getValue((end_ms,))
        self._sums.removeKey((end_ms,))
        yield Row(key=key[0], what=f"until {end_ms}", n=total)


class Counts(StatefulProcessor):
    """Counts each key's rows and remembers their values."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")
        self._values = handle.getListState("values", "v long, at timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            (n,) = self._count.get() or (0,)
            self._count.update((n + 1,))
            self._values.appendValue((row.v, row.ts))
            yield (key[0], "row", n + 1)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._count.update((initialState.had,))


class CallCounts(StatefulProcessor):
    """Depends on how rows are grouped into calls, as no processor should."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield (key[0], "call", len(list(rows)))


class CountsInPandas(StatefulProcessor):
    """As Counts, over frames."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        for frame in rows:
            (n,) = self._count.get() or (0,)
            self._count.update((n + len(frame),))
            numbers = range(n + 1, n + len(frame) + 1)
            yield pd.DataFrame({"key": [key[0]] * len(frame), "what": ["row"] * len(frame), "n": list(numbers)})


class Forgetful(StatefulProcessor):
    """State that lives for 100 ms of processing time, and an alarm after 50."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._last = handle.getValueState("last", "v long", 100)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield (key[0], "first" if self._last.get() is None else "again", row.v)
            self._last.update((row.v,))
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 50)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield (key[0], "alarm", expiredTimerInfo.getExpiryTimeInMs())


class Matches(StatefulProcessor):
    """Of two inputs: tells each payment of an order once both are there."""

    def init(self, handle: Any) -> None:
        self._order = handle.getValueState("order", "v long")
        self._paid = handle.getListState("paid", "n long")

    def handleInputRows(  # type: ignore[override]
        self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any
    ) -> Iterator[Any]:
        for row in left:
            self._order.update((row.v,))
        for row in right:
            self._paid.appendValue((row.n,))
        if self._order.exists():
            for (n,) in self._paid.get():
                yield (key[0], "paid", n)
            self._paid.clear()
