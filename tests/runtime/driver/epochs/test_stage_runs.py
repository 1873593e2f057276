"""What a stage that follows others has to do in an epoch, and what it takes over of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.driver.epochs.epoch_specs import following_epoch_of
from mixedmode.runtime.driver.epochs.stage_runs import (
    StageRequest,
    StageRun,
    fired_upstream,
    gets_the_end,
    has_ended,
    reached_upstream,
)
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.protocols.watermarks import WatermarkTracker


def spec(firing_ms: int, **changes: Any) -> EpochSpec:
    values: dict[str, Any] = {
        "epoch": 3,
        "style": "random",
        "watermark_ms": firing_ms,
        "firing_watermark_ms": firing_ms,
        "late_watermark_ms": MIN_WATERMARK,
        "processing_time_ms": 7,
        "processing_timers_upto_ms": 7,
    }
    return EpochSpec(**{**values, **changes})


def ran(firing_ms: int, reached_ms: int = 0, **changes: Any) -> StageRun:
    return StageRun(StageRequest(spec(firing_ms, **changes)), [], min(firing_ms, reached_ms), reached_ms)


def stage(*origins: str, hooks: bool = False, coordinator: object = None) -> Any:
    edges = tuple(SimpleNamespace(origin=origin) for origin in origins)
    operator = SimpleNamespace(has_end_hooks=hooks)
    return SimpleNamespace(edges=edges, leading_edges=edges, operator=operator, coordinator=coordinator)


def held(fired_ms: int, reached_ms: int, finished: bool = False) -> Any:
    watermark = WatermarkTracker(0, current_ms=fired_ms, fired_ms=fired_ms)
    watermark.observe(reached_ms)
    return SimpleNamespace(watermark=watermark, finished=finished)


def test_what_is_taken_over_is_of_this_epoch_where_there_is_one() -> None:
    """Of a stage that did not run it is what it had before; MIN is nothing."""
    follower, stages = stage("a", "b"), {"a": held(5, 9), "b": held(6, 8)}
    assert fired_upstream(follower, {"a": ran(20, 30)}, stages) == {"a": 20, "b": 6}
    assert reached_upstream(follower, {"a": ran(20, 30)}, stages) == {"a": 30, "b": 8}
    assert fired_upstream(follower, {}, {"a": held(MIN_WATERMARK, 1), "b": held(6, 8)}) == {"a": None, "b": 6}
    ended = {**stages, "a": held(5, 9, finished=True)}
    assert fired_upstream(follower, {}, ended) == {"a": MAX_WATERMARK, "b": 6}, "it holds nobody back"
    assert reached_upstream(follower, {}, ended) == {"a": MAX_WATERMARK, "b": 8}


def test_a_stage_that_reads_sources_too_gets_the_end_from_both() -> None:
    """Not with the end of the stages before it alone, nor with that of its sources."""
    specs = {"a": stage(), "b": stage("a")}
    end = ran(MAX_WATERMARK, timers_at_max="ignore")
    both: Any = SimpleNamespace(edges=specs["b"].edges, reads=("a lane",))
    follows: Any = SimpleNamespace(edges=specs["b"].edges, reads=())
    goes_on = ran(9)
    assert gets_the_end(both, end.request, specs, {"a": end})
    assert not gets_the_end(both, None, specs, {"a": end})
    assert not gets_the_end(both, goes_on.request, specs, {"a": end})
    assert not gets_the_end(both, end.request, specs, {"a": goes_on})
    assert gets_the_end(follows, None, specs, {"a": end})


def test_a_stage_has_ended_when_all_before_it_have() -> None:
    """In the same epoch, without hooks or events that would still hand something on; a switch is no end."""
    specs = {"a": stage(), "b": stage(), "c": stage("a", "b"), "d": stage("c")}
    both = {"a": ran(MAX_WATERMARK, timers_at_max="ignore"), "b": ran(MAX_WATERMARK, timers_at_max="ignore")}
    all_three = {**both, "c": ran(MAX_WATERMARK, timers_at_max="ignore")}
    assert has_ended("c", specs, all_three)
    assert not has_ended("c", specs, {**all_three, "b": ran(9, timers_at_max="ignore")})
    assert not has_ended("c", specs, {"a": both["a"], "c": all_three["c"]}), "the other one comes later"
    assert not has_ended("c", {**specs, "a": stage(hooks=True)}, all_three)
    assert not has_ended("c", {**specs, "a": stage(coordinator=object())}, all_three)
    assert not has_ended("a", specs, {"a": ran(MAX_WATERMARK, timers_at_max="carry")})


@pytest.mark.parametrize("in_order", [True, False])
def test_a_stage_that_follows_fires_up_to_what_has_fired(in_order: bool) -> None:
    """Rows behind what it fired itself are late; under in-order it is shown where it stands, and how far rows go."""
    tracker = WatermarkTracker(0, delays_ms={"a": 5}, current_ms=80, fired_ms=70)
    found = following_epoch_of(spec(100), tracker, 95, 120, in_order=in_order, has_rows=True, at_end=False)
    assert (found.firing_watermark_ms, found.late_watermark_ms, found.delay_ms) == (95, 70, 5)
    assert found.watermark_ms == (80 if in_order else 95)
    assert (None if found.in_order is None else found.in_order.upto_ms) == (120 if in_order else None)


def test_nothing_fires_while_more_of_the_backlog_follows() -> None:
    """That is said by the epoch, not guessed from what it fires: a job without event time fires nothing either."""
    tracker = WatermarkTracker(0, delays_ms={"a": 0}, current_ms=80, fired_ms=70)
    base = spec(MIN_WATERMARK, style="sorted", more_follows=True, drops_late=False)
    found = following_epoch_of(base, tracker, 95, 95, in_order=True, has_rows=True, at_end=False)
    assert (found.firing_watermark_ms, found.late_watermark_ms, found.in_order) == (MIN_WATERMARK, MIN_WATERMARK, None)
    whole = following_epoch_of(
        spec(MIN_WATERMARK, style="sorted"), tracker, 95, 95, in_order=False, has_rows=True, at_end=False
    )
    assert whole.firing_watermark_ms == 95
    last = following_epoch_of(base, tracker, 95, 95, in_order=True, has_rows=True, at_end=True)
    assert last.firing_watermark_ms == MIN_WATERMARK
