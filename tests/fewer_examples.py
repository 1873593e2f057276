"""Generated examples in two parts: ``make test``, for which everybody waits, tries one, ``make test-rest`` the other.

Hypothesis makes other examples in each run, so the two together try as many as a test asks for.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import settings

#: The part that a run tries, as a number from 0 to 1; without the variable all.
VARIABLE = "MIXEDMODE_EXAMPLES_SHARE"
#: The part that another run has tried, and this one does not try again.
TRIED = "MIXEDMODE_EXAMPLES_TRIED"
#: Of a test with fewer examples than that the first run tries all.
_FEW = 10
#: Where Hypothesis keeps what ``@settings`` has said of a function.
_KEPT = "_hypothesis_internal_use_settings"


def share() -> float:
    """The part that this run tries."""
    return float(os.environ.get(VARIABLE, "1"))


def tried() -> float:
    """The part that another run has tried."""
    return float(os.environ.get(TRIED, "0"))


def split(items: list[pytest.Item], left_out: Collection[str]) -> list[pytest.Item]:
    """Have the tests of a run try their part; those that ``make test`` leaves out try everything.

    Args:
        items: the tests.
        left_out: the markers of those that ``make test`` leaves out.

    Returns:
        Those of which the other run tries everything.
    """
    if (share(), tried()) == (1, 0):
        return []
    counts: dict[int, int] = {}
    over: list[pytest.Item] = []
    for item in items:
        test: Any = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        machine: Any = getattr(item, "cls", None)
        is_machine = isinstance(getattr(machine, "settings", None), settings)
        if not (is_machine or getattr(test, "is_hypothesis_test", False)):
            continue
        if any(item.get_closest_marker(name) for name in left_out):
            continue
        # A test with parameters is one function.
        key = id(machine) if is_machine else id(test)
        if key not in counts:
            given = machine.settings if is_machine else getattr(test, _KEPT, None) or settings()
            counts[key] = _count(given)
            if counts[key]:
                part = settings(given, max_examples=counts[key])
                setattr(*((machine, "settings") if is_machine else (test, _KEPT)), part)
        if not counts[key]:
            over.append(item)
    return over


def _count(given: settings) -> int:
    """How many examples this run tries."""
    all_ = given.max_examples
    first = max(round(all_ * (tried() or share())), min(_FEW, all_))
    if not tried():
        return first
    # Without chance the examples would be those of the first run.
    return all_ if given.derandomize and first < all_ else all_ - first
