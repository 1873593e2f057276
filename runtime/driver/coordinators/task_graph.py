"""The tasks of a job as its lifecycle sees them, and what a checkpoint says of those that had finished."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from ...checkpoints.metadata import CheckpointMetadata
from ...protocols.lifecycle.finished_state import Finished, check_finished, of_subtasks
from ...protocols.lifecycle.graph import Edge, JobGraph, Vertex
from ...protocols.lifecycle.job import JobLifecycle
from ...spec import JobSpec
from ..state.job_state import JobState

SINK = "sink"


def source_task(name: str) -> str:
    """Name of a source's vertex."""
    return f"source {name}"


def stage_task(uid: str) -> str:
    """Name of a keyed stage's vertex."""
    return f"stage {uid}"


def job_graph(job: JobSpec, shards: Mapping[str, int]) -> JobGraph:
    """The tasks of a job and the channels between them.

    Args:
        job: the job.
        shards: how many shards each of its stages has.
    """
    edges = []
    for stage in job.stages:
        before = [source_task(name) for name in job.sources_of(stage)]
        before += [stage_task(edge.origin) for edge in stage.edges]
        edges += [Edge(name, stage_task(stage.uid)) for name in dict.fromkeys(before)]
    handing_on = {edge.source for edge in edges}
    last = [stage_task(stage.uid) for stage in job.stages if stage_task(stage.uid) not in handing_on]
    return JobGraph(
        (
            *(Vertex(source_task(name), 1) for name in job.sources),
            *(Vertex(stage_task(stage.uid), shards[stage.uid]) for stage in job.stages),
            Vertex(SINK, 1),
        ),
        (*edges, *(Edge(name, SINK) for name in last)),
    )


def lifecycle_of(job: JobSpec, state: JobState) -> JobLifecycle:
    """The tasks of a run; what had finished in the checkpoint is not run again."""
    graph = job_graph(job, state.parallelism)
    done = {source_task(name) for name, source in state.sources.items() if source.finished}
    done |= {stage_task(uid) for uid, stage in state.stages.items() if stage.finished}
    return JobLifecycle(
        graph,
        clock_ms=lambda: round(time.time() * 1000),
        checkpointing=job.keeps_state,  # batch mode commits once, when the tasks have ended
        finished=[task for vertex in graph.vertices if vertex.name in done for task in vertex.tasks],
        journal_guard=threading.Lock(),  # users look at query.lifecycle while the job runs
    )


def finished_in(metadata: CheckpointMetadata) -> dict[str, Finished]:
    """How far the tasks of a checkpoint had finished."""
    found = {source_task(name): of_subtasks([source.finished]) for name, source in metadata.sources.items()}
    for operator in metadata.operators:
        flags = [shard.finished for shard in operator.shards] or [operator.finished]
        found[stage_task(operator.uid)] = of_subtasks(flags)
    found[SINK] = of_subtasks([metadata.kind == "completion"])
    return found


def check_finished_tasks(job: JobSpec, shards: Mapping[str, int], metadata: CheckpointMetadata, location: str) -> None:
    """Check that nothing that still runs feeds a task that had finished.

    Args:
        job: the job.
        shards: how many shards each of its stages has.
        metadata: the checkpoint that it goes on from.
        location: where that is.

    Raises:
        CheckpointMismatchError: the job has changed in such a way.
    """
    where = f"checkpoint {metadata.checkpoint_id} in {location!r}"
    check_finished(job_graph(job, shards), finished_in(metadata), where)
