"""What a pause does to a run's clocks, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.driver import pausing
from mixedmode.runtime.driver.pause_switch import PauseSwitch
from mixedmode.runtime.metrics.listeners import RunPaused, RunResumed
from mixedmode.runtime.protocols.watermarks import WatermarkTracker


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
