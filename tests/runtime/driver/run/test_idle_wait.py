"""How long a run waits between two looks, and whom it asks for that."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.driver.run.idle_wait import idle_s


class Live:
    """A live source that counts how often it is asked whether it is drained: each time is a call to the JVM."""

    def __init__(self, is_drained: bool, is_looking: bool) -> None:
        self._is_drained, self.is_looking = is_drained, is_looking
        self.asked = 0

    @property
    def is_drained(self) -> bool:
        self.asked += 1
        return self._is_drained


@pytest.mark.parametrize(
    ("is_due", "is_drained", "is_looking", "waits_s", "asked"),
    [
        (False, False, True, 1.0, 0),
        (True, True, True, 1.0, 1),
        (True, False, True, 0.02, 1),
        (True, False, False, 0.1, 1),
    ],
)
def test_the_source_is_asked_only_where_something_is_due(
    is_due: bool, is_drained: bool, is_looking: bool, waits_s: float, asked: int
) -> None:
    """Behind an epoch with which nothing is due a run waits for its clock without a call to the JVM."""
    run: Any = SimpleNamespace(
        context=SimpleNamespace(turn=threading.RLock()),
        scheduler=SimpleNamespace(next_trigger_ms=lambda *, changed: None),
        checkpoints=SimpleNamespace(has_change=False),
        state=SimpleNamespace(stages={}),
        epochs=SimpleNamespace(is_due=is_due),
    )
    live = Live(is_drained, is_looking)
    assert (idle_s(run, cast(Any, live)), live.asked) == (waits_s, asked)
