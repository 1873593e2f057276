"""The rows of a job's one stage in Real-Time Mode, and why they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...jobs.executor import sort_plan
from ...jobs.realtime.live_rows import LiveRows, NotLiveRows
from ...operators.contract import EpochSpec
from ...protocols.event_time import MIN_WATERMARK
from ...support.ids import NO_EPOCH
from ..epochs.source_rows import SourceRows

if TYPE_CHECKING:
    from ...spec import JobSpec

#: A live epoch in which rows can be late: what is planned for it is planned for all.
_ANY_EPOCH = EpochSpec(
    epoch=NO_EPOCH,
    style="random",
    watermark_ms=0,
    firing_watermark_ms=MIN_WATERMARK,
    late_watermark_ms=0,
    processing_time_ms=0,
    processing_timers_upto_ms=MIN_WATERMARK,
)


def live_rows(job: JobSpec, max_parallelism: int) -> LiveRows:
    """The rows of the stage.

    Args:
        job: the job.
        max_parallelism: number of key groups.

    Raises:
        NotLiveRows: they cannot come in Real-Time Mode.
    """
    why = _job_refusal(job)
    if job.live is None or why is not None:
        raise NotLiveRows(why or "it has no live source")
    (stage,) = job.stages
    frame = SourceRows().with_live(job, job.live).of(stage)
    assert frame is not None, "the stage reads the live source"
    sort = sort_plan(stage.operator, job.settings, _ANY_EPOCH)
    return LiveRows.of(stage.operator, frame, _ANY_EPOCH, max_parallelism, sort, lambda: job.planning)


def why_not_rows(job: JobSpec) -> str | None:
    """Why the rows of a job cannot come in Real-Time Mode, in words; None: they can."""
    try:
        live_rows(job, job.settings.max_parallelism)
    except NotLiveRows as error:
        return str(error)
    return None


def _job_refusal(job: JobSpec) -> str | None:
    """Why a job has no live phase in Real-Time Mode, whatever its stage and its source; None: nothing is in the way."""
    if len(job.stages) != 1:
        return f"it has {len(job.stages)} keyed stages, and Real-Time Mode runs one"
    if len(job.live_inputs) != 1:
        return f"it has {len(job.live_inputs)} live inputs, and Real-Time Mode reads one"
    if job.late_rows is not None:
        return "late rows are kept apart (pipeline.late-data.path)"
    if job.observed:
        return "it has observed metrics"
    return None
