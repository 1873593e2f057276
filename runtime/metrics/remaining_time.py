"""Estimates the time that a sorted pass has left, as far as that can be known while it runs.

A pass has three parts of different speed: Spark's tasks read (and shuffle, or aggregate) the input; the shards' tasks
take in and sort their rows; the operator works on them key by key.  The part that runs is measured, and what is to come
is estimated from it by typical costs (:mod:`.pass_costs`): the time before the shards says how fast the machines are.
The further a part is, the more its own pace counts.  Each estimate has a spread; where that is small, one number stands
for it, where it is larger a range, and where it is too wide to be of use, nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from math import exp, hypot, log, sqrt

from .pass_costs import PassCosts, Rows, pass_costs

#: How a time that is told as one number may be off.
_PROMISED = 0.3
#: The same for short times: a look every second knows no better.
_SLACK_S = 2.0
#: A range whose upper bound is so many times the lower one says nothing.
_WIDEST = 5.0
#: Bounds are so many standard deviations from what is likely; of times that are told as one number, fewer are looked
#: at: four of five times should be between those.
_BOUNDS, _NUMBER = 1.8, 1.28
#: How far the pace of the rest is from the pace so far, as a standard deviation: other programs come and go.
_STEADY = 0.12
#: The same for a pace of which one move is known; it falls with the root of how many are.
_PACE = 0.45
#: A pass is not typical if it is so many standard deviations from that.
_FAR = 2.0
#: How far the wait for the shards' first rows is from what is typical, in the same way.
_TYPICAL = 0.45
#: What takes longer than is typical will take so many times what it has taken.
_LONGER = 1.2
#: So many looks say how fast a part is now.
_RECENT = 8
#: The part of the rows that the operator must have done until it is known what they cost it.
_ENOUGH = 0.1
#: Where a part is between two moves, it is no further than so much of the next one.
_NEARLY = 0.9
#: The part of the rows that shards have taken in before the operator begins, if they sort all rows first.
_ALL_IN = 0.8


@dataclass(frozen=True)
class PassSeen:
    """What a look at a pass has found; each is a part of 1."""

    #: Of what is read before the shards; None: not known.
    before: float | None = None
    #: Of what is sorted and written for the shards behind that; None: it is part of ``before``.
    written: float | None = None
    #: Rows that shards get for each that is read; 0: not known.
    handed: float = 1.0
    #: Of the shards that have begun.
    begun: float = 0.0
    #: Of the rows that shards have taken in, and that the operator is done with.
    taken_in: float = 0.0
    processed: float = 0.0


@dataclass(frozen=True)
class RemainingTime:
    """Seconds to the end of a pass: what is likely, and how sure that is."""

    likely_s: float
    #: The standard deviation of its logarithm.
    spread: float

    @property
    def low_s(self) -> float:
        """The lower bound."""
        return self.likely_s * exp(-_BOUNDS * self.spread)

    @property
    def high_s(self) -> float:
        """The upper bound."""
        return self.likely_s * exp(_BOUNDS * self.spread)

    @property
    def eta_s(self) -> float | None:
        """A number that is mostly right within 30 %, or two seconds; None: there is none."""
        low_s, high_s = (self.likely_s * exp(sign * _NUMBER * self.spread) for sign in (-1, 1))
        if high_s - low_s <= 2 * _SLACK_S:
            return (low_s + high_s) / 2
        if high_s * (1 - _PROMISED) > low_s * (1 + _PROMISED):
            return None
        return sqrt(low_s * high_s * (1 - _PROMISED) * (1 + _PROMISED))

    @property
    def range_s(self) -> tuple[float, float] | None:
        """The bounds, where they say something; None: they are too far apart."""
        return (self.low_s, self.high_s) if self.high_s <= max(_WIDEST * self.low_s, 2 * _SLACK_S) else None

    def and_typically(self, typical: RemainingTime) -> RemainingTime:
        """What is measured and what is typical say together.

        The surer one counts more, and a difference is a doubt; but a pass that is far from what is typical is just not
        typical.
        """
        apart = log(self.likely_s / typical.likely_s)
        spread = typical.spread * max(abs(apart) / (_FAR * hypot(self.spread, typical.spread)), 1.0) ** 2
        mine, its = self.spread**-2, spread**-2
        share = mine / (mine + its)
        doubt = sqrt(share * (1 - share)) * apart
        return RemainingTime(typical.likely_s * exp(share * apart), max(hypot((mine + its) ** -0.5, doubt), _STEADY))


class Pace:
    """The speed of each part of a pass, by how far it was at each look.

    Args:
        rows: how they come to the operator.
        kind: of the operator.
    """

    def __init__(self, rows: Rows = "sorted", kind: str = "") -> None:
        self.rows = rows
        self._kind = kind
        self._before, self._shards, self._operator = _Part(), _Part(), _Part()
        self._handed = 1.0
        #: How much was taken in when the operator began; None: it has not.
        self._in_at_operator: float | None = None
        #: When the shards began, and when the first of them had rows; None: they have not.
        self._shards_s: float | None = None
        self._rows_s: float | None = None
        self._looked_s = self._reached = 0.0

    def at(self, elapsed_s: float, seen: PassSeen) -> tuple[float | None, RemainingTime | None]:
        """The fraction of the whole that is done, which never falls, and the time to its end; None: not known.

        Args:
            elapsed_s: since the pass began.
            seen: how far it is.
        """
        between_s = (self._looked_s + elapsed_s) / 2 if self._looked_s else 0.0
        self._looked_s = elapsed_s
        if seen.begun and self._shards_s is None:
            self._shards_s = between_s
        if self._shards_s is not None and self._rows_s is None and (seen.taken_in or not self._costs.wait):
            self._rows_s = between_s
        if self._shards_s is None or self.rows == "scanned":
            self._handed = seen.handed or self._handed
        if self._shards_s is None:
            left = self._before_the_shards(elapsed_s, between_s, seen)
        elif self._rows_s is None:
            left = self._waiting(elapsed_s, self._shards_s)
        else:
            left = self._in_the_shards(elapsed_s, self._shards_s, self._rows_s, between_s, seen)
        if left is None:
            return self._reached or None, None
        self._reached = max(self._reached, min(elapsed_s / (elapsed_s + left.likely_s), 1.0))
        return self._reached, left

    @property
    def _costs(self) -> PassCosts:
        return pass_costs(self.rows, self._kind)

    def _shards_times(self, measured_s: float, *, waited: bool) -> tuple[float, float]:
        """What shards typically wait for their first rows, and take for them.

        Args:
            measured_s: what came before.
            waited: whether the wait is part of that.
        """
        costs, handed = self._costs, self._handed
        speed = measured_s / (costs.before(handed) + costs.wait * handed * waited)
        return speed * costs.wait * handed, speed * (costs.take + costs.work) * handed

    def _before_the_shards(self, elapsed_s: float, between_s: float, seen: PassSeen) -> RemainingTime | None:
        done = seen.before
        if done is not None and seen.written is not None:
            read, written = self._costs.read, self._costs.hand * self._handed
            done = (read * done + written * seen.written) / (read + written)
        self._before.look(elapsed_s, between_s, done)
        rest = self._before.left(elapsed_s)
        if rest is None:
            return None
        wait_s, rows_s = self._shards_times(self._before.spent_s(elapsed_s) + rest.likely_s, waited=False)
        left_s = rest.likely_s + wait_s + rows_s
        # A rest that is longer makes all that follows longer, too.
        of_rest_s = rest.spread * rest.likely_s * (1 + (wait_s + rows_s) / (left_s - wait_s - rows_s + elapsed_s))
        return RemainingTime(left_s, hypot(of_rest_s, self._spread_s(wait_s, rows_s)) / left_s)

    def _spread_s(self, wait_s: float, rows_s: float) -> float:
        return hypot(_TYPICAL * wait_s, self._costs.spread * rows_s)

    def _waiting(self, elapsed_s: float, shards_s: float) -> RemainingTime | None:
        """Nothing comes from the shards yet: Spark sorts their rows, and tells nothing of that."""
        before_s, spent_s = self._before.spent_s(shards_s), elapsed_s - shards_s
        if not before_s:
            return None
        wait_s, rows_s = self._shards_times(before_s, waited=False)
        if spent_s > wait_s:  # all is slower than is typical
            wait_s, rows_s = spent_s * _LONGER, rows_s * spent_s * _LONGER / wait_s
        left_s = wait_s - spent_s + rows_s
        return RemainingTime(left_s, self._spread_s(wait_s, rows_s) / left_s)

    def _in_the_shards(
        self, elapsed_s: float, shards_s: float, rows_s: float, between_s: float, seen: PassSeen
    ) -> RemainingTime | None:
        costs = self._costs
        taking = costs.take / (costs.take + costs.work)
        done = min(taking * max(seen.taken_in, seen.processed) + (1 - taking) * seen.processed, 1.0)
        self._shards.look(elapsed_s, rows_s, done)
        if seen.processed:
            self._operator.look(elapsed_s, between_s, seen.processed)
            if self._in_at_operator is None:
                self._in_at_operator = seen.taken_in
        before_s, spent_s = self._before.spent_s(shards_s), elapsed_s - rows_s
        _, whole_s = self._shards_times(before_s + rows_s - shards_s, waited=True)
        by_pace = self._shards.left(elapsed_s)
        if taking and (self._in_at_operator or 0.0) >= _ALL_IN and seen.begun >= 1:
            by_pace = self._operator.left(elapsed_s)
        elif by_pace is not None and done < 1:
            # How long the operator takes against taking in is not measured until it has done some rows.
            unknown = (1 - taking) * (1 - seen.processed) / (1 - done) * max(1 - seen.processed / _ENOUGH, 0.0)
            by_pace = replace(by_pace, spread=hypot(by_pace.spread, costs.spread * unknown))
        if not before_s or done >= 1:
            return by_pace
        if by_pace is None:
            whole_s = max(whole_s, spent_s * _LONGER)
            return RemainingTime(whole_s - spent_s, costs.spread * whole_s / (whole_s - spent_s))
        # The further it is, the less it matters what is typical.
        return by_pace.and_typically(RemainingTime(whole_s * (1 - done), costs.spread / (1 - done)))


@dataclass
class _Part:
    """One part of a pass: when it began, how far it was at the last look, and how far the last move went."""

    began_s: float | None = None
    done: float = 0.0
    step: float = 0.0
    moved_s: float = 0.0
    #: How many looks have found it further than before.
    moves: int = 0
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
            self.moves += 1
        self.looks.append((at_s, self.done))

    def spent_s(self, elapsed_s: float) -> float:
        """Since it began."""
        return 0.0 if self.began_s is None else elapsed_s - self.began_s

    def left(self, elapsed_s: float) -> RemainingTime | None:
        """The rest; None: nothing is done yet.

        Between two moves it is behind the last one: as far as at the pace so far, and before the next move.
        """
        if not self.done:
            return None
        began_s = self.began_s or 0.0
        pace_s = max(self.moved_s - began_s, 1e-3) / self.done
        since = min((elapsed_s - self.moved_s) / pace_s, _NEARLY * self.step, _NEARLY * (1 - self.done))
        done = self.done + since
        whole_s = max(elapsed_s - began_s, 1e-3) / done
        then_s, then = self.looks[0]
        recent_s = whole_s if self.done <= then or then_s <= began_s else (elapsed_s - then_s) / (done - then)
        of_steps, of_change = since / done, abs(log(recent_s / whole_s)) / 4
        likely_s = max(sqrt(whole_s * recent_s) * (1 - done), 1e-3)
        return RemainingTime(likely_s, hypot(_STEADY, _PACE / sqrt(self.moves), of_steps, of_change))
