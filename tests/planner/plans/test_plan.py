"""ExecutionPlan: frozen, comparable, printable, and the same after a round trip through JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode import ExecutionPlan
from mixedmode.planner.frames.dry_run import DryRun
from mixedmode.planner.options.registry import OPTIONS
from mixedmode.planner.plans.job_facts import JobFacts
from mixedmode.planner.plans.phases import plan_phases
from mixedmode.planner.plans.plan import SinkPlan, SourcePlan, StagePlan
from mixedmode.runtime.spec import Settings
from pydantic import ValidationError
from pyspark.sql import Row
from pyspark.sql.types import StructType


def make_plan(settings: Settings | None = None, job: JobFacts | None = None, **changes: Any) -> ExecutionPlan:
    """A plan as the compiler makes it, without Spark."""
    settings = settings or Settings()
    job = job or JobFacts(has_history=True, has_live=True, uses_event_time=True, has_watermark=True)
    names = [name for name, there in (("history", job.has_history), ("live", job.has_live)) if there]
    values: dict[str, Any] = {
        "name": "rotations",
        "sources": tuple(
            SourcePlan(
                name="history" if name == "history" else "live",
                boundedness="bounded" if name == "history" else "unbounded",
                columns="tailnum string, ts timestamp",
                spark_plan=f"== Physical Plan ==\nScan {name}",
            )
            for name in names
        ),
        "event_time": "ts",
        "watermark_delay_ms": 3_600_000,
        "stages": (
            StagePlan(
                uid="rotations",
                is_named=True,
                operator={
                    "operator": "transformWithState",
                    "uid": "rotations",
                    "processor": "Rotations",
                    "key": ["tailnum string"],
                    "time mode": "eventTime",
                },
                reads=tuple(names),
            ),
        ),
        "output_columns": "tailnum string, legs bigint",
        "output_mode": "append",
        "sink": SinkPlan(name="parquet", description="parquet files in out", guarantee="exactly-once"),
        "trigger": {"processingTime": "2 seconds"},
        "settings": settings,
        "parallelism": 2,
        "checkpoint_location": "ck",
        "phases": plan_phases(settings, job),
    }
    return ExecutionPlan(**{**values, **changes})


settings_strategy = st.builds(
    Settings,
    runtime_mode=st.sampled_from(["batch", "streaming", "mixed"]),
    interval_during_backlog_ms=st.sampled_from([0, 60_000]),
    final_watermark=st.sampled_from(["auto", "max", "observed"]),
    watermark_lag_threshold_ms=st.none() | st.integers(1, 10**9),
    sorter_engine=st.sampled_from(["auto", "spark", "arrow"]),
    state_local_dir=st.none() | st.text(min_size=1),
)
job_strategy = st.builds(
    JobFacts,
    has_history=st.booleans(),
    has_live=st.booleans(),
    ends_by_itself=st.booleans(),
    uses_event_time=st.booleans(),
    uses_processing_time=st.booleans(),
    has_watermark=st.booleans(),
).filter(lambda job: job.has_history or job.has_live)


@given(settings_strategy, job_strategy, st.none() | st.text())
def test_a_plan_survives_json(settings: Settings, job: JobFacts, name: str | None) -> None:
    """What is read back equals what was written, and prints the same."""
    plan = make_plan(settings, job, name=name, event_time=None, checkpoint_location=None)

    read_back = ExecutionPlan.model_validate_json(plan.model_dump_json())

    assert read_back == plan
    assert read_back.explain(extended=True) == plan.explain(extended=True)


def test_a_plan_is_frozen() -> None:
    """A plan that was printed cannot be changed before it runs."""
    plan = make_plan()

    with pytest.raises(ValidationError, match="frozen"):
        plan.phases = ()  # type: ignore[misc]


def test_an_unknown_field_is_refused() -> None:
    """A plan stored by a newer version is not read as if its news did not matter."""
    with pytest.raises(ValidationError, match="extra_forbidden"):
        make_plan(surprise=1)


@given(settings_strategy, job_strategy)
def test_explain_prints_every_phase_in_order_with_its_reason_and_details(settings: Settings, job: JobFacts) -> None:
    """Nothing of the phases is left out or made up: words of reasons and details come in the order of the phases."""
    plan = make_plan(settings, job)
    words = " ".join(plan.explain(extended=True).split())

    position = 0
    for number, phase in enumerate(plan.phases, start=1):
        position = words.index(f"Phase {number} of {len(plan.phases)}: {phase.kind}", position)
        for text in (phase.reason, *phase.details.values()):
            position = words.index(" ".join(text.split()), position)


def test_explain_starts_with_the_facts_of_the_job() -> None:
    """Mode, sources, watermark, stage, output, sink with its guarantee, trigger, shards, checkpoints."""
    text = make_plan().explain()

    assert text.splitlines()[0] == "== mixedmode plan: rotations =="
    for name, value in [
        ("runtime mode", "mixed"),
        ("history", "bounded: tailnum string, ts timestamp"),
        ("live", "unbounded: tailnum string, ts timestamp"),
        ("watermark", "greatest ts seen - 1 h"),
        ("keyed stage", "transformWithState by tailnum string, uid rotations"),
        ("processor", "Rotations"),
        ("time mode", "eventTime"),
        ("output", "append: tailnum string, legs bigint"),
        ("sink", "parquet files in out (exactly-once)"),
        ("trigger", "processingTime = 2 seconds"),
        (
            "shards",
            "2 over 128 key groups: one Spark task and one state store for each",
        ),
        ("checkpoints in", "ck"),
    ]:
        assert f"  {name:<14}  {value}" in text.splitlines()


def test_extended_adds_settings_and_sparks_plans() -> None:
    """Every option with its value, and Spark's plan of each input as Spark prints it."""
    plan = make_plan(Settings(checkpoint_interval_ms=2_000))
    brief, extended = plan.explain(), plan.explain(extended=True)

    assert set(brief.splitlines()) - {""} <= set(extended.splitlines())
    assert "keyed state" in extended and "keyed state" not in brief
    rest = extended[extended.index("== Settings ==") - 1 :]
    for option in OPTIONS:
        assert f"\n  {option.name} " in rest
    assert "== Spark's plan of history ==\n== Physical Plan ==\nScan history" in rest
    assert [line.split() for line in rest.splitlines() if "execution.checkpointing.interval " in line] == [
        ["execution.checkpointing.interval", "2", "s"]
    ]


