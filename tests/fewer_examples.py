"""A part of the generated examples, for the run that everybody waits for: ``make test-rest`` tries all of them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

#: The part that a run tries, as a number from 0 to 1; without the variable all.
VARIABLE = "MIXEDMODE_EXAMPLES_SHARE"
#: Of a test with fewer examples than that all are tried.
_FEW = 10
#: Where Hypothesis keeps what ``@settings`` has said of a function.
_KEPT = "_hypothesis_internal_use_settings"


def share() -> float:
    """The part that this run tries."""
    return float(os.environ.get(VARIABLE, "1"))


def try_fewer(items: list[pytest.Item]) -> None:
    """Have the tests of a run try their part.

    Args:
        items: the tests.
    """
    if share() == 1:
        return
    done: set[int] = set()
    for item in items:
        test: Any = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        machine = getattr(item, "cls", None)
        if getattr(test, "is_hypothesis_test", False) and id(test) not in done:
            done.add(id(test))  # a test with parameters is one function
            setattr(test, _KEPT, _fewer(getattr(test, _KEPT, None) or settings()))
        if isinstance(own := getattr(machine, "settings", None), settings) and id(machine) not in done:
            done.add(id(machine))
            machine.settings = _fewer(own)  # of a state machine


def _fewer(given: settings) -> settings:
    return settings(given, max_examples=max(round(given.max_examples * share()), min(_FEW, given.max_examples)))
