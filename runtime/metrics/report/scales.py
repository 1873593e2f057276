"""Places values on a chart: time from left to right, values from the bottom up."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..units import Unit, moment

#: A gap between two runs is drawn at most this wide, as a part of the time that is drawn to scale; all of them together
#: at most three tenths.
_GAP, _GAPS = 0.03, 0.3
#: Steps between two marks of the time axis, in seconds.
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200),
    *(86400, 172800, 604800, 1209600, 2592000, 7776000, 15552000, 31536000),
)


#: Milliseconds, and the multiples of them that are round.
_ROUND_MS = (
    (1.0, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    (1000.0, (1, 2, 5, 10, 15, 20, 30)),
    (60_000.0, (1, 2, 5, 10, 15, 20, 30)),
    (3_600_000.0, (1, 2, 3, 4, 6, 8, 12)),
    (86_400_000.0, (1, 2, 5, 10)),
)
#: The round number that is not less than a value.
Rounds = Callable[[float], float]
#: Width of a letter of a mark.
_LETTER = 7.0


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str
    #: Whether the mark is at the left edge, so its label begins there.
    is_first: bool = False

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where its label is."""
        width = len(self.label) * _LETTER
        return (self.at, self.at + width) if self.is_first else (self.at - width / 2, self.at + width / 2)


@dataclass(frozen=True)
class Break:
    """A stretch of time in which nothing ran, drawn narrower than it was."""

    left: float
    right: float
    length_ms: int


