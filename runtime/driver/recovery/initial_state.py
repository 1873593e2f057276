"""Creates a job's state before its first epoch: at the beginning of time, or at a checkpoint."""

from __future__ import annotations

from ...checkpoints.metadata import CheckpointMetadata
from ...protocols.watermarks import WatermarkTracker
from ...spec import JobSpec, StageSpec
from ...support.ids import JobId
from ..epochs.stage_runs import fired_upstream
from ..state.job_state import JobState
from ..state.stage_state import StageState


def fresh_state(job: JobSpec, job_id: JobId, max_parallelism: int, parallelism: int) -> JobState:
    """A job that has processed nothing.

    Args:
        job: the job.
        job_id: its id.
        max_parallelism: number of key groups.
        parallelism: number of shards of each stage.
    """
    stages = [
        StageState.fresh(stage.operator, max_parallelism, parallelism, fresh_watermark(job, stage))
        for stage in job.stages
    ]
    return JobState.fresh(job_id, stages, job.sources)


def restored_state(job: JobSpec, metadata: CheckpointMetadata, parallelism: int | None) -> JobState:
    """What a checkpoint holds of a job.

    Args:
        job: the job.
        metadata: the checkpoint.
        parallelism: number of shards of each stage; None: as many as they have.

    Raises:
        CheckpointMismatchError: the checkpoint lacks a stage.
    """
    restored = [
        StageState.restored(metadata, stage.operator, parallelism, fresh_watermark(job, stage)) for stage in job.stages
    ]
    state = JobState.restored(metadata, restored)
    for stage, held in zip(job.stages, restored, strict=True):
        if stage.reads_sources:
            held.restore_inputs(metadata)
        if stage.edges:
            held.follow(fired_upstream(stage, {}, state.stages), metadata)
    return state


def fresh_watermark(job: JobSpec, stage: StageSpec) -> WatermarkTracker:
    """A stage's watermark at the beginning of time: by the sources, or by the stages before it."""
    delays_ms = dict(stage.delays_ms)
    for edge in stage.leading_edges:
        delays_ms[edge.origin] = max(edge.delay_ms, delays_ms.get(edge.origin, 0))
    if not stage.reads_sources:
        return WatermarkTracker(0, delays_ms=delays_ms)
    return WatermarkTracker(
        stage.watermark_delay_ms,
        job.settings.watermark_lag_threshold_ms,
        delays_ms or None,
        job.settings.watermark_interval_ms,
        job.settings.watermark_idle_timeout_ms,
    )
