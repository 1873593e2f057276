"""What of the generated examples a run tries."""

from __future__ import annotations

import fewer_examples
import pytest
from hypothesis import settings


def _counts(given: settings, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    monkeypatch.setenv(fewer_examples.VARIABLE, "0.4")
    monkeypatch.delenv(fewer_examples.TRIED, raising=False)
    first = fewer_examples._count(given)
    monkeypatch.delenv(fewer_examples.VARIABLE)
    monkeypatch.setenv(fewer_examples.TRIED, "0.4")
    return first, fewer_examples._count(given)


@pytest.mark.parametrize(("all_", "first"), [(300, 120), (60, 24), (12, 10), (10, 10), (3, 3)])
def test_the_two_runs_together_try_all_examples(all_: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run tries its share, at least ten; the other one tries what is left, which may be nothing."""
    assert _counts(settings(max_examples=all_, derandomize=False), monkeypatch) == (first, all_ - first)


def test_examples_without_chance_are_tried_from_the_first_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each run makes the same examples, the other run tries all, unless the first one has."""
    assert _counts(settings(max_examples=60, derandomize=True), monkeypatch) == (24, 60)
    assert _counts(settings(max_examples=8, derandomize=True), monkeypatch) == (8, 0)
