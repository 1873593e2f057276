"""Estimates the time that a sorted pass has left, as far as that can be known while it runs.

A pass has three parts of different speed: Spark's tasks read (and shuffle, or aggregate) the input; the shards' tasks
take in and sort their rows; the operator works on them key by key.  How the parts compare depends on keys, user code
and widths, so until the last one runs there is only a range.  Where that is narrow, one number stands for it; where it
is too wide to be of use, nothing does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import sqrt

#: How a time that is told as one number may be off.
_PROMISED = 0.3
#: The same for short times: a look every second knows no better.
_SLACK_S = 2.0
#: A range whose upper bound is so many times the lower one says nothing.
_WIDEST = 5.0
#: What a part takes against the one before it: at least, mostly, at most.
Ratio = tuple[float, float, float]
#: The shards against what comes before them, where Spark or tasks that scan files do a part of the stage's work before,
#: and elsewhere; the operator against taking in and sorting the rows.
_AFTER_WORK: Ratio = (0.1, 0.4, 1.4)
_AFTER_READING: Ratio = (0.3, 1.2, 5.0)
_OPERATOR: Ratio = (0.1, 0.5, 4.0)
#: How far the pace of the rest may differ from the pace so far.
_STEADY: Ratio = (0.85, 1.05, 1.4)
#: So many looks say how fast a part is now.
_RECENT = 5
#: The part of the rows that the operator must have done until its pace is trusted.
_ENOUGH = 0.1
#: The part of the rows that shards have taken in before the operator begins, if they sort all rows first.
_ALL_IN = 0.8


@dataclass(frozen=True)
class PassSeen:
    """What a look at a pass has found; each is a part of 1."""

    #: Of what is done before the shards; None: not known.
    before: float | None = None
    #: Of the shards that have begun, and that are finished.
    begun: float = 0.0
    finished: float = 0.0
    #: Of the rows that shards have taken in, and that the operator is done with.
    taken_in: float = 0.0
    processed: float = 0.0


@dataclass(frozen=True)
class RemainingTime:
    """Seconds to the end of a pass: what is likely, and bounds."""

    low_s: float
    likely_s: float
    high_s: float

    @property
    def eta_s(self) -> float | None:
        """A number that is right within 30 %, or two seconds, wherever between the bounds the truth is; None: there is
        none."""
        if self.high_s - self.low_s <= 2 * _SLACK_S:
            return (self.low_s + self.high_s) / 2
        if self.high_s * (1 - _PROMISED) > self.low_s * (1 + _PROMISED):
            return None
        return sqrt(self.low_s * self.high_s * (1 - _PROMISED) * (1 + _PROMISED))

    @property
    def range_s(self) -> tuple[float, float] | None:
        """The bounds, where they say something; None: they are too far apart."""
        return (self.low_s, self.high_s) if self.high_s <= max(_WIDEST * self.low_s, 2 * _SLACK_S) else None

    def __add__(self, other: RemainingTime) -> RemainingTime:
        return RemainingTime(self.low_s + other.low_s, self.likely_s + other.likely_s, self.high_s + other.high_s)

    def times(self, ratio: Ratio) -> RemainingTime:
        """What a part takes by the ratio to another one."""
        return RemainingTime(self.low_s * ratio[0], self.likely_s * ratio[1], self.high_s * ratio[2])

    def less(self, spent_s: float) -> RemainingTime:
        """The rest, when some time is spent."""
        return RemainingTime(*(max(bound - spent_s, 0.0) for bound in (self.low_s, self.likely_s, self.high_s)))


def _just(seconds: float) -> RemainingTime:
    return RemainingTime(seconds, seconds, seconds)


class Pace:
    """The speed of each part of a pass, by how far it was at each look.

    Args:
        works_before: Spark does a part of the stage's work before the shards.
    """

    def __init__(self, *, works_before: bool) -> None:
        self.works_before = works_before
        self._before, self._taking_in, self._operator = _Part(), _Part(), _Part()
        #: Taking in and the operator at the same time; one wave of shards after the other.
        self._both, self._waves = _Part(), _Part()
        #: How much was taken in when the operator began; None: it has not.
        self._in_at_operator: float | None = None
        #: Whether shards wait until others are finished.
        self._waits = False
        #: When the shards began; None: they have not.
        self._shards_s: float | None = None
        self._looked_s = self._reached = 0.0
        #: Half of the time between the last two looks: when something happened is not known better.
        self._unsure_s = 0.0

    def at(self, elapsed_s: float, seen: PassSeen) -> tuple[float | None, RemainingTime | None]:
        """The fraction of the whole that is done, which never falls, and the time to its end; None: not known.

        Args:
            elapsed_s: since the pass began.
            seen: how far it is.
        """
        between_s = (self._looked_s + elapsed_s) / 2 if self._looked_s else 0.0
        self._unsure_s, self._looked_s = (elapsed_s - self._looked_s) / 2, elapsed_s
        if seen.begun and self._shards_s is None:
            self._shards_s = between_s
        if self._shards_s is None:
            self._before.look(elapsed_s, between_s, seen.before)
            left = self._before_the_shards(elapsed_s)
        else:
            left = self._in_the_shards(elapsed_s, self._shards_s, between_s, seen)
        if left is None:
            return self._reached or None, None
        self._reached = max(self._reached, min(elapsed_s / (elapsed_s + left.likely_s), 1.0))
        return self._reached, left

    @property
    def _shards_by_before(self) -> Ratio:
        return _AFTER_WORK if self.works_before else _AFTER_READING

    def _before_the_shards(self, elapsed_s: float) -> RemainingTime | None:
        whole = self._before.whole(elapsed_s)
        if whole is None:
            return None
        return whole.less(self._before.spent_s(elapsed_s)) + whole.times(self._shards_by_before)

    def _in_the_shards(
        self, elapsed_s: float, shards_s: float, between_s: float, seen: PassSeen
    ) -> RemainingTime | None:
        if seen.taken_in:
            self._taking_in.look(elapsed_s, between_s, seen.taken_in)
        if seen.processed:
            self._operator.look(elapsed_s, between_s, seen.processed)
            if self._in_at_operator is None:
                self._in_at_operator = seen.taken_in
        spent_s = elapsed_s - shards_s
        self._both.look(elapsed_s, shards_s, min((seen.taken_in + seen.processed) / 2, 1.0))
        self._waves.look(elapsed_s, shards_s, max(seen.finished, seen.processed))
        self._waits |= seen.begun < 1 and seen.finished > 0
        if self._waits and seen.finished:
            # Those in hand are further than what the operator has done, and less far than all that they have taken in.
            by_rows, by_both = (
                part.left(elapsed_s, self._unsure_s, is_even=False) for part in (self._waves, self._both)
            )
            if by_rows is None or by_both is None:
                return by_rows
            low_s, high_s = min(by_rows.low_s, by_both.low_s), max(by_rows.high_s, by_both.high_s)
            return RemainingTime(low_s, (by_rows.likely_s + by_both.likely_s) / 2, high_s)
        if seen.processed >= _ENOUGH and seen.begun >= 1:
            # Either rows are taken in while others are processed, or one comes after the other.
            mixes = (self._in_at_operator or 0.0) < _ALL_IN
            return (self._both if mixes else self._operator).left(elapsed_s, self._unsure_s)
        taking = self._taking_in.whole(elapsed_s)
        if taking is not None:
            # The first rows may have been on their way since the shards began.
            taking = RemainingTime(taking.low_s, taking.likely_s, max(taking.high_s, spent_s / self._taking_in.done))
            rest = taking.less(self._taking_in.spent_s(elapsed_s))
            operator = taking.times(_OPERATOR).less(self._operator.spent_s(elapsed_s))
            waves = 1 / seen.begun if seen.begun else 1.0
            return RemainingTime(
                rest.low_s + operator.low_s, rest.likely_s + operator.likely_s, (rest.high_s + operator.high_s) * waves
            )
        by_before = _just(self._before.spent_s(shards_s)).times(self._shards_by_before).less(spent_s)
        return by_before if by_before.likely_s else None  # else they take longer than was likely


@dataclass
class _Part:
    """One part of a pass: when it began, how far it was at the last look, and how far the last move went."""

    began_s: float | None = None
    done: float = 0.0
    step: float = 0.0
    moved_s: float = 0.0
    #: When each of the last looks was, and what was done by then.
    looks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def look(self, at_s: float, began_s: float, done: float | None) -> None:
        """One more look; ``began_s``: when the part began, if this is the first look that knows of it."""
        if done is None:
            return
        if self.began_s is None:
            self.began_s = began_s
        if done > self.done:
            self.step, self.done, self.moved_s = done - self.done, done, at_s
        self.looks.append((at_s, self.done))

    def spent_s(self, elapsed_s: float) -> float:
        """Since it began."""
        return 0.0 if self.began_s is None else elapsed_s - self.began_s

    def whole(self, elapsed_s: float) -> RemainingTime | None:
        """What it takes in all; None: nothing is done yet.

        Between two moves it is behind the last one: as far as at that pace, before the next move, or not at all.
        """
        if not self.done:
            return None
        spent_s = self.spent_s(elapsed_s)
        by_pace_s = (self.moved_s - (self.began_s or 0.0)) / self.done
        by_step_s = spent_s / min(self.done + self.step, 1.0)
        low_s, high_s = min(by_pace_s, by_step_s), spent_s / self.done
        return RemainingTime(low_s, (low_s + high_s) / 2, high_s)

    def left(self, elapsed_s: float, unsure_s: float, *, is_even: bool = True) -> RemainingTime | None:
        """The rest, by the pace so far and by that of the last looks, since programs beside or other keys change it.

        Args:
            elapsed_s: since the pass began.
            unsure_s: it began, and moved last, so much earlier or later.
            is_even: whether it moves all the time; False: in steps, of which the last looks may have seen none.

        Returns:
            None: nothing is done yet.
        """
        if not self.done:
            return None
        done_since = [(self.began_s or 0.0, 0.0)]
        if is_even and self.done > self.looks[0][1]:
            done_since.append(self.looks[0])
        rest = 1 - self.done
        stands_s = elapsed_s - self.moved_s
        paces = [(elapsed_s - then_s, self.done - then) for then_s, then in done_since]
        low_s = min(max(spent_s - stands_s - unsure_s, 0.0) * rest / done - stands_s for spent_s, done in paces)
        high_s = max((spent_s + unsure_s) * rest / done for spent_s, done in paces)
        low_s = max(low_s, 0.0)
        return RemainingTime(low_s * _STEADY[0], (low_s + high_s) / 2 * _STEADY[1], high_s * _STEADY[2])
