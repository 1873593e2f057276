"""How long a pass will take yet: a number where it is known, bounds where they say something, else nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from mixedmode.runtime.metrics.pass_costs import Rows, pass_costs
from mixedmode.runtime.metrics.remaining_time import Pace, PassSeen, RemainingTime
from mixedmode.runtime.metrics.units import time_to_go


@dataclass(frozen=True)
class Pass:
    """How long its parts take, in seconds."""

    before_s: float
    #: Of the shards: until they have rows, until they have all, and the operator's.
    wait_s: float = 0.0
    taking_s: float = 0.0
    operator_s: float = 0.0
    #: Shards of how many wait for others to end.
    waves: int = 1
    #: Whether rows are taken in while others are processed.
    mixes: bool = False
    handed: float = 1.0

    @property
    def whole_s(self) -> float:
        return self.before_s + self.wait_s + self.taking_s + self.operator_s

    def looks(self) -> Iterator[tuple[int, PassSeen]]:
        """What is seen of it each second."""
        shards_s = self.whole_s - self.before_s
        for now_s in range(1, int(self.whole_s)):
            if now_s < self.before_s:
                yield now_s, PassSeen(now_s / self.before_s, handed=self.handed)
                continue
            wave, inside_s = divmod((now_s - self.before_s) * self.waves, shards_s)
            rows_s = max(inside_s - self.wait_s, 0.0)
            taken = min(rows_s / self.taking_s, 1.0) if self.taking_s else float(rows_s > 0)
            processed = max(rows_s - self.taking_s, 0.0) / self.operator_s
            if self.mixes:
                taken = processed = rows_s / (self.taking_s + self.operator_s)
            in_all = [(wave + part) / self.waves for part in (taken, processed)]
            begun = min((wave + 1) / self.waves, 1.0)
            yield now_s, PassSeen(1.0, None, self.handed, begun, *in_all)


@dataclass
class Told:
    """What is told of a pass from a third of its time on."""

    looks: int = 0
    numbers: int = 0
    right_numbers: int = 0
    ranges: int = 0
    right_ranges: int = 0


def told(one: Pass, rows: Rows, kind: str) -> Told:
    """Looks at a pass from its beginning to its end; the fraction never falls."""
    pace, last, found = Pace(rows, kind), 0.0, Told()
    for now_s, seen in one.looks():
        fraction, left = pace.at(now_s, seen)
        left_s = one.whole_s - now_s
        assert fraction is None or fraction >= last
        last = fraction or last
        if now_s < one.whole_s / 3:
            continue
        found.looks += 1
        if left is not None and left.eta_s is not None:
            found.numbers += 1
            found.right_numbers += abs(left.eta_s - left_s) <= max(0.3 * left_s, 2)
        if left is not None and left.range_s is not None:
            found.ranges += 1
            found.right_ranges += left.low_s - 1 <= left_s <= left.high_s + 1
    assert last > 0.9
    return found


def typical(rows: Rows, kind: str, handed: float, whole_s: float = 60) -> Pass:
    """A pass whose parts take what they typically take."""
    costs = pass_costs(rows, kind)
    parts = [costs.before(handed), *(of_row * handed for of_row in (costs.wait, costs.take, costs.work))]
    return Pass(*(whole_s * part / sum(parts) for part in parts), mixes=rows == "sorted", handed=handed)


def as_typical_but(more: float, rows: Rows, kind: str, handed: float) -> Told:
    """What is told of a pass whose shards take so many times what is typical."""
    usual = typical(rows, kind, handed)
    shards = {part: getattr(usual, part) * more for part in ("wait_s", "taking_s", "operator_s")}
    return told(replace(usual, **shards), rows, kind)


@pytest.mark.parametrize("kind", ["agg", "dropDuplicates", "dropDuplicatesWithinWatermark"])
@pytest.mark.parametrize("handed", [1.0, 0.3])
@pytest.mark.parametrize("more", [0.75, 1.0, 1.25])
def test_files_that_tasks_scan_have_right_bounds_and_mostly_a_number(kind: str, handed: float, more: float) -> None:
    """From a third of the way on, also if the shards take a quarter more, or less, than is typical."""
    seen = as_typical_but(more, "scanned", kind, handed)
    assert seen.ranges > 0.9 * seen.looks and seen.right_ranges > 0.9 * seen.ranges, seen
    assert seen.numbers > 0.3 * seen.looks and seen.right_numbers > 0.9 * seen.numbers, seen


@pytest.mark.parametrize("kind", ["agg", "dropDuplicates", "join"])
@pytest.mark.parametrize("rows", ["sorted", "unsorted"])
@pytest.mark.parametrize("more", [0.75, 1.0, 1.25])
def test_rows_that_spark_brings_have_a_right_range_from_a_third_on(rows: Rows, kind: str, more: float) -> None:
    """Nothing is known of what Spark does in the shards' tasks, so the range is wider; a number comes later."""
    seen = as_typical_but(more, rows, kind, 1.0)
    assert seen.ranges > 0.5 * seen.looks and seen.right_ranges > 0.8 * seen.ranges, seen
    assert seen.numbers > 0.1 * seen.looks and seen.right_numbers > 0.8 * seen.numbers, seen