@dataclass(frozen=True)
class TimeScale:
    """Time, in which long stretches between two runs are cut out.

    Args:
        spans: when there was a run, oldest first, in milliseconds since 1970.
        left: where the first one begins.
        right: where the last one ends.
    """

    spans: tuple[tuple[int, int], ...]
    left: float
    right: float

    @classmethod
    def of(cls, runs: Sequence[tuple[int, int]], left: float, right: float) -> TimeScale:
        """For runs that may overlap, as where a driver took over."""
        merged: list[tuple[int, int]] = []
        for began, ended in sorted(runs):
            if merged and began <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
            else:
                merged.append((began, max(ended, began + 1)))
        return cls(tuple(merged), left, right)

    @cached_property
    def _knots(self) -> tuple[list[int], list[float]]:
        """Moments, and their places."""
        running = sum(ended - began for began, ended in self.spans)
        gaps = max(len(self.spans) - 1, 1)
        widest = running * min(_GAP, _GAPS / gaps)
        moments, places, at = [], [], 0.0
        for number, (began, ended) in enumerate(self.spans):
            if number:
                at += min(began - self.spans[number - 1][1], widest)
            moments += [began, ended]
            places += [at, at + ended - began]
            at = places[-1]
        width = (self.right - self.left) / max(at, 1)
        return moments, [self.left + place * width for place in places]

    def __call__(self, ms: float) -> float:
        """The place of a moment."""
        moments, places = self._knots
        after = min(max(bisect.bisect_left(moments, ms), 1), len(moments) - 1)
        (one, other), (left, right) = moments[after - 1 : after + 1], places[after - 1 : after + 1]
        part = 0.0 if other == one else (ms - one) / (other - one)
        return left + (right - left) * min(max(part, 0.0), 1.0)

    @property
    def breaks(self) -> list[Break]:
        """Where time is cut out, for those that can be seen."""
        found = []
        for (_, ended), (began, _) in zip(self.spans, self.spans[1:], strict=False):
            if self._is_cut(ended, began):
                found.append(Break(self(ended), self(began), began - ended))
        return found

    def _is_cut(self, ended: int, began: int) -> bool:
        running = sum(one - other for other, one in self.spans)
        return began - ended > running * min(_GAP, _GAPS / max(len(self.spans) - 1, 1))

    def ticks(self, apart: float = 92.0) -> list[Tick]:
        """Round moments, at least so far apart; a day is named where it is not that of the mark before."""
        moments, places = self._knots
        per_unit = max((b - a) / (y - x) for a, b, x, y in self._pieces(moments, places))
        needed_s = apart * per_unit / 1000
        step_ms = next((step for step in _STEPS_S if step >= needed_s), _STEPS_S[-1]) * 1000
        found: list[Tick] = []
        day = ""
        for began, ended in self.spans:
            first = -(-began // step_ms) * step_ms
            rounds = list(range(first, ended + 1, step_ms))
            for ms in rounds or [began]:
                today = moment(ms).strftime("%b %-d")
                time = moment(ms).strftime("%H:%M" if step_ms >= 60_000 and rounds else "%H:%M:%S")
                label = time if today == day else f"{today}, {time}"
                if step_ms >= 86_400_000:
                    label = moment(ms).strftime("%b %-d" if step_ms < 31_536_000_000 else "%Y")
                tick = Tick(self(ms), label, is_first=self(ms) < self.left + 40)
                left, right = tick.reach
                if right > self.right + 10 or (found and left < found[-1].reach[1] + 14):
                    continue
                found.append(tick)
                day = today
        return found

    @staticmethod
    def _pieces(moments: list[int], places: list[float]) -> list[tuple[int, int, float, float]]:
        pairs = list(zip(moments[::2], moments[1::2], places[::2], places[1::2], strict=True))
        return [(a, b, x, max(y, x + 1e-6)) for a, b, x, y in pairs]


@dataclass(frozen=True)
class ValueScale:
    """Values that are not negative.

    Args:
        most: the greatest one.
        bottom: the place of the least one.
        top: the place of the greatest one.
        least: the least that can be told from nothing; None: a linear scale from 0, otherwise a logarithmic one.
        rounds: the round number that is not less than a value.
    """

    most: float
    bottom: float
    top: float
    least: float | None = None
    rounds: Rounds = field(default=lambda wanted: decimal(wanted))

    @classmethod
    def of(cls, values: Sequence[float], bottom: float, top: float, rounds: Rounds) -> ValueScale:
        """For these values: logarithmic if the greatest ones would leave nothing to be seen of most others.

        Args:
            values: what is to be shown.
            bottom: the place of 0, or of the least one.
            top: the place of the greatest one.
            rounds: the round number that is not less than a value.
        """
        positive = sorted(value for value in values if value > 0)
        if not positive:
            return cls(1.0, bottom, top)
        most, middle = positive[-1], positive[len(positive) // 2]
        if most > 50 * middle and len(positive) > 3:
            least = 10.0 ** math.floor(math.log10(positive[len(positive) // 20]))
            return cls(10.0 ** math.ceil(math.log10(most)), bottom, top, least)
        step = rounds(most / 3)
        return cls(math.ceil(most / step - 1e-9) * step, bottom, top, None, rounds)

    @property
    def is_logarithmic(self) -> bool:
        return self.least is not None

    def __call__(self, value: float) -> float:
        """The place of a value."""
        part = value / self.most
        if self.least is not None:
            decades = math.log10(self.most / self.least)
            part = math.log10(max(value, self.least) / self.least) / decades
        return self.bottom + (self.top - self.bottom) * min(max(part, 0.0), 1.0)

    def ticks(self, unit: Unit) -> list[Tick]:
        """Round values."""
        if self.least is not None:
            decades = round(math.log10(self.most / self.least))
            every = -(-decades // 4)
            powers = range(0, decades + 1, every)
            return [Tick(self(self.least * 10**power), unit(self.least * 10**power)) for power in powers]
        step = self.rounds(self.most / 3 * 0.999)
        rounds = [step * number for number in range(math.floor(self.most / step + 1e-9) + 1)]
        return [Tick(self(value), unit(value)) for value in rounds]


def decimal(wanted: float) -> float:
    """The least of 1, 2, 2.5, 5, 10, 20 and so on that is not less."""
    scale = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= wanted * (1 - 1e-9))


def binary(wanted: float) -> float:
    """The same in KiB, MiB and so on."""
    unit = 1024.0 ** max(0, math.floor(math.log(wanted * 8, 1024)))  # rather half a MiB than 500 KiB
    return unit * decimal(wanted / unit)


def temporal(wanted: float) -> float:
    """The same for milliseconds, of which people make seconds, minutes, hours and days."""
    for unit, factors in _ROUND_MS:
        for factor in factors:
            if unit * factor >= wanted * (1 - 1e-9):
                return unit * factor
    return _ROUND_MS[-1][0] * decimal(wanted / _ROUND_MS[-1][0])
