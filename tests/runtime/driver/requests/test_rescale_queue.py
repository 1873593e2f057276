"""Who asks for other numbers of shards is answered, whatever becomes of the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from mixedmode.errors import OptionError, QueryError
from mixedmode.runtime.driver.requests.rescale_queue import RescaleQueue, RescaleRequest
from mixedmode.runtime.driver.run import rescaling
from mixedmode.runtime.driver.run.rescaling import Rescaling
from mixedmode.runtime.driver.run.runner import JobRunner
from mixedmode.runtime.driver.run.user_requests import UserRequests
from mixedmode.runtime.handle.query_run import QueryRun
from mixedmode.runtime.handle.rescale import RescalableQuery
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler


def test_each_request_is_answered() -> None:
    """Those that were begun with are granted together, and cannot be withdrawn; one that has to wait can; the end of
    the run refuses what is left, and what comes later."""
    queue = RescaleQueue()
    first, second, third = RescaleRequest(3), RescaleRequest(4, "a"), RescaleRequest(5)
    for request in (first, second):
        queue.ask(request)
    assert queue.begin() == queue.begin() == [first, second] and not queue.withdraw(first)
    queue.refuse(second, "why not")
    with pytest.raises(QueryError, match="the rescale to 4 shards of stage 'a' was not done: why not"):
        second.answer.result(0)
    queue.grant()
    assert first.answer.done() and queue.is_idle
    queue.ask(third)
    assert queue.withdraw(third) and queue.is_idle

    queue.ask(third)
    queue.begin()
    queue.ask(RescaleRequest(6, wait=True))
    queue.ask(last := RescaleRequest(7))
    queue.refuse_those_that_do_not_wait("now it cannot be")
    assert last.answer.done()
    queue.close("the query has ended")
    with pytest.raises(QueryError, match="rescale to 5 shards was not done: the query has ended"):
        third.answer.result(0)
    with pytest.raises(QueryError, match="no rescale to 3 shards can be done: the query has ended"):
        queue.ask(RescaleRequest(3))


class Checkpoints:
    """Those of a run; they fail, within what is tolerated, or last until somebody looks, when they are told to."""

    def __init__(self, run: Any) -> None:
        self.run, self.fails, self.lasts, self.has_news = run, False, False, True
        self.in_flight: int | None = None
        self._attempted = 1
        self.beside: list[bool] = []

    def checkpoint_beside(self, trigger: str) -> None:
        self._attempted += 1
        self.in_flight = self._attempted
        self.run.scheduler.triggered(0)
        self.beside.append(True)
        if not self.lasts:
            self.look()

    def look(self) -> None:
        if self.in_flight is not None and not self.fails:
            self.run.state.checkpoint_id = self.in_flight
        self.in_flight = None

    def wait(self) -> None:
        self.look()

    def beside_if_behind(self, trigger: str) -> int | None:
        if self.in_flight is None and self.has_news:
            self.checkpoint_beside(trigger)
            return self._attempted
        return self.in_flight

    def checkpoint_if_behind(self, trigger: str) -> bool:
        self.look()
        if self.has_news:
            self.beside.append(False)
            self._attempted += 1
            self.run.state.checkpoint_id = self._attempted
        return True


def rescaling_of(monkeypatch: pytest.MonkeyPatch) -> tuple[Rescaling, Any, list[Any]]:
    """What deals shards, its run, whose clock says that a checkpoint is due if one was asked for, and what is told."""

    def deal(state: Any, events: Any, graph: Any, shards: dict[str, int]) -> None:
        state.parallelism = dict(shards)
        state.stages["a"].shards = [None] * shards["a"]

    monkeypatch.setattr(rescaling, "reassign_shards", deal)
    monkeypatch.setattr(rescaling, "lifecycle_of", mock.Mock())
    told: list[Any] = []
    run = mock.MagicMock()
    run.state = SimpleNamespace(
        stages={"a": SimpleNamespace(finished=False, shards=[None])},
        sources={"live": SimpleNamespace(finished=False)},
        parallelism={"a": 1},
        checkpoint_id=1,
    )
    run.context.rescales, run.context.listener.on = RescaleQueue(), told.append
    run.scheduler = CheckpointScheduler(1 << 60, 0, 0, 0, frozenset({"live"}))
    run.checkpoints = Checkpoints(run)
    return Rescaling(run), run, told


def test_a_checkpoint_that_fails_before_shards_are_dealt_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has asked is told so at once: another try would be another failure in a row."""
    served, run, told = rescaling_of(monkeypatch)
    run.context.rescales.ask(request := RescaleRequest(4))
    run.checkpoints.fails = True
    served.serve()
    with pytest.raises(QueryError, match="not done: its checkpoint failed, and the query goes on with the shards that"):
        request.answer.result(0)
    assert (run.state.parallelism, told, run.context.rescales.is_idle) == ({"a": 1}, [], True)


