"""Sets of small numbers are sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.protocols.lifecycle.index_set import IndexSet

NUMBERS = st.sets(st.integers(0, 600))


@given(NUMBERS, NUMBERS)
def test_is_a_set(one: set[int], other: set[int]) -> None:
    """Union, intersection, difference, subset, membership and size are those of Python's sets; order is ascending."""
    left, right = IndexSet.of(one), IndexSet.of(other)
    assert list(left) == sorted(one) and len(left) == len(one) and bool(left) == bool(one)
    assert left | right == IndexSet.of(one | other)
    assert left & right == IndexSet.of(one & other)
    assert left - right == IndexSet.of(one - other)
    assert (left <= right) == (one <= other)
    assert all((number in left) == (number in one) for number in range(0, 602, 7))
    assert (left == right) == (one == other)


@given(NUMBERS, st.integers(0, 100))
def test_moved(numbers: set[int], by: int) -> None:
    """Moving up and down again gives the same set; what would be below 0 is left out."""
    assert IndexSet.of(numbers).moved(by) == IndexSet.of(number + by for number in numbers)
    assert IndexSet.of(numbers).moved(by).moved(-by) == IndexSet.of(numbers)
    assert IndexSet.of(numbers).moved(-by) == IndexSet.of(number - by for number in numbers if number >= by)


def test_below_and_first() -> None:
    """``below`` is all numbers up to an end, and ``first`` is the smallest one."""
    assert list(IndexSet.below(3)) == [0, 1, 2] and not IndexSet.below(0)
    assert IndexSet.of([5, 3]).first == 3


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([4], "4"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")])
def test_text_tells_runs(numbers: list[int], text: str) -> None:
    """Neighbours are told as a run, so that a gap shows."""
    assert str(IndexSet.of(numbers)) == text