def test_a_plan_in_a_cell_has_all_of_it_folded() -> None:
    """A notebook shows the facts and why there is each phase; the rest opens, and what users wrote stays text."""
    html = make_plan(name="<b>")._repr_html_()

    assert "plan: &lt;b&gt;" in html and "<b>plan" in html
    assert "keyed state" in html.split("<details>")[1] and "keyed state" not in html.split("<details>")[0]


def test_a_dry_run_in_a_cell_has_the_plan_and_the_rows() -> None:
    """A notebook shows the facts of the plan, how many rows there are, and a table of them."""
    schema = StructType().add("k", "string").add("n", "long")
    html = DryRun(make_plan(), [Row(k="<a>", n=None)], schema, sampled_rows=5, result_rows=2)._repr_html_()

    assert "plan: " in html and "1 of 2 rows of the result for the first 5 rows" in html
    assert ">&lt;a&gt;</td>" in html and ">NULL</td>" in html and ">n</th>" in html


def test_a_plan_prints_as_its_explain_text() -> None:
    """``print(plan)`` is enough."""
    plan = make_plan(name=None, checkpoint_location=None, event_time=None)

    assert str(plan) == plan.explain()
    assert "== mixedmode plan ==" in str(plan)
    assert "a temporary folder" in str(plan)


def test_explain_reads_as_people_write() -> None:
    """No list brackets, no column as PySpark prints it, nothing twice; a trigger of 0 seconds says what it does."""
    operator = {
        "operator": "agg",
        "uid": "spent",
        "key": ["key string", "window struct<start:timestamp,end:timestamp>"],
        "aggregates": ["spent", "orders"],
        "output mode": "append",
        "windows": ["Column<'window(ts, '7 days', '7 days', '0 second')'>"],
    }
    trigger = {"processingTime": "0 seconds"}
    text = make_plan(stages=stage(operator), trigger=trigger, watermark_delay_ms=0).explain()
    for line in (
        "  watermark       greatest ts seen",
        "  keyed stage     agg by key string, window struct<start:timestamp,end:timestamp>, uid spent",
        "  aggregates      spent, orders",
        "  windows         window(ts, '7 days', '7 days', '0 second')",
        "  trigger         processingTime = 0 seconds: a micro-batch as soon as the one before is done",
        "Phase 1 of 3: backlog (reads history + live)",
        "Phase 2 of 3: switch",
    ):
        assert line in text.splitlines(), text
    assert "Column<" not in text and "output mode" not in text
    of_all = make_plan(stages=stage({"operator": "agg", "uid": "spent", "key": []})).explain()
    assert "  keyed stage     agg by nothing: one group, uid spent" in of_all


def stage(operator: dict[str, Any]) -> tuple[StagePlan, ...]:
    return (StagePlan(uid=operator["uid"], is_named=True, operator=operator, reads=("history", "live")),)


def test_explain_draws_the_graph_of_several_stages() -> None:
    """What leads where, each stage under its id, and which of them have no name of their own."""
    hourly = StagePlan(uid="hourly", is_named=True, operator={"operator": "agg", "uid": "hourly"}, reads=("live",))
    daily = StagePlan(uid="keyed-1", is_named=False, operator={"operator": "agg", "uid": "keyed-1"}, reads=("hourly",))
    plan = make_plan(stages=(hourly, daily))
    lines = [" ".join(line.split()) for line in plan.explain().splitlines()]
    at = lines.index("graph live -> [hourly]")
    assert lines[at + 1 : at + 3] == ["[hourly] -> [keyed-1]", "[keyed-1] -> parquet"]
    assert plan.warnings[-1].startswith("1 of 2 keyed stages have no name of their own (keyed-1): set .uid(")
