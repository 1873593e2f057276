"""The orderly stream, the definition of ``pipeline.timers = in-order``, as a model of a few lines.

It brings a key's rows in event-time order, each event time by itself, while its watermark passes through every
millisecond.  It runs a real ``StatefulProcessor`` over state in plain dictionaries and shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues

_NONE_YET = -(2**63)
_END_OF_TIME_MS = 253_402_128_000_000


class _Value:
    """One value of one key."""

    def __init__(self) -> None:
        self._value: Any = None

    def exists(self) -> bool:
        return self._value is not None

    def get(self) -> Any:
        return self._value

    def update(self, value: Any) -> None:
        self._value = tuple(value)

    def clear(self) -> None:
        self._value = None


class _List:
    """A list of one key."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def exists(self) -> bool:
        return bool(self._values)

    def get(self) -> Iterator[Any]:
        return iter(list(self._values))

    def put(self, values: Iterable[Any]) -> None:
        self._values = list(values)

    def appendValue(self, value: Any) -> None:
        self._values.append(value)

    def appendList(self, values: Iterable[Any]) -> None:
        self._values += values

    def clear(self) -> None:
        self._values = []


class _Map(dict[Any, Any]):
    """A map of one key."""

    getValue = dict.get
    updateValue = dict.__setitem__
    removeKey = dict.__delitem__


@dataclass
class _Handle:
    """What a processor gets in ``init``; made anew for each key, so nothing is shared between keys."""

    timers: set[int] = field(default_factory=set)
    #: Event time has ended: nothing can be registered any more, also not what was deleted a moment ago.
    ended: bool = False

    def getValueState(self, *_: Any, **__: Any) -> _Value:
        return _Value()

    def getListState(self, *_: Any, **__: Any) -> _List:
        return _List()

    def getMapState(self, *_: Any, **__: Any) -> _Map:
        return _Map()

    def registerTimer(self, expiry_ms: int) -> None:
        if not self.ended:
            self.timers.add(expiry_ms)

    def deleteTimer(self, expiry_ms: int) -> None:
        self.timers.discard(expiry_ms)

    def listTimers(self) -> Iterator[int]:
        return iter(sorted(self.timers))


class OrderlyKey:
    """One key of the orderly stream.

    Args:
        processor: a processor of its own.
        key: what it is called with.
        delay_ms: how far the watermark stays behind event time.
    """

    def __init__(self, processor: StatefulProcessor, key: tuple[Any, ...], delay_ms: int) -> None:
        self._processor, self._key, self._delay_ms = processor, key, delay_ms
        self._handle = _Handle()
        self._watermark_ms = _NONE_YET
        #: What it has yielded, in order.
        self.output: list[Any] = []
        processor.init(self._handle)  # type: ignore[arg-type]

    @property
    def pending(self) -> list[int]:
        """The timers that wait."""
        return sorted(self._handle.timers)

    def rows(self, time_ms: int, rows: Iterable[Any]) -> None:
        """All rows of one event time, which is later than those before."""
        self.pass_to(time_ms - self._delay_ms)
        times = TimerValues(0, max(self._watermark_ms, 0))
        self._take(self._processor.handleInputRows(self._key, iter(list(rows)), times))

    def pass_to(self, watermark_ms: int) -> None:
        """The watermark passes on, through every millisecond."""
        while (first := min(self._handle.timers, default=watermark_ms + 1)) <= watermark_ms:
            self._fire(first)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)

    def end(self) -> None:
        """The end of event time: what waits fires; what those timers register never does."""
        self._handle.ended = True
        while self._handle.timers:
            self._fire(min(self._handle.timers))

    def _fire(self, expiry_ms: int) -> None:
        self._watermark_ms = max(self._watermark_ms, expiry_ms)
        shown = TimerValues(0, min(max(self._watermark_ms, 0), _END_OF_TIME_MS))
        info = ExpiredTimerInfo(expiry_ms)
        self._take(
            self._processor.handleExpiredTimer(key=self._key, timerValues=shown, expiredTimerInfo=info)  # type: ignore[func-returns-value]
        )
        self._handle.timers.discard(expiry_ms)

    def _take(self, yielded: Any) -> None:
        self.output += yielded or ()


def orderly_stream(
    processor: Callable[[], StatefulProcessor], rows: Iterable[tuple[Any, int, Any]], delay_ms: int
) -> dict[Any, OrderlyKey]:
    """The keys of a stream after all of its rows, the watermark at the greatest event time less the delay.

    Args:
        processor: makes a processor.
        rows: (key, event time in ms, row), in any order; those of one key and event time keep theirs.
        delay_ms: how far the watermark stays behind event time.
    """
    in_order = sorted(rows, key=lambda row: row[1])
    keys: dict[Any, OrderlyKey] = {}
    for (time_ms, key), group in groupby(sorted(in_order, key=lambda r: (r[1], str(r[0]))), lambda r: (r[1], r[0])):
        if key not in keys:
            keys[key] = OrderlyKey(processor(), (key,), delay_ms)
        keys[key].rows(time_ms, [row for _, _, row in group])
    for one in keys.values():
        one.pass_to(in_order[-1][1] - delay_ms)
    return keys
