"""A checkpoint that holds nothing yet, for a job that has read nothing, or whose state stands for what it has read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from ..checkpoints.metadata import CheckpointMetadata, SourceState
from ..checkpoints.state_layout import empty_stage
from ..connectors.transaction import SinkTransaction
from ..driver.recovery.initial_state import fresh_watermark
from ..spec import JobSpec
from ..support.ids import NO_EPOCH, CheckpointId, JobId
from .history_pass import TRIGGER


def fresh_checkpoint(job: JobSpec, event_times_ms: Mapping[str, int], *, reads_history: bool) -> CheckpointMetadata:
    """A checkpoint without state.

    Args:
        job: the job.
        event_times_ms: by live input how far event time has come.
        reads_history: whether the job has its history before it; False: the state stands for it.
    """
    operators, first = [], None
    for stage in job.stages:
        stored = empty_stage(job, stage.operator)
        if stage.reads_sources:
            tracker = fresh_watermark(job, stage)
            tracker.observe({name: event_times_ms.get(name) for name in tracker.inputs})
            at_ms = tracker.would_reach(None)
            times = {name: one.max_event_time_ms for name, one in tracker.inputs.items()}
            update = {"watermark_ms": at_ms, "fired_watermark_ms": at_ms, "max_event_times_ms": times}
            stored = stored.model_copy(update=update)
            first = first or (at_ms, tracker.max_event_time_ms)
        operators.append(stored)
    assert first is not None, "a job reads something"
    sources = {name: SourceState(is_backlog=True) for name in job.sources}
    if job.has_history and not reads_history:
        sources["history"] = SourceState(is_backlog=False, finished=True)
    return CheckpointMetadata(
        checkpoint_id=CheckpointId(1),
        trigger=TRIGGER,
        job_id=JobId(uuid.uuid4().hex),
        timestamp_ms=round(time.time() * 1000),
        epoch=NO_EPOCH,
        watermark_ms=first[0],
        fired_watermark_ms=first[0],
        max_event_time_ms=first[1],
        sources=sources,
        operators=tuple(operators),
        transaction=SinkTransaction(id=1),
    )
