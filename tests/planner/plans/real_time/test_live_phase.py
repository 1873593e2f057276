"""The live phase in Real-Time Mode among the phases of a job, and what the plan says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mixedmode.planner.plans.job_facts import JobFacts
from mixedmode.planner.plans.phases import plan_phases
from mixedmode.runtime.spec import Settings

JOB = JobFacts(has_history=True, has_live=True, uses_event_time=True, has_watermark=True)
REAL_TIME = replace(JOB, real_time_ms=60_000, real_time_slots="5 of 8")


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(runtime_mode="streaming"), Settings(interval_during_backlog_ms=60_000)]
)
def test_only_the_live_phase_is_another_one(settings: Settings) -> None:
    """Backlog and switch are as with micro-batches."""
    *before, live = plan_phases(settings, REAL_TIME)
    *expected, micro_batches = plan_phases(settings, JOB)
    assert before == expected
    assert (live.kind, live.real_time_ms, micro_batches.real_time_ms) == ("live", 60_000, None)
    assert "Real-Time Mode" in live.reason
    assert "Real-Time Mode" not in f"{micro_batches.reason} {micro_batches.details}"


def test_the_details_say_what_is_promised_and_what_it_holds() -> None:
    details = plan_phases(Settings(), REAL_TIME)[-1].details
    assert details["state"].startswith("exactly once")
    assert "at once, and at least once" in details["output"]
    assert "trigger(processingTime=…)" in details["output"]
    assert "every 1 min" in details["checkpoints"]
    assert details["task slots"] == "5 of 8; held as long as the query runs"
    assert details["watermark"].startswith("as withWatermark says")
    assert details["watermark"].endswith("it moves at an epoch's end, where timers of keys without rows fire")


def test_nothing_is_said_of_a_watermark_that_is_not_there() -> None:
    details = plan_phases(Settings(), replace(REAL_TIME, has_watermark=False, uses_event_time=False))[-1].details
    assert details["watermark"] == "none declared"
