"""Names what a run is waiting for, a function or tasks of Spark's, when ``stop()`` has timed out."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable

from ...catalyst.spark_cluster import RunningStage, running_stages
from ...jvm.user_frames import UserFrames, is_ours
from ...spec import JobSpec
from .run_context import RunContext

#: More shards than these are not named.
_MOST_SHARDS = 8


def what_hangs(job: JobSpec, context: RunContext, threads: Iterable[int | None]) -> str:
    """What has not returned, in words.

    Args:
        job: the job.
        context: of its run.
        threads: those that may be in a user's function, by their ids.
    """
    stages = running_stages(job.spark, context.tag, context.tag_of_all)
    said = [*_functions(job, threads), *dict.fromkeys(_of_tasks(job, stage) for stage in stages)]
    if said:
        return "; ".join(said)
    phase = context.published.now.phase
    return f"phase {phase.kind if phase is not None else 'recovery'}, in which neither user code nor a Spark task runs"


def _functions(job: JobSpec, threads: Iterable[int | None]) -> list[str]:
    """User code that the driver has called, by where its threads are."""
    frames = sys._current_frames()
    places = []
    for thread in dict.fromkeys(one for one in threads if one in frames):
        calls = traceback.extract_stack(frames[thread])
        own = UserFrames(tuple(call for call in calls if not is_ours(call.filename)))
        if own.place_of_user is not None:
            places += own.place_text
    called = job.sink.call_in_hand
    if called is not None:
        return [f"{called} ({places[0]})" if places else called]
    return places


def _of_tasks(job: JobSpec, running: RunningStage) -> str:
    shards = ", ".join(map(str, running.tasks[:_MOST_SHARDS])) + (", …" if len(running.tasks) > _MOST_SHARDS else "")
    # Where there is one stage, its jobs do not name it; those of a user's function are not ours.
    ours = running.job.startswith(f"{job.name or 'mixedmode'}: ")
    found = [stage for stage in job.stages if ours and running.job.endswith(f"stage {stage.uid}")]
    found = found or (list(job.stages) if ours and len(job.stages) == 1 else [])
    what = f"Spark's job {running.job!r}, shard {shards}"
    if not found:
        return what
    operator = getattr(found[0].operator, "spoken", None) or found[0].operator.describe().get("operator", "operator")
    return f"{operator} of stage {found[0].uid!r}, shard {shards} (Spark's job {running.job!r})"
