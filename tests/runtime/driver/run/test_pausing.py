"""What a pause does to a run's clocks, without Spark."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.errors import QueryError
from mixedmode.runtime.driver.requests.pause_switch import PauseSwitch
from mixedmode.runtime.driver.run import pausing
from mixedmode.runtime.driver.run.user_requests import UserRequests
from mixedmode.runtime.jobs.report_collector import ReportCollector
from mixedmode.runtime.metrics.events.facts import RunPaused, RunResumed
from mixedmode.runtime.protocols.watermarks import WatermarkTracker
from mixedmode.runtime.tasks.shard.pass_context import NO_PASS, PassContext
from mixedmode.runtime.tasks.shard.pass_pause import PassPause


def test_pause_makes_no_input_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No input could be read in a pause: after it, none has been without rows for longer than before."""
    tracker = WatermarkTracker(0, delays_ms={"a": 0, "b": 0}, idle_timeout_ms=1000)
    tracker.watch(0)
    tracker.observe({"a": 500}, 0)
    facts: list[Any] = []
    context = SimpleNamespace(pause=PauseSwitch(lambda: None), listener=SimpleNamespace(on=facts.append))
    run = SimpleNamespace(context=context, state=SimpleNamespace(stages={"it": SimpleNamespace(watermark=tracker)}))
    context.pause.ask()
    monkeypatch.setattr(pausing, "now_ms", lambda: 900)
    pausing.come_to_a_stand(cast(Any, context), cast(Any, SimpleNamespace(kind="live")))
    context.pause.lift()
    monkeypatch.setattr(pausing, "now_ms", lambda: 3_600_900)
    pausing.go_on(cast(Any, run))
    pausing.go_on(cast(Any, run))
    assert facts == [RunPaused("live"), RunResumed(3_600_000)]
    tracker.advance(3_600_950)
    assert tracker.current_ms < 500, "b holds the watermark back"
    tracker.advance(3_601_000)
    assert tracker.current_ms == 500, "b has been idle for one second, without the pause"


def test_shards_are_held_when_the_pass_can_know_of_it() -> None:
    """A task that sees the marker leaves its shard without a report: the switch says so first.  An ended run, whose
    location may be another one's by now, makes no marker."""
    switch, held = PauseSwitch(lambda: None), list[int]()
    runner = SimpleNamespace(
        _pausing=threading.Lock(),
        _context=SimpleNamespace(
            pause=switch,
            stopping=threading.Event(),
            backlog=SimpleNamespace(has_begun=True),
            pass_pause=None,
            published=SimpleNamespace(now=SimpleNamespace(phase=SimpleNamespace(kind="backlog"))),
        ),
        _hold_shards=lambda: held.append(switch.times),
    )
    UserRequests.pause(cast(Any, runner))
    assert held == [1]
    switch.close("the query has failed")
    with pytest.raises(QueryError, match="cannot be paused"):
        UserRequests.pause(cast(Any, runner))
    assert held == [1]


@dataclass(frozen=True)
class _Task:
    epoch: Any = field(default_factory=lambda: SimpleNamespace(style="sorted"))
    sorted_pass: PassContext = NO_PASS


@pytest.mark.parametrize("is_there", [False, True])
def test_left_marker_holds_back_no_shard(is_there: bool) -> None:
    """A marker that is there though nobody wants a pause is not heeded; otherwise its shards would count as empty."""
    marker, given = SimpleNamespace(is_there=is_there), list[Any]()
    pause = PassPause(cast(Any, marker), "tag", lambda: 0, lambda: False, lambda: None)
    context = SimpleNamespace(addJobTag=lambda tag: None, removeJobTag=lambda tag: None)
    spark = cast(Any, SimpleNamespace(sparkContext=context))
    collector = ReportCollector(
        spark, None, observes=False, has_transform=False, note_unusable=print, note_not_prepared=print
    )

    def run(task: Any) -> list[Any]:
        given.append(task.sorted_pass.pause)
        return []

    assert collector.collect_reports([0, 1], cast(Any, _Task()), run, pause) == []
    assert given == [None if is_there else marker]
