"""The mode rules: every cell of the table of modes, and the phases that follow from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode import OptionError, PlanError
from mixedmode.planner.options.layers import Layer, resolve_options
from mixedmode.planner.plans.final_watermark import FinalWatermark
from mixedmode.planner.plans.job_facts import JobFacts
from mixedmode.planner.plans.phases import plan_phases
from mixedmode.planner.plans.sort_engine import choose_sorter
from mixedmode.planner.plans.timer_order import resolve_timers
from mixedmode.runtime.spec import Phase, Settings

BOTH = JobFacts(has_history=True, has_live=True, uses_event_time=True, has_watermark=True)
HISTORY = JobFacts(has_history=True, has_live=False, uses_event_time=True, has_watermark=True)
LIVE = JobFacts(has_history=False, has_live=True, uses_event_time=True, has_watermark=True)

BATCH = Settings(runtime_mode="batch")
STREAM = Settings(runtime_mode="streaming")
MIXED = Settings()
MIXED_60 = Settings(interval_during_backlog_ms=60_000)


def kinds(settings: Settings, job: JobFacts) -> list[str]:
    return [phase.kind for phase in plan_phases(settings, job)]


def phase(settings: Settings, job: JobFacts, kind: str) -> Phase:
    return next(phase for phase in plan_phases(settings, job) if phase.kind == kind)


def ending(job: JobFacts) -> JobFacts:
    return JobFacts(job.has_history, job.has_live, ends_by_itself=True, uses_event_time=job.uses_event_time)


@pytest.mark.parametrize(
    ("settings", "job", "expected"),
    [
        (BATCH, BOTH, "backlog finish"),
        (BATCH, HISTORY, "backlog finish"),
        (BATCH, LIVE, "backlog finish"),
        (BATCH, ending(BOTH), "backlog finish"),
        (MIXED, BOTH, "backlog switch live"),
        (MIXED, LIVE, "backlog switch live"),
        (MIXED, HISTORY, "backlog finish"),
        (MIXED, ending(BOTH), "backlog switch"),
        (MIXED, ending(LIVE), "backlog switch"),
        (MIXED, ending(HISTORY), "backlog finish"),
        (STREAM, BOTH, "history catch-up switch live"),
        (STREAM, LIVE, "catch-up switch live"),
        (STREAM, HISTORY, "history finish"),
        (STREAM, ending(BOTH), "history catch-up switch"),
        (MIXED_60, BOTH, "history catch-up switch live"),
        (MIXED_60, LIVE, "catch-up switch live"),
        (MIXED_60, HISTORY, "history finish"),
        (MIXED_60, ending(BOTH), "history catch-up switch"),
    ],
)
def test_the_phases_of_a_job(settings: Settings, job: JobFacts, expected: str) -> None:
    """Mode, backlog interval, sources and trigger decide the phases."""
    assert kinds(settings, job) == expected.split()


def test_a_job_without_sources_is_refused() -> None:
    """There is nothing to plan."""
    with pytest.raises(PlanError, match="neither a history nor a live source"):
        plan_phases(MIXED, JobFacts(has_history=False, has_live=False))


@pytest.mark.parametrize("settings", [BATCH, MIXED])
def test_a_backlog_reads_all_sources_in_one_sorted_pass(settings: Settings) -> None:
    """Batch and mixed mode take history and the waiting live data together, one key at a time."""
    backlog = phase(settings, BOTH, "backlog")

    assert backlog.sources == ("history", "live")
    assert backlog.style == "sorted"
    assert phase(settings, LIVE, "backlog").sources == ("live",)


@pytest.mark.parametrize("settings", [STREAM, MIXED_60])
def test_a_stream_works_over_rocksdb_throughout(settings: Settings) -> None:
    """Streaming mode and a backlog interval above 0 never sort: each source has its own phase."""
    phases = plan_phases(settings, BOTH)

    assert {found.style for found in phases} == {"random"}
    assert [found.sources for found in phases] == [("history",), ("live",), (), ("live",)]


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [BATCH, MIXED])
def test_no_checkpoint_is_taken_in_a_sorted_backlog(settings: Settings) -> None:
    """Interval 0: there is none while isBacklog, not even a periodic one that was armed."""
    backlog = phase(settings, BOTH, "backlog")

    assert backlog.checkpoint_interval_ms is None
    assert backlog.details["checkpoints"].startswith("none")


def test_the_switch_takes_a_checkpoint_at_once() -> None:
    """In mixed mode the output of the backlog becomes visible with that checkpoint."""
    assert "one immediately" in phase(MIXED, BOTH, "switch").details["checkpoints"]


@pytest.mark.parametrize("kind", ["history", "catch-up"])
def test_the_backlog_interval_holds_while_a_stream_is_in_backlog(kind: str) -> None:
    """Interval > 0: checkpoints are taken at that interval until the switch."""
    assert phase(MIXED_60, BOTH, kind).checkpoint_interval_ms == 60_000


@pytest.mark.parametrize("kind", ["history", "catch-up", "live"])
@pytest.mark.parametrize("backlog_ms", [0, 60_000])
def test_streaming_mode_has_one_interval(kind: str, backlog_ms: int) -> None:
    """In streaming mode the backlog interval has no say."""
    settings = Settings(runtime_mode="streaming", interval_during_backlog_ms=backlog_ms, checkpoint_interval_ms=5_000)

    assert phase(settings, BOTH, kind).checkpoint_interval_ms == 5_000


@pytest.mark.parametrize("settings", [MIXED, MIXED_60, STREAM])
def test_after_the_switch_the_base_interval_holds(settings: Settings) -> None:
    """From the switch on checkpoints are taken at execution.checkpointing.interval: by default after each change."""
    assert phase(settings, BOTH, "live").checkpoint_interval_ms == "auto"
    assert "execution.checkpointing.interval = auto" in phase(settings, BOTH, "live").details["checkpoints"]
    every = settings.model_copy(update={"checkpoint_interval_ms": 5_000})
    assert phase(every, BOTH, "live").checkpoint_interval_ms == 5_000


@pytest.mark.parametrize("kind", ["history", "catch-up"])
def test_a_stream_by_default_checkpoints_its_backlog_every_ten_seconds(kind: Any) -> None:
    """``auto`` never means none, and a backlog has nobody who waits for each of its rows."""
    assert phase(STREAM, BOTH, kind).checkpoint_interval_ms == 10_000


@pytest.mark.parametrize("settings", [STREAM, MIXED_60])
def test_a_streams_switch_takes_a_checkpoint_only_if_nothing_comes_after_it(settings: Settings) -> None:
    """A stream changes its interval at the switch; a run that ends there commits there."""
    assert "from here on after each micro-batch" in phase(settings, BOTH, "switch").details["checkpoints"]
    assert "one immediately" in phase(settings, ending(BOTH), "switch").details["checkpoints"]


# --- watermarks -------------------------------------------------------------------------------------------------------


def test_batch_mode_ends_each_key_with_the_max_watermark() -> None:
    """Batch: MAX_WATERMARK comes at the end of each key."""
    assert "MAX_WATERMARK at the end of each key" in phase(BATCH, BOTH, "backlog").details["watermark"]


def test_under_max_each_key_ends_with_the_max_watermark() -> None:
    """final-watermark = max: MAX_WATERMARK for one key at a time, then the strategy takes over."""
    job = replace(BOTH, final_watermarks={"keyed-0": FinalWatermark("max", "set by job.toml")})
    backlog, switch = phase(MIXED, job, "backlog"), phase(MIXED, job, "switch")

    assert backlog.details["final watermark"] == "max (execution.backlog.final-watermark): set by job.toml"
    assert "MAX_WATERMARK, the end of event time, for one key at a time" in backlog.details["watermark"]
    assert "as withWatermark says" in switch.details["watermark"]


def test_under_observed_each_key_ends_with_the_backlogs_own_watermark() -> None:
    """final-watermark = observed: nothing that straddles the switch fires, so there is nothing to warn about."""
    job = replace(BOTH, final_watermarks={"keyed-0": FinalWatermark("observed", "auto")})
    backlog = phase(MIXED, job, "backlog")

    assert "none while isBacklog; the greatest watermark of the backlog" in backlog.details["watermark"]
    assert "MAX_WATERMARK" not in str(plan_phases(MIXED, job))
    assert "warning" not in backlog.details


def test_a_processor_with_timers_is_told_when_they_fire_and_why() -> None:
    """Both orders are explained where rows are handled; what has no timers of its own has nothing to be told (P5)."""
    job = replace(BOTH, has_timers=True, why_timers="the default under final watermark observed")
    in_order = Settings(final_watermark="observed", timers="in-order")
    backlog, live = (phase(in_order, job, kind).details for kind in ("backlog", "live"))

    assert backlog["timers"].startswith("in-order: ") and "fires before them" in backlog["timers"]
    assert backlog["timers"].endswith("(pipeline.timers: the default under final watermark observed)")
    assert "limits its batches" not in backlog["timers"] + live["timers"]
    limited = phase(in_order.model_copy(update={"backlog_limits": "source"}), job, "backlog").details
    assert "limits its batches" in limited["timers"] and "a pass per batch" in limited["scheduling"]
    assert "execution.backlog.limits = lifted" in backlog["scheduling"]
    assert backlog["watermark"].startswith("t - delay for rows of event time t; ")
    after_rows = phase(Settings(timers="after-rows"), job, "live").details
    assert after_rows["timers"].startswith("after-rows: ") and "as Spark's" in after_rows["timers"]
    assert "timers" not in phase(in_order, BOTH, "backlog").details


@pytest.mark.parametrize(
    ("options", "timers", "why"),
    [
        ({}, "in-order", "the default under final watermark auto"),
        ({"execution.runtime-mode": "batch"}, "in-order", "the default under final watermark auto"),
        ({"execution.backlog.final-watermark": "max"}, "after-rows", "the default under final watermark max"),
        ({"execution.backlog.final-watermark": "observed"}, "in-order", "the default under final watermark observed"),
        ({"pipeline.timers": "in-order"}, "in-order", "set by job.toml"),
        (
            {"execution.backlog.final-watermark": "observed", "pipeline.timers": "after-rows"},
            "after-rows",
            "set by job.toml",
        ),
    ],
)
def test_the_order_of_timers_follows_the_final_watermark(options: dict[str, str], timers: str, why: str) -> None:
    """In order by default, after all rows where max was asked for; unless it is set, which is possible with each."""
    settings, reason = resolve_timers(resolve_options(Layer("job.toml", options)))

    assert (settings.timers, reason) == (timers, why)


def test_a_processor_of_many_keys_at_once_has_its_timers_after_the_rows() -> None:
    """Nothing can fire between the rows of a key there; who asks for observed, or in-order, is told so elsewhere."""
    for options, timers in (
        ({}, "after-rows"),
        ({"execution.backlog.final-watermark": "observed"}, "in-order"),
        ({"pipeline.timers": "in-order"}, "in-order"),
    ):
        settings, _ = resolve_timers(resolve_options(Layer("job.toml", options)), needs_after_rows=True)
        assert settings.timers == timers


def test_an_unknown_order_of_timers_is_refused() -> None:
    """The error names the option, the value, and what is allowed."""
    with pytest.raises(OptionError, match=r"pipeline\.timers.*'sorted'.*in-order, after-rows"):
        resolve_options(Layer("job.toml", {"pipeline.timers": "sorted"}))


def test_under_max_an_operator_with_event_time_is_warned_about() -> None:
    """Windows and timers that straddle the switch fire there: the plan says so."""
    asked = MIXED.model_copy(update={"final_watermark": "max"})
    assert "straddle the switch fire at the switch" in phase(asked, BOTH, "backlog").details["warning"]
    assert "warning" not in phase(MIXED, BOTH, "backlog").details


@pytest.mark.parametrize(
    ("settings", "job"),
    [
        (MIXED, JobFacts(has_history=True, has_live=True)),  # neither windows nor timers
        (MIXED, HISTORY),  # no switch
        (BATCH, BOTH),  # no switch
    ],
)
def test_without_anything_that_straddles_the_switch_there_is_no_warning(settings: Settings, job: JobFacts) -> None:
    """The warning is about windows and timers over a switch, and about nothing else."""
    asked = settings.model_copy(update={"final_watermark": "max"})
    assert "warning" not in phase(asked, job, "backlog").details


@pytest.mark.parametrize("final", ["auto", "max", "observed"])
def test_a_job_of_history_alone_ends_with_the_max_watermark(final: Any) -> None:
    """Without a live source the end of the backlog is the end of input, whatever the option says."""
    settings = Settings(final_watermark=final)

    for kind in ("backlog", "finish"):
        watermark = phase(settings, HISTORY, kind).details["watermark"]
        assert "MAX_WATERMARK" in watermark
        assert ("observed does not apply" in watermark) == (final == "observed")


def test_a_streams_watermark_follows_the_strategy_and_ends_with_max() -> None:
    """Streaming: nothing special at the switch; MAX_WATERMARK only at the end of input."""
    assert "as withWatermark says" in phase(STREAM, BOTH, "history").details["watermark"]
    assert "as before the switch" in phase(STREAM, BOTH, "switch").details["watermark"]
    assert phase(STREAM, HISTORY, "finish").details["watermark"].startswith("MAX_WATERMARK")


def test_a_trigger_that_ends_does_not_end_the_input() -> None:
    """availableNow stops at the switch: no MAX_WATERMARK of end of input, the next run goes on from there."""
    job = replace(BOTH, final_watermarks={"keyed-0": FinalWatermark("observed", "auto")})
    phases = plan_phases(MIXED, replace(job, ends_by_itself=True))

    assert phases[-1].kind == "switch"
    assert "MAX_WATERMARK" not in str(phases)


# --- failure, state, scheduling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "kind", "failure", "state", "scheduling"),
    [
        (BATCH, "backlog", "the failed task runs again from the start", "in memory, forgotten", "stage by stage"),
        (MIXED, "backlog", "nothing of it is visible before the switch", "written to RocksDB", "in one pass"),
        (MIXED, "live", "last complete checkpoint", "RocksDB", "micro-batches"),
        (STREAM, "history", "last complete checkpoint", "RocksDB", "micro-batches"),
        (MIXED_60, "catch-up", "last complete checkpoint", "RocksDB", "micro-batches"),
    ],
)
def test_the_cells_of_failure_state_and_scheduling(
    settings: Settings, kind: str, failure: str, state: str, scheduling: str
) -> None:
    """What happens on failure, where state lives and how work is scheduled is said for each phase."""
    details = phase(settings, BOTH, kind).details

    assert failure in details["failure"]
    assert state in details["keyed state"]
    assert scheduling in details["scheduling"]


@pytest.mark.parametrize(
    ("settings", "kind", "expected"),
    [(BATCH, "backlog", "end of their key"), (MIXED, "backlog", "after the switch"), (STREAM, "live", "no data comes")],
)
def test_processing_time_timers_have_their_own_rule(settings: Settings, kind: str, expected: str) -> None:
    """At the end of their key in batch, in real time otherwise; not mentioned where there are none."""
    with_timers = JobFacts(has_history=True, has_live=True, uses_processing_time=True)

    assert expected in phase(settings, with_timers, kind).details["processing-time timers"]
    assert "processing-time timers" not in phase(settings, BOTH, kind).details


@pytest.mark.parametrize(
    ("settings", "effect"), [(MIXED, "sorted and merged with the state"), (STREAM, "only the checkpoint interval")]
)
def test_falling_behind_is_described_only_with_a_threshold(settings: Settings, effect: str) -> None:
    """A lag threshold turns isBacklog on again; unset it has no effect."""
    with_threshold = settings.model_copy(update={"watermark_lag_threshold_ms": 60_000})

    assert effect in phase(with_threshold, BOTH, "live").details["backlog"]
    assert "backlog" not in phase(settings, BOTH, "live").details


def test_late_rows_are_dropped_only_where_event_time_counts() -> None:
    """An operator without windows and event-time timers drops nothing; without a watermark nothing is late."""
    without = JobFacts(has_history=True, has_live=True, has_watermark=True)

    assert "dropped and counted" in phase(MIXED, BOTH, "live").details["watermark"]
    assert "dropped" not in phase(MIXED, without, "live").details["watermark"]
    assert phase(MIXED, JobFacts(True, True), "live").details["watermark"] == "none declared"


def test_the_live_watermark_tells_its_steps_and_where_late_rows_go() -> None:
    """Options of the watermark show where they matter."""
    settings = MIXED.model_copy(update={"watermark_interval_ms": 200, "late_data_path": "late"})
    watermark = phase(settings, BOTH, "live").details["watermark"]
    assert "at most every 200 ms" in watermark
    assert "kept apart (pipeline.late-data.path)" in watermark


@pytest.mark.parametrize(("option", "engine"), [("auto", "arrow"), ("spark", "spark"), ("arrow", "arrow")])
def test_the_sorter_is_chosen_and_the_choice_explained(option: Any, engine: str) -> None:
    """auto is our sort over Arrow columns; the phase carries the engine and the reason."""
    settings = Settings(sorter_engine=option)
    backlog = phase(settings, BOTH, "backlog")

    assert backlog.sorter == choose_sorter(settings).engine == engine
    assert f"engine {engine}" in backlog.details["sort"]
    assert option in choose_sorter(settings).reason


@given(
    st.sampled_from([BATCH, STREAM, MIXED, MIXED_60]),
    st.sampled_from(["auto", "max", "observed"]),
    st.sampled_from([BOTH, HISTORY, LIVE]),
    st.booleans(),
    st.booleans(),
)
def test_every_job_has_a_well_formed_plan(
    settings: Settings, final: Any, job: JobFacts, ends: bool, event_time: bool
) -> None:
    """Whatever is asked for: each phase has a reason, sources are those of the job, and one phase ends the plan."""
    facts = JobFacts(job.has_history, job.has_live, ends_by_itself=ends, uses_event_time=event_time)

    phases = plan_phases(settings.model_copy(update={"final_watermark": final}), facts)

    assert all(found.reason and found.details for found in phases)
    sources = {name for found in phases for name in found.sources}
    assert sources == {name for name, there in (("history", job.has_history), ("live", job.has_live)) if there}
    assert [found.kind for found in phases if found.kind in ("finish", "live")] in (["finish"], ["live"], [])
    assert phases[-1].kind in ("finish", "live", "switch")


@pytest.mark.parametrize("settings", [BATCH, MIXED])
def test_a_backlog_says_that_spark_makes_its_joins(settings: Settings) -> None:
    """Where a job has a join, its sorted backlog says who joins; where it has none, nothing is said of joins."""
    said = phase(settings, replace(BOTH, has_joins=True), "backlog").details
    assert "Spark's own batch join" in said["joins"]
    assert "joins" not in phase(settings, BOTH, "backlog").details


@pytest.mark.parametrize("settings", [BATCH, MIXED, STREAM, MIXED_60])
@pytest.mark.parametrize("job", [BOTH, HISTORY, LIVE])
def test_without_state_nothing_is_said_of_keys(settings: Settings, job: JobFacts) -> None:
    """A job that keeps nothing goes through the same phases, and none speaks of sorting, state or watermarks."""
    stateless = replace(job, uses_event_time=False, has_watermark=False, is_stateless=True)
    assert kinds(settings, stateless) == kinds(settings, job)
    for one in plan_phases(settings, stateless):
        assert one.details.keys() <= {"checkpoints", "failure", "scheduling"}
        assert "sorted by key" not in f"{one.reason} {one.details}"
