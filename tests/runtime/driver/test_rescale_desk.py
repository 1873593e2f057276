"""Who asks for other numbers of shards is answered, whatever becomes of the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.driver.rescale_desk import RescaleDesk, RescaleRequest
from mixedmode.runtime.driver.runner import JobRunner
from mixedmode.runtime.handle.rescale import RescaledQuery


def test_each_request_is_answered() -> None:
    """Those that were begun with are granted together, and cannot be withdrawn; one that has to wait can; the end of
    the run refuses what is left, and what comes later."""
    desk = RescaleDesk()
    first, second, third = RescaleRequest(3), RescaleRequest(4, "a"), RescaleRequest(5)
    for request in (first, second):
        desk.ask(request)
    assert desk.begin() == [first, second] and not desk.withdraw(first)
    desk.refuse(second, "why not")
    with pytest.raises(QueryError, match="the rescale to 4 shards of stage 'a' was not done: why not"):
        second.answer.result(0)
    desk.put_back([first])
    assert desk.begin() == [first]
    desk.grant()
    assert first.answer.done() and desk.is_idle
    desk.ask(third)
    assert desk.withdraw(third) and desk.is_idle

    desk.ask(third)
    desk.begin()
    desk.ask(RescaleRequest(6, wait=True))
    desk.ask(last := RescaleRequest(7))
    desk.refuse_those_that_do_not_wait("now it cannot be")
    assert last.answer.done()
    desk.close("the query has ended")
    with pytest.raises(QueryError, match="rescale to 5 shards was not done: the query has ended"):
        third.answer.result(0)
    with pytest.raises(QueryError, match="no rescale to 3 shards can be done: the query has ended"):
        desk.ask(RescaleRequest(3))


class Query(RescaledQuery):
    """A handle of a run that does nothing."""

    def __init__(self, phase: str, runtime_mode: str = "mixed") -> None:
        self.desk = RescaleDesk()
        runner: Any = SimpleNamespace(
            is_inside=False,
            now=SimpleNamespace(phase=SimpleNamespace(kind=phase)),
            job=SimpleNamespace(
                keeps_state=runtime_mode != "batch",
                settings=SimpleNamespace(max_parallelism=16),
                stages=[SimpleNamespace(uid="a"), SimpleNamespace(uid="b")],
            ),
            _context=SimpleNamespace(rescales=self.desk, wake=SimpleNamespace(set=lambda: None)),
        )
        runner.ask_rescale = lambda request: JobRunner.ask_rescale(runner, request)
        runner.withdraw_rescale = self.desk.withdraw
        self._runner = cast(JobRunner, runner)


def test_what_cannot_be_done_is_said() -> None:
    """In a backlog at batch speed it is refused unless it may wait; who waits in vain takes the request back."""
    with pytest.raises(QueryError, match=r"works through its backlog .* ask with wait=True"):
        Query("backlog").rescale(4)
    waiting = Query("backlog")
    with pytest.raises(QueryError, match=r"not done within 0.01 s; it is withdrawn"):
        waiting.rescale(4, wait=True, timeout=0.01)
    assert waiting.desk.is_idle
    with pytest.raises(QueryError, match=r"execution.runtime-mode is batch"):
        Query("backlog", "batch").rescale(4)
    with pytest.raises(ValueError, match="parallelism of rescale\\(\\) is 17; it must be a whole number from 1 to 16"):
        Query("live").rescale(17)
    with pytest.raises(QueryError, match="no stage 'c'; its stages are a, b"):
        Query("live").rescale(4, "c")

    begun = Query("live")
    ask = begun._runner.ask_rescale

    def asked(request: RescaleRequest) -> None:
        ask(request)
        begun.desk.begin()

    begun._runner.ask_rescale = asked  # type: ignore[method-assign]
    with pytest.raises(QueryError, match="it is under way, and the query goes on with it"):
        begun.rescale(4, timeout=0.01)
