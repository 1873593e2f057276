"""Bounds of the event times of a pair, read from the condition of a join.

A comparison bounds them if each of its sides is an event time and a constant: ``b.ts <= a.ts + INTERVAL 1 HOUR``.  Then
the difference of the event times is within bounds that are numbers.  Where the constant is not the same for all times
(days and months by the calendar of a zone whose clock jumps, seconds cut off), it lies between two numbers: the bounds
are those that lose no pair, and the comparison has to be made all the same.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from ....runtime.catalyst.spark_expressions import attribute_id, calendar_interval, class_name, constant, items
from ....runtime.catalyst.types.spark_zones import offsets_us
from ....runtime.operators.join.definition import TimeBounds

_DAY_US = 86_400_000_000
_SECOND_US = 1_000_000
#: Bounds that are further away say nothing: with them microseconds would not fit into 64 bits.
_FAR_US = 2**61
#: What a double leaves out of a time in seconds, at most.
_DOUBLE_US = 64
_ZONED, _UNZONED = "timestamp", "timestamp_ntz"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WHOLE = {"tinyint", "smallint", "int", "bigint"}
#: Those that hold times in seconds; others may keep the last bits of them alone.
_SECONDS = {"int", "bigint"}
#: Comparisons, and whether they leave the equal out; ``a > b`` is ``b < a``.
_COMPARISONS = {
    "LessThan": (False, True),
    "LessThanOrEqual": (False, False),
    "GreaterThan": (True, True),
    "GreaterThanOrEqual": (True, False),
}
#: What is true if a comparison is not; of nulls neither is.
_OPPOSITES = {
    "LessThan": "GreaterThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
    "GreaterThan": "LessThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
}
EQUAL = TimeBounds(0, 0)


@dataclass(frozen=True)
class Bounded:
    """What a comparison says of the event times of a pair."""

    bounds: TimeBounds
    #: Whether it says nothing else.
    is_all: bool


@dataclass(frozen=True)
class _Term:
    """So many times the left event time, and the right one, and a number between two, in microseconds."""

    left: int
    right: int
    low_us: int
    high_us: int

    def plus(self, other: _Term) -> _Term:
        return _Term(
            self.left + other.left,
            self.right + other.right,
            self.low_us + other.low_us,
            self.high_us + other.high_us,
        )

    def minus(self, other: _Term) -> _Term:
        return self.plus(_Term(-other.left, -other.right, -other.high_us, -other.low_us))

    def between(self, low_us: int, high_us: int) -> _Term:
        return self.plus(_Term(0, 0, low_us, high_us))


def narrowed(bounds: Sequence[TimeBounds]) -> TimeBounds:
    """Bounds that are all of these."""
    least = [one.least_us for one in bounds if one.least_us is not None]
    greatest = [one.greatest_us for one in bounds if one.greatest_us is not None]
    return TimeBounds(max(least, default=None), min(greatest, default=None))


class EventTimeBounds:
    """Reads resolved expressions.

    Args:
        spark: the session that they are of.
        left: ids of the attributes that are the left side's event time.
        right: those of the right one's.
    """

    def __init__(self, spark: SparkSession, left: Collection[int], right: Collection[int]) -> None:
        self._spark, self._left, self._right = spark, left, right

    def of(self, comparison: Any) -> Bounded | None:
        """What a comparison says; None: nothing that could be told."""
        kind, opposite = class_name(comparison), False
        while kind == "Not":
            comparison, opposite = comparison.child(), not opposite
            kind = class_name(comparison)
        if opposite:
            kind = _OPPOSITES.get(kind, "")
        if kind == "EqualTo":
            return self.of_equal(*items(comparison.children()))
        if kind not in _COMPARISONS:
            return None
        turned, strict = _COMPARISONS[kind]
        one, other = items(comparison.children())
        return self._at_most(other, one, strict) if turned else self._at_most(one, other, strict)

    def of_equal(self, one: Any, other: Any) -> Bounded | None:
        """What it says that two expressions are equal."""
        upper, lower = self._at_most(one, other, False), self._at_most(other, one, False)
        if upper is None or lower is None:
            return None
        return Bounded(narrowed([upper.bounds, lower.bounds]), upper.is_all and lower.is_all)

    def _at_most(self, one: Any, other: Any, strict: bool) -> Bounded | None:
        """What it says that one is less than the other, or (not ``strict``) equal to it."""
        here, there = self._term(one), self._term(other)
        if here is None or there is None:
            return None
        term = here.minus(there)
        if max(abs(term.low_us), abs(term.high_us)) > _FAR_US:
            return None
        is_exact = term.low_us == term.high_us
        step = 1 if strict and is_exact else 0
        if (term.left, term.right) == (1, -1):
            return Bounded(TimeBounds(None, -term.low_us - step), is_exact)
        if (term.left, term.right) == (-1, 1):
            return Bounded(TimeBounds(term.low_us + step, None), is_exact)
        return None

    def _term(self, node: Any) -> _Term | None:
        kind = class_name(node)
        if kind == "AttributeReference":
            id = attribute_id(node)
            if id in self._left or id in self._right:
                return _Term(int(id in self._left), int(id in self._right), 0, 0)
            return None
        if node.foldable():
            return self._constant(node)
        children = list(items(node.children()))
        if kind == "Cast":
            return self._cast(node, children[0])
        if kind in ("TimestampAddInterval", "TimeAdd", "TimestampAddYMInterval"):
            start, shift = self._term(children[0]), self._shift(children[1], node)
            return None if start is None or shift is None else start.between(*shift)
        if kind == "UnaryMinus":
            below = self._term(children[0])
            return None if below is None else _Term(0, 0, 0, 0).minus(below)
        if kind in ("Add", "Subtract", "SubtractTimestamps"):
            one, other = (self._term(child) for child in children)
            if one is None or other is None:
                return None
            term = one.plus(other) if kind == "Add" else one.minus(other)
            if kind == "SubtractTimestamps" and _type(children[0]) == _ZONED:  # of what clocks show
                low_us, high_us = self._offsets(node)
                return term.between(low_us - high_us, high_us - low_us)
            return term
        return None

    def _cast(self, node: Any, child: Any) -> _Term | None:
        term, before, after = self._term(child), _type(child), _type(node)
        if term is None or before == after:
            return term
        if (before, after) == (_UNZONED, _ZONED):
            low_us, high_us = self._offsets(node)
            return term.between(-high_us, -low_us)
        if (before, after) == (_ZONED, _UNZONED):
            return term.between(*self._offsets(node))
        if before == _ZONED and after in _SECONDS:
            return term.between(1 - _SECOND_US, 0)
        if before in _SECONDS and after in _SECONDS:
            return term
        if before in (_ZONED, *_SECONDS) and after == "double":
            return term.between(-_DOUBLE_US, _DOUBLE_US)
        if before == "double" and after in _SECONDS:
            return term.between(1 - _SECOND_US, _SECOND_US - 1)
        numbers = before in ("double", *_SECONDS) or _DECIMAL.fullmatch(before) is not None
        if (numbers or before == _ZONED) and (found := _DECIMAL.fullmatch(after)) is not None:
            rounds_us = -(-_SECOND_US // 10 ** int(found[2])) // 2 + 1
            return term.between(-_DOUBLE_US - rounds_us, _DOUBLE_US + rounds_us)
        return None

    def _constant(self, node: Any) -> _Term | None:
        """A number of seconds, or an interval, as such."""
        kind, value = _type(node), constant(node)
        if value is None or kind in (_ZONED, _UNZONED):
            return None
        if kind.startswith("interval"):
            months, days, micros = self._interval(kind, value, by_calendar=False)
            return None if months or days else _Term(0, 0, micros, micros)
        if kind in _WHOLE or kind == "double" or kind.startswith("decimal"):
            if kind == "double" and not math.isfinite(value):
                return None
            in_us = Fraction(str(value)) * _SECOND_US
            return _Term(0, 0, math.floor(in_us), math.ceil(in_us))
        return None

    def _shift(self, interval: Any, node: Any) -> tuple[int, int] | None:
        """By how much an interval moves a time, at least and at most."""
        if not interval.foldable() or (value := constant(interval)) is None:
            return None
        months, days, micros = self._interval(_type(interval), value, by_calendar=True)
        fewest, most = _days_in(months)
        low_us, high_us = (fewest + days) * _DAY_US + micros, (most + days) * _DAY_US + micros
        if (months or days) and _type(node) == _ZONED:
            least_us, greatest_us = self._offsets(node)
            return low_us - (greatest_us - least_us), high_us + (greatest_us - least_us)
        return low_us, high_us

    def _interval(self, kind: str, value: Any, *, by_calendar: bool) -> tuple[int, int, int]:
        """Months, days and microseconds; ``by_calendar``: whole days are the calendar's."""
        if kind == "interval":
            return calendar_interval(value)
        if kind.startswith(("interval year", "interval month")):
            return int(value), 0, 0
        days = abs(int(value)) // _DAY_US * (1 if int(value) > 0 else -1) if by_calendar else 0
        return 0, days, int(value) - days * _DAY_US

    def _offsets(self, node: Any) -> tuple[int, int]:
        zone = node.timeZoneId()
        name = str(zone.get()) if zone.isDefined() else str(self._spark.conf.get("spark.sql.session.timeZone"))
        return offsets_us(self._spark, name)


def _type(node: Any) -> str:
    return str(node.dataType().simpleString())


@lru_cache
def _days_in(months: int) -> tuple[int, int]:
    """The fewest and the most days by which so many months move a date."""
    lengths = [calendar.monthrange(year, month)[1] for year in range(2000, 2400) for month in range(1, 13)]
    found = set()
    for at, length in enumerate(lengths):
        there = (at + months) % len(lengths)
        laps = (at + months) // len(lengths)
        starts = sum(lengths[at:there]) if there >= at else -sum(lengths[there:at])
        starts += laps * sum(lengths)
        found |= {starts + min(day, lengths[there]) - day for day in (1, 28, 29, 30, 31) if day <= length}
    return min(found), max(found)
