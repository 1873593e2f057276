"""The cut of a checkpoint: every task takes part, the gateways of coordinators close, and the job's state is frozen."""

from __future__ import annotations

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId
from ...checkpoints.metadata import SparkPosition
from ...protocols.lifecycle.job import JobLifecycle
from ...support.failpoints import failpoint
from ...support.ids import CheckpointId
from ..coordinators.task_graph import stage_task
from ..state.job_state import CheckpointCause, CheckpointSnapshot, JobState
from .async_checkpoint import CheckpointServices


class Declined(CheckpointError):
    """A task does not take part in a checkpoint."""


def take_part(lifecycle: JobLifecycle, number: CheckpointId) -> None:
    """Have every task take part in a checkpoint.

    Raises:
        Declined: a task has work to do first.
    """
    if not lifecycle.checkpointing:
        return
    if not lifecycle.is_under_way(number):
        lifecycle.trigger(number)
    if not lifecycle.is_taken(number):
        raise Declined(f"not all tasks have taken part in checkpoint {number}: they have work to do first")


def frozen_state(
    services: CheckpointServices,
    state: JobState,
    lifecycle: JobLifecycle,
    number: CheckpointId,
    cause: CheckpointCause,
) -> CheckpointSnapshot:
    """Freeze what a checkpoint holds.

    Args:
        services: whom its completion asks.
        state: the job's.
        lifecycle: of the job's tasks, which have taken part.
        number: the checkpoint's id.
        cause: why it is taken.
    """
    job, position = services.job, _position(services, state)
    events = services.events.begin(number)
    failpoint("events-buffering")
    finished = lifecycle.finished
    return CheckpointSnapshot.of(
        state,
        number,
        cause,
        finished_shards={
            uid: {ShardId(task.index) for task in finished if task.vertex == stage_task(uid)} for uid in state.stages
        },
        events=events,
        position=position,
        form=job.staged_form,
        merges_epochs=job.sink.merges_epochs,
        branch=services.store.branch.number,
    )


def _position(services: CheckpointServices, state: JobState) -> SparkPosition | None:
    """Spark's position behind the last micro-batch; None: there was none.

    Read before the next micro-batch: Spark removes entries of its log with ones to come, and may keep only one.
    """
    known, batch_id = state.spark, state.batch_id
    if batch_id < 0 or (known is not None and known.batch_id == batch_id):
        return known
    return services.store.spark_log.position(batch_id)
