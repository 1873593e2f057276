"""An epoch in Real-Time Mode that fails begins again as often as Spark would try a task, and then the run fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode import QueryError
from mixedmode.runtime.driver.realtime import phase as phase_module
from mixedmode.runtime.driver.realtime.phase import EpochFailed, run_real_time


class Attempts:
    """What comes of each attempt: whether it commits an epoch, and what it raises then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcomes: Iterable[tuple[bool, Exception | None]]) -> None:
        self.numbers: list[int] = []
        self._outcomes: Iterator[tuple[bool, Exception | None]] = iter(outcomes)
        monkeypatch.setattr(phase_module, "_attempt", self._attempt)
        monkeypatch.setattr(phase_module, "most_task_failures", lambda _: 3)

    def _attempt(self, run: Any, ending: Any, phase: Any, number: int) -> Any:
        self.numbers.append(number)
        has_committed, error = next(self._outcomes)

        def perform() -> None:
            if error is not None:
                raise error

        return SimpleNamespace(has_committed=has_committed, perform=perform)

    def run(self) -> None:
        """Run the phase."""
        run = SimpleNamespace(job=SimpleNamespace(spark=None, name="job"), state=SimpleNamespace(epoch=6))
        run_real_time(cast(Any, run), cast(Any, None), cast(Any, None))


def failed(text: str) -> EpochFailed:
    return EpochFailed(QueryError(text))


def test_as_many_failures_in_a_row_as_of_a_task_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, [(False, failed("one")), (False, failed("two")), (False, failed("three"))])
    with pytest.raises(QueryError, match="three"):
        attempts.run()
    assert attempts.numbers == [0, 1, 2]


def test_a_committed_epoch_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each attempt has a number, and so a token, of its own."""
    outcomes = [(False, failed("one")), (False, failed("two")), (True, failed("one again")), (False, failed("two"))]
    attempts = Attempts(monkeypatch, [*outcomes, (True, None)])
    attempts.run()
    assert attempts.numbers == [0, 1, 2, 3, 4]


def test_other_errors_are_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, [(False, QueryError("no checkpoint"))])
    with pytest.raises(QueryError, match="no checkpoint"):
        attempts.run()
    assert attempts.numbers == [0]
