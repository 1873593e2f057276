"""A StatefulProcessor on real data: the rotations of an aircraft.

A rotation is a run of departures from New York without a quiet period of 36 hours.  Departures arrive out of order, so
a leg may open a rotation, lengthen one, or join two that looked separate; which of these it was is certain only when
the watermark has passed.  So rotations stay open in state, and nothing but the event-time timer closes them.  The
result does not depend on how the input is cut into micro-batches.

The class imports nothing from mixedmode: it runs unchanged under Spark's own ``transformWithState``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

#: A rotation ends when its aircraft has not left New York for this long.
QUIET_MS = 36 * 3_600_000

STATE = "first_ms long, last_ms long, legs int, miles long, airport string"
OUTPUT = (
    "tailnum string, first_departure timestamp, last_departure timestamp, legs int, miles long,"
    " turnaround_min double, airport string, ends timestamp"
)


class Rotation(NamedTuple):
    """One open rotation: the fields of STATE."""

    first_ms: int
    last_ms: int
    legs: int
    miles: int
    #: Where the aircraft is: the destination of the latest leg.
    airport: str

    @property
    def end_ms(self) -> int:
        """When it closes, if no further leg comes."""
        return self.last_ms + QUIET_MS

    def join(self, other: Rotation) -> Rotation:
        """Both as one; the order of legs that were scheduled at the same minute is settled by name."""
        latest = max(self, other, key=lambda rotation: (rotation.last_ms, rotation.airport))
        return Rotation(
            min(self.first_ms, other.first_ms),
            latest.last_ms,
            self.legs + other.legs,
            self.miles + other.miles,
            latest.airport,
        )


def join_all(rotations: Iterable[Rotation]) -> list[Rotation]:
    """Join what is less than a quiet period apart; in order of time."""
    joined: list[Rotation] = []
    for rotation in sorted(rotations):
        if joined and rotation.first_ms < joined[-1].end_ms:
            joined[-1] = joined[-1].join(rotation)
        else:
            joined.append(rotation)
    return joined


class Rotations(StatefulProcessor):
    """Per aircraft: collects legs into rotations, emits each rotation once when it closes.

    Invariant: there is a timer for every open rotation, and the rotation is stored under the time of its timer.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getMapState("open", "end_ms long", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = {end_ms: Rotation(*values) for (end_ms,), values in self._open.iterator()}
        legs = [_leg(row) for row in rows]
        after = {rotation.end_ms: rotation for rotation in join_all([*before.values(), *legs])}
        for end_ms in before.keys() - after.keys():
            self._open.removeKey((end_ms,))
            self._handle.deleteTimer(end_ms)
        for end_ms, rotation in after.items():
            if before.get(end_ms) != rotation:
                self._open.updateValue((end_ms,), tuple(rotation))
                self._handle.registerTimer(end_ms)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        end_ms = expiredTimerInfo.getExpiryTimeInMs()
        rotation = Rotation(*self._open.getValue((end_ms,)))
        self._open.removeKey((end_ms,))
        yield _closed(key[0], rotation)

    def close(self) -> None:
        pass


def _leg(row: Row) -> Rotation:
    departure_ms = int(row.ts.timestamp()) * 1000
    return Rotation(departure_ms, departure_ms, 1, row.distance, row.dest)


def _closed(tailnum: str, rotation: Rotation) -> Row:
    minutes = (rotation.last_ms - rotation.first_ms) // 60_000
    return Row(
        tailnum=tailnum,
        first_departure=datetime.fromtimestamp(rotation.first_ms // 1000),
        last_departure=datetime.fromtimestamp(rotation.last_ms // 1000),
        legs=rotation.legs,
        miles=rotation.miles,
        turnaround_min=minutes / (rotation.legs - 1) if rotation.legs > 1 else None,
        airport=rotation.airport,
        ends=datetime.fromtimestamp(rotation.end_ms // 1000),
    )