@pytest.mark.parametrize(
    "one",
    [
        Pass(45, 0, 10, 20),
        Pass(30, 0, 40, 10),
        Pass(10, 0, 5, 60),
        Pass(20, 0, 15, 15, mixes=True),
        Pass(15, 0, 10, 30, waves=4),
    ],
)
def test_of_code_that_nobody_knows_a_number_is_told_when_it_is_measured(one: Pass) -> None:
    """Whatever the parts take: numbers are mostly right, and there is one at the end."""
    seen = told(one, "unsorted", "transformWithState")
    assert seen.right_numbers >= 0.8 * seen.numbers, seen
    assert seen.right_ranges >= 0.6 * seen.ranges, seen
    pace = Pace("unsorted", "transformWithState")
    for now_s, look in one.looks():
        _, left = pace.at(now_s, look)
        if look.processed > 0.75 and one.waves == 1:
            assert left is not None and left.eta_s is not None, (now_s, left)


def test_unknown_code_has_a_wider_range_than_a_known_operator() -> None:
    """As long as only what comes before it is measured."""
    lefts = {}
    for kind in ("agg", "transformWithState"):
        _, left = Pace("sorted", kind).at(20, PassSeen(0.9))
        assert left is not None
        lefts[kind] = left.high_s / left.low_s
    assert lefts["transformWithState"] > 1.5 * lefts["agg"]


def test_fewer_rows_for_the_shards_are_less_work() -> None:
    """A condition, or an aggregate of many rows of a key, leaves them little."""
    many, few = (Pace("scanned", "agg").at(20, PassSeen(0.5, 0.5, handed))[1] for handed in (1.0, 0.01))
    assert many is not None and few is not None and many.likely_s > 1.5 * few.likely_s


def test_a_pass_that_changes_its_pace_is_not_told_as_one_number() -> None:
    """The pace of the last looks counts beside that of all: where they differ much, nobody knows."""
    pace = Pace("unsorted", "transformWithState")
    done = 0.0
    for now_s in range(1, 40):
        done += 0.02 if now_s < 20 else 0.002  # keys that take ten times as long
        _, left = pace.at(now_s, PassSeen(1.0, None, 1.0, 1.0, 1.0, done))
        if now_s == 25:
            assert left is not None and left.eta_s is None


def test_before_anything_is_measured_nothing_is_told() -> None:
    """No number, no bounds, no bar; bounds that are far apart are not told either."""
    pace = Pace()
    assert pace.at(1, PassSeen()) == (None, None)
    assert pace.at(2, PassSeen(0.0)) == (None, None)
    assert RemainingTime(20, 0.4).range_s is not None and RemainingTime(20, 0.4).eta_s is None
    assert RemainingTime(20, 1.0).range_s is None
    near = RemainingTime(100, 0.1).eta_s
    assert near is not None and 90 <= near <= 110


def test_a_look_that_finds_less_than_the_one_before_is_harmless() -> None:
    """An attempt that failed takes its rows with it, and another one begins."""
    pace = Pace("unsorted")
    sees = (
        PassSeen(1.0, None, 1.0, 1.0, 0.4),
        PassSeen(1.0),
        PassSeen(1.0, None, 1.0, 1.0, 0.0),
    )
    for now_s, seen in enumerate(sees, start=5):
        _, left = pace.at(now_s, seen)
        assert left is not None and left.low_s <= left.likely_s <= left.high_s


@pytest.mark.parametrize("rows", ["scanned", "sorted", "unsorted"])
def test_rows_that_nobody_has_handed_on_yet_are_not_known(rows: Rows) -> None:
    """A condition that nothing gets through, or tasks that count their rows when they end: it is as with all rows."""
    pace, as_all = Pace(rows, "agg"), Pace(rows, "agg")
    for now_s in range(1, 10):
        seen = PassSeen(min(now_s / 5, 1.0), None, 0.0, float(now_s > 5), 0.0, 0.0)
        assert pace.at(now_s, seen) == as_all.at(now_s, replace(seen, handed=1.0))


def test_in_words() -> None:
    """One length, two, or nothing."""
    assert time_to_go(94, 80, 110) == "1 min 34 s"
    assert time_to_go(None, 80, 110) == "1 min 20 s to 1 min 50 s"
    assert time_to_go(None, None, None) is None
