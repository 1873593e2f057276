"""How long a pass will take yet: a number where it is known, bounds where they say something, else nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mixedmode.runtime.metrics.remaining_time import Pace, PassSeen, RemainingTime
from mixedmode.runtime.metrics.units import time_to_go

#: Seconds until shards begin, that they take rows in, and that the operator takes; shards of how many wait; and whether
#: the rows are taken in while others are processed.
SHAPES = [
    (45, 10, 20, 1, False),
    (30, 40, 10, 1, False),
    (10, 5, 60, 1, False),
    (20, 15, 15, 1, True),
    (15, 10, 30, 4, False),
]


def looks(before_s: int, taking_s: int, operator_s: int, waves: int, mixes: bool) -> Iterator[tuple[int, PassSeen]]:
    """What is seen of a pass each second."""
    each_s = (taking_s + operator_s) / waves
    for now_s in range(1, before_s + taking_s + operator_s):
        if now_s < before_s:
            yield now_s, PassSeen(now_s / before_s)
            continue
        wave, inside_s = divmod(now_s - before_s, each_s)
        taken, done = min(inside_s / (taking_s / waves), 1.0), max(inside_s - taking_s / waves, 0.0)
        processed = done / (operator_s / waves)
        if mixes:
            taken = processed = inside_s / each_s
        in_all = [(wave + part) / waves for part in (taken, processed)]
        yield now_s, PassSeen(1.0, min((wave + 1) / waves, 1.0), wave / waves, *in_all)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("works_before", [True, False])
def test_what_is_told_is_right(shape: tuple[int, int, int, int, bool], works_before: bool) -> None:
    """A number is right within 30 % or two seconds, bounds hold the truth, and the fraction never falls.  Once the
    operator has done a third there is something to tell; at the end a number."""
    pace, last, whole_s = Pace(works_before=works_before), 0.0, sum(shape[:3])
    told_late = 0
    for now_s, seen in looks(*shape):
        fraction, left = pace.at(now_s, seen)
        left_s = whole_s - now_s
        assert fraction is None or fraction >= last
        last = fraction or last
        if left is None or now_s < whole_s / 3:
            continue
        if left.eta_s is not None:
            assert abs(left.eta_s - left_s) <= max(0.3 * left_s, 2), (now_s, left, left_s)
        if left.range_s is not None:
            assert left.low_s - 1 <= left_s <= left.high_s + 1, (now_s, left, left_s)
        if seen.processed > 0.33 and (seen.begun == 1 or seen.finished):
            assert left.range_s is not None or shape[3] > 1
            told_late += left.eta_s is not None
    assert told_late >= (1 if shape[3] > 1 else 3) and last > 0.9


def test_a_pass_that_changes_its_pace_is_not_told_as_one_number() -> None:
    """The pace of the last looks counts beside that of all: where they differ much, nobody knows."""
    pace = Pace(works_before=True)
    done = 0.0
    for now_s in range(1, 40):
        done += 0.02 if now_s < 20 else 0.002  # keys that take ten times as long
        _, left = pace.at(now_s, PassSeen(1.0, 1.0, 0.0, 1.0, done))
    assert left is not None and left.eta_s is None
    truth_s = (1 - done) / 0.002
    assert left.low_s < truth_s < left.high_s


def test_before_anything_is_measured_nothing_is_told() -> None:
    """No number, no bounds, no bar; bounds that are far apart are not told either."""
    pace = Pace(works_before=False)
    assert pace.at(1, PassSeen()) == (None, None)
    assert pace.at(2, PassSeen(0.0)) == (None, None)
    _, left = pace.at(10, PassSeen(0.1))
    assert left is not None and left.eta_s is None and left.range_s is None
    assert RemainingTime(10, 12, 30).range_s == (10, 30) and RemainingTime(10, 12, 30).eta_s is None
    near = RemainingTime(100, 120, 140).eta_s
    assert near is not None and 98 <= near <= 130


def test_a_look_that_finds_less_than_the_one_before_is_harmless() -> None:
    """An attempt that failed takes its rows with it, and another one begins."""
    pace = Pace(works_before=True)
    for now_s, seen in enumerate((PassSeen(1.0, 1.0, 0.0, 0.4), PassSeen(1.0), PassSeen(1.0, 1.0, 0.0, 0.0)), start=5):
        _, left = pace.at(now_s, seen)
        assert left is not None and left.low_s <= left.likely_s <= left.high_s


def test_in_words() -> None:
    """One length, two, or nothing."""
    assert time_to_go(94, 80, 110) == "1 min 34 s"
    assert time_to_go(None, 80, 110) == "1 min 20 s to 1 min 50 s"
    assert time_to_go(None, None, None) is None
