"""Finished flags in a checkpoint's metadata, and what they mean for the job that goes on from it (M1, V1, R1)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import CheckpointMismatchError
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata, OperatorState, ShardState, SourceState
from mixedmode.runtime.driver.coordinators.task_graph import check_finished_tasks, finished_in, job_graph, lifecycle_of
from mixedmode.runtime.protocols.lifecycle.finished_state import Finished
from mixedmode.runtime.protocols.lifecycle.graph import TaskId
from mixedmode.runtime.protocols.lifecycle.job import TaskWork
from mixedmode.state.keys.keygroups import shard_ranges
from mixedmode.state.store.state_manifest import StateManifest

UID = "stage"
Make = Callable[..., CheckpointMetadata]


def operator(*finished: bool, whole: bool = False) -> OperatorState:
    """A keyed stage some of whose shards have finished."""
    ranges = shard_ranges(len(finished), 128) if finished else []
    shards = [
        ShardState(lineage=StateManifest(groups, ()).to_json(), finished=done)
        for groups, done in zip(ranges, finished, strict=True)
    ]
    return OperatorState(uid=UID, finished=whole, max_parallelism=128, registry=[], shards=tuple(shards))


def sources(**finished: bool) -> dict[str, SourceState]:
    return {name: SourceState(is_backlog=False, finished=done) for name, done in finished.items()}


def job(*live: str, history: bool = True, keeps_state: bool = True) -> Any:
    """What a job's tasks are made of."""
    names = (*(("history",) if history else ()), *live)
    return SimpleNamespace(
        stages=(SimpleNamespace(uid=UID, edges=()),),
        sources=names,
        sources_of=lambda stage: names,
        keeps_state=keeps_state,
    )


def state(shards: int, *, ended: bool = False, **finished: bool) -> Any:
    stages = {UID: SimpleNamespace(finished=ended)}
    return SimpleNamespace(parallelism={UID: shards}, sources=sources(**finished), stages=stages)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (operator(False, False), Finished.NOT),
        (operator(True, False, True), Finished.PARTLY),
        (operator(True, True, whole=True), Finished.FULLY),
        (operator(whole=True), Finished.FULLY),
    ],
)
def test_finished_flags_survive(make_metadata: Make, stored: OperatorState, expected: Finished) -> None:
    """M1: finished operators and single finished shards are after a round trip what they were."""
    written = make_metadata(operators=(stored,), sources=sources(history=True, live=False))
    read = CheckpointMetadata.from_bytes(written.to_bytes(), "here")
    assert [shard.finished for shard in read.operators[0].shards] == [shard.finished for shard in stored.shards]
    assert finished_in(read) == {
        "source history": Finished.FULLY,
        "source live": Finished.NOT,
        "stage stage": expected,
        "sink": Finished.NOT,
    }


def test_completed_job_has_finished_everywhere(make_metadata: Make) -> None:
    """M1: the last checkpoint of a job that has ended says so of its sink too."""
    metadata = make_metadata(kind="completion", operators=(operator(True),), sources=sources(history=True))
    assert set(finished_in(metadata).values()) == {Finished.FULLY}
    check_finished_tasks(job(), {UID: 1}, metadata, "here")


def test_new_source_before_a_finished_stage(make_metadata: Make) -> None:
    """V1: a source that still runs may not feed shards that have finished, whatever their number now."""
    metadata = make_metadata(operators=(operator(True, False),), sources=sources(history=True))
    check_finished_tasks(job(), {UID: 3}, metadata, "here")
    with pytest.raises(CheckpointMismatchError, match=r"'stage stage' is partly finished .*'source new'"):
        check_finished_tasks(job("new"), {UID: 2}, metadata, "here")


def test_finished_source_is_restored_as_finished() -> None:
    """R1, R2: the task of a source that had finished only passes on that it has; the others run."""
    lifecycle = lifecycle_of(job("live"), state(2, history=True, live=False))
    assert lifecycle.finished == {TaskId("source history", 0)}
    assert lifecycle.waiting_sources == {"source history"}
    assert lifecycle.next() is None


def test_a_finished_stage_is_restored_as_finished() -> None:
    """R2: a stage whose sources had all ended is not fired or finished again."""
    for ended in (True, False):
        lifecycle = lifecycle_of(job(), state(2, ended=ended, history=True))
        work = lifecycle.next()
        assert (isinstance(work, TaskWork) and work.vertex == "stage stage") is not ended


def test_source_that_is_left_out(make_metadata: Make) -> None:
    """A finished history that the restored job does not name any more is no task of it."""
    graph = job_graph(job("live", history=False), {UID: 2})
    assert [vertex.name for vertex in graph.vertices] == ["source live", "stage stage", "sink"]
    metadata = make_metadata(operators=(operator(False),), sources=sources(history=True, live=False))
    check_finished_tasks(job("live", history=False), {UID: 1}, metadata, "here")


def test_batch_mode_waits_for_no_checkpoint() -> None:
    """F6: the tasks of a job that keeps no state end without checkpoints."""
    assert not lifecycle_of(job(keeps_state=False), state(1)).checkpointing
