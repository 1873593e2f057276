"""What a checkpoint costs the driver in the lifecycle of the job's tasks, by stages and shards.  No Spark."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median
from typing import Any

from mixedmode.runtime.protocols.lifecycle.graph import Edge, JobGraph, Vertex
from mixedmode.runtime.protocols.lifecycle.job import JobLifecycle
from mixedmode.runtime.protocols.lifecycle.work import TaskWorker

STAGES = (1, 3)
SHARDS = (8, 128, 512)
#: Checkpoints before the clock counts: the journal then holds as many as it keeps.
WARM_UP = 6


def test_lifecycle(benchmark: Any, bench: Any) -> None:
    """CPU of the driver's thread from the trigger of a checkpoint until all tasks know that it is complete."""
    checkpoints = bench.sizes.lifecycle_checkpoints
    title = "Lifecycle of the tasks: the driver's CPU for a checkpoint"
    begun = bench.begin("lifecycle", title, stages=STAGES, shards=SHARDS, checkpoints=checkpoints)
    seconds: dict[str, list[float]] = {}

    def all_jobs() -> None:
        for stages in STAGES:
            for shards in SHARDS:
                seconds[_way(stages, shards)] = cpu_s_of_checkpoints(stages, shards, checkpoints)

    benchmark.pedantic(all_jobs, rounds=1)
    middle = {way: median(each) for way, each in seconds.items()}
    growth = {stages: middle[_way(stages, SHARDS[-1])] / middle[_way(stages, SHARDS[0])] for stages in STAGES}
    bench.record(
        begun,
        seconds=seconds,
        findings={
            "lifecycle-checkpoint": middle[_way(STAGES[-1], SHARDS[-1])] * 1e6,
            "lifecycle-growth": max(growth.values()) / (SHARDS[-1] / SHARDS[0]),
        },
        notes=tuple(
            f"{_name(stages)}: {', '.join(f'{middle[_way(stages, shards)] * 1e6:,.0f}' for shards in SHARDS)} µs"
            f" with {', '.join(map(str, SHARDS))} shards each: x {growth[stages]:.1f} for x {SHARDS[-1] // SHARDS[0]}"
            for stages in STAGES
        ),
    )


def cpu_s_of_checkpoints(stages: int, shards: int, checkpoints: int) -> list[float]:
    """CPU time of each of some checkpoints of a running job, as the driver takes them."""
    names = ["source", *(f"stage {number}" for number in range(stages)), "sink"]
    widths = [1, *[shards] * stages, 1]
    graph = JobGraph(
        tuple(Vertex(name, width) for name, width in zip(names, widths, strict=True)),
        tuple(Edge(before, after) for before, after in pairwise(names)),
    )
    tasks = TaskWorker(JobLifecycle(graph, clock_ms=lambda: round(time.time() * 1000)))
    spent = []
    for number in range(1, WARM_UP + checkpoints + 1):
        began = time.thread_time()
        take_checkpoint(tasks, number)
        spent.append(time.thread_time() - began)
    return spent[WARM_UP:]


def take_checkpoint(tasks: TaskWorker, number: int) -> None:
    """All that the driver asks and tells the lifecycle in a checkpoint."""
    lifecycle = tasks.lifecycle
    lifecycle.trigger(number)
    assert lifecycle.is_taken(number)
    assert not lifecycle.finished
    lifecycle.completed(number)
    assert [commit.up_to for commit in tasks.commits()] == [number]
    tasks.run()


def _name(stages: int) -> str:
    return f"{stages} stage{'' if stages == 1 else 's'}"


def _way(stages: int, shards: int) -> str:
    return f"{_name(stages)} of {shards} shards, CPU time"