@pytest.mark.parametrize("how", ["pause", "end"])
def test_who_asks_is_answered_when_a_checkpoint_holds_the_shards(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The one behind the dealing may fail: the next one is taken when it is due, also in a pause, where no epoch asks
    for one; one with which the run ends counts, too."""
    served, run, told = rescaling_of(monkeypatch)
    run.context.rescales.ask(request := RescaleRequest(4))
    run.checkpoints.has_news = False
    run.checkpoints.fails = True
    served.serve()
    assert (run.state.parallelism, request.answer.done(), told) == ({"a": 4}, False, [])
    run.checkpoints.fails = False
    if how == "pause":
        served.serve()
        served.serve()  # when it is complete
    else:
        served.settle()
        assert not request.answer.done()
        run.state.checkpoint_id += 1
        served.settle()
    request.answer.result(0)
    held_by = 3 if how == "pause" else 2  # an id that has failed is not used again
    assert [(one.before, one.after, one.checkpoint_id) for one in told] == [({"a": 1}, {"a": 4}, held_by)]


def test_failures_that_are_tolerated_are_not_used_up_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more checkpoint is taken at once, further ones when they are due."""
    served, run, told = rescaling_of(monkeypatch)
    run.context.rescales.ask(request := RescaleRequest(4))
    run.checkpoints.has_news, run.checkpoints.fails = False, True
    for _ in range(5):
        served.serve()
    assert run.checkpoints.beside == [True, True] and not request.answer.done()
    run.checkpoints.fails = False
    run.scheduler.request()
    served.serve()
    served.serve()
    assert request.answer.done() and len(told) == 1


def test_epochs_go_on_beside_checkpoints_of_a_dealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the one only that holds what came while the first was completed; whoever asks meanwhile is served
    with those before, or after what was dealt is held."""
    served, run, told = rescaling_of(monkeypatch)
    run.checkpoints.lasts = True
    first, second, third = RescaleRequest(4), RescaleRequest(5), RescaleRequest(6)
    run.context.rescales.ask(first)
    served.serve()
    assert (run.checkpoints.beside, run.state.parallelism) == ([True], {"a": 1})
    run.context.rescales.ask(second)
    look, run.checkpoints.look = run.checkpoints.look, lambda: None
    served.serve()
    assert (run.checkpoints.beside, run.state.parallelism) == ([True], {"a": 1}), "it is not complete yet"
    run.checkpoints.look = look
    served.serve()
    assert (run.checkpoints.beside, run.state.parallelism) == ([True, False, True], {"a": 5})
    assert not first.answer.done()
    run.context.rescales.ask(third)
    run.checkpoints.look = lambda: None
    served.serve()
    assert run.state.parallelism == {"a": 5}
    run.checkpoints.look, run.checkpoints.has_news = look, False
    served.serve()
    assert first.answer.done() and second.answer.done() and run.state.parallelism == {"a": 6}
    served.serve()
    assert third.answer.done() and len(told) == 2


def test_a_run_does_what_was_asked_for_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody serves it again behind the last phase, so the end waits for the checkpoints of the dealing."""
    served, run, told = rescaling_of(monkeypatch)
    run.context.stopping.is_set.return_value = False
    run.checkpoints.lasts = True
    run.context.rescales.ask(request := RescaleRequest(4, wait=True))
    served.serve()  # the switch
    assert not request.answer.done()
    served.finish()
    request.answer.result(0)
    assert (run.state.parallelism, len(told), run.checkpoints.beside) == ({"a": 4}, 1, [True, False, True])


@pytest.mark.parametrize("why", ["failures", "end of all input", "stop"])
def test_the_end_of_a_run_waits_for_nothing_that_does_not_come(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Who has asked is told that the query has ended: a restart finds the shards that there were."""
    served, run, told = rescaling_of(monkeypatch)
    run.context.stopping.is_set.return_value = why == "stop"
    run.checkpoints.has_news, run.checkpoints.lasts, run.checkpoints.fails = False, True, True
    run.state.sources["live"].finished = why == "end of all input"
    run.context.rescales.ask(request := RescaleRequest(4, wait=True))
    served.finish()
    assert len(run.checkpoints.beside) == (2 if why == "failures" else 0), "once more at once"
    run.context.rescales.close("the query has ended")
    with pytest.raises(QueryError, match="not done: the query has ended"):
        request.answer.result(0)
    assert told == []


class Query(RescalableQuery):
    """A handle of a run that does nothing."""

    def __init__(self, phase: str, runtime_mode: str = "mixed") -> None:
        self.queue = RescaleQueue()
        job = SimpleNamespace(
            keeps_state=runtime_mode != "batch",
            settings=SimpleNamespace(max_parallelism=16),
            stages=[SimpleNamespace(uid=uid, operator=SimpleNamespace(is_stateless=False)) for uid in "ab"],
        )
        published = SimpleNamespace(now=SimpleNamespace(phase=SimpleNamespace(kind=phase)))
        context = SimpleNamespace(rescales=self.queue, wake=SimpleNamespace(set=lambda: None), published=published)
        runner: Any = SimpleNamespace(
            stopping=SimpleNamespace(is_inside=False), requests=UserRequests(cast(Any, job), cast(Any, context))
        )
        self._run = object.__new__(QueryRun)
        self._run.runner = cast(JobRunner, runner)


def test_what_cannot_be_done_is_said() -> None:
    """In a backlog at batch speed it is refused unless it may wait; who waits in vain takes the request back."""
    with pytest.raises(QueryError, match=r"works through its backlog .* ask with wait=True"):
        Query("backlog").rescale(4)
    waiting = Query("backlog")
    with pytest.raises(QueryError, match=r"not done within 0.01 s; it is withdrawn"):
        waiting.rescale(4, wait=True, timeout=0.01)
    assert waiting.queue.is_idle
    with pytest.raises(QueryError, match=r"execution.runtime-mode is batch"):
        Query("backlog", "batch").rescale(4)
    with pytest.raises(OptionError, match="parallelism of rescale\\(\\) is 17; it must be a whole number from 1 to 16"):
        Query("live").rescale(17)
    with pytest.raises(QueryError, match="no stage 'c'; its stages are a, b"):
        Query("live").rescale(4, "c")

    begun = Query("live")
    ask = begun._run.runner.requests.rescale

    def asked(request: RescaleRequest) -> None:
        ask(request)
        begun.queue.begin()

    begun._run.runner.requests.rescale = asked  # type: ignore[method-assign]
    with pytest.raises(QueryError, match="it is under way, and the query goes on with it"):
        begun.rescale(4, timeout=0.01)
