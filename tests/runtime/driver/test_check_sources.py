"""A job goes on from a checkpoint only with the sources that it was taken with, stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from graph_kinds import Buckets
from graph_support import Job, Stage
from mixedmode.errors import CheckpointMismatchError
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata, OperatorState, SourceState
from mixedmode.runtime.connectors.sources.live_inputs import LiveInput
from mixedmode.runtime.driver.recovery.initial_state import fresh_state
from mixedmode.runtime.driver.recovery.recovery import check_sources
from mixedmode.runtime.driver.state.stage_state import StageCut
from mixedmode.runtime.spec import JobSpec

STORE: Any = SimpleNamespace(location="/ck")
Reads = dict[str, tuple[str, ...]]
Check = Callable[..., None]

#: By stage the live inputs that it reads; b takes rows of a only.
A_AND_C: Reads = {"a": ("clicks",), "b": (), "c": ("views",)}


def spec_of(folder: Path, reads: Reads, live: tuple[str, ...]) -> JobSpec:
    job = Job(folder, [Stage("a", Buckets(5)), Stage("b", Buckets(5), ("a",)), Stage("c", Buckets(5), ("", "b"))])
    job.close()
    stages = tuple(replace(one, delays_ms=dict.fromkeys(reads[one.uid], 0)) for one in job.spec.stages)
    return replace(job.spec, stages=stages, live_inputs=tuple(LiveInput(name) for name in live))


@pytest.fixture
def check(tmp_path: Path, make_metadata: Callable[..., CheckpointMetadata]) -> Check:
    """Whether a job goes on that has read, and reads, these live inputs by stage."""

    def checked(
        had: Reads,
        has: Reads,
        live: tuple[str, ...] = ("clicks", "views"),
        change: Callable[[OperatorState], OperatorState] = lambda one: one,
    ) -> None:
        (tmp_path / "had").mkdir()
        (tmp_path / "has").mkdir()
        before, now = spec_of(tmp_path / "had", had, live), spec_of(tmp_path / "has", has, live)
        fresh = fresh_state(before, "job", 16, 2).stages.values()
        operators = tuple(change(StageCut.of(one, (), None).to_metadata(with_state=False)) for one in fresh)
        sources = {name: SourceState(is_backlog=False) for name in live}
        check_sources(now, make_metadata(operators=operators, sources=sources), STORE)

    return checked


@pytest.mark.parametrize(
    ("has", "named"),
    [
        (
            {"a": ("views",), "b": (), "c": ("clicks",)},
            "stage 'a' reads live inputs views, .* reads live inputs clicks:",
        ),
        ({"a": ("clicks",), "b": (), "c": ("views", "clicks")}, "stage 'c' reads live inputs clicks, views, .* views:"),
        ({"a": ("clicks", "views"), "b": (), "c": ()}, "stage 'a' reads live inputs clicks, views, .* clicks:"),
        ({"a": ("clicks",), "b": (), "c": ()}, "stage 'c' reads no live input, .* reads live inputs views:"),
    ],
    ids=["exchanged", "one more", "moved", "one less"],
)
def test_a_stage_keeps_its_live_inputs(check: Check, has: Reads, named: str) -> None:
    """A stage would forget how far the event times of its inputs had come."""
    with pytest.raises(CheckpointMismatchError, match=f"^{named}"):
        check(A_AND_C, has)


def test_the_same_inputs_go_on(check: Check) -> None:
    """In whatever order the stage has them, and beside a stage whose rows it takes."""
    check({**A_AND_C, "a": ("clicks", "views")}, {**A_AND_C, "a": ("views", "clicks")})


def test_a_history_is_no_live_input(check: Check) -> None:
    """A stage of a history alone goes on beside others whose live input is called as its own event times are."""
    reads: Reads = {"a": (), "b": (), "c": ("live", "views")}
    check(reads, reads, ("live", "views"))


def test_an_input_may_be_called_like_a_stage(check: Check) -> None:
    """The rows that a stage takes of another are not those of a live input of that name."""
    reads: Reads = {"a": ("clicks",), "b": (), "c": ("clicks",)}
    check(reads, reads, ("clicks", "b"))


def test_what_does_not_tell_inputs_goes_on(check: Check) -> None:
    """Checkpoints of versions that did not store event times by stage, and of before a stage was there."""
    exchanged: Reads = {"a": ("views",), "b": (), "c": ("clicks",)}
    check(A_AND_C, exchanged, change=lambda one: one.model_copy(update={"max_event_times_ms": None}))


def test_one_live_input_is_not_asked_for(check: Check) -> None:
    """It cannot be exchanged, and was once not called by its name."""
    reads: Reads = {"a": ("clicks",), "b": (), "c": ("clicks",)}
    check(reads, reads, ("clicks",), lambda one: one.model_copy(update={"max_event_times_ms": {"live": 5}}))
