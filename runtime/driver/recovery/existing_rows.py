"""Rows that an output holds when a job begins: refused, taken, or to be replaced by the job's first commit.

A job that is started with a new ``checkpointLocation`` processes its whole history again.  If its output still holds
what it wrote before, readers would find every row twice.
"""

from __future__ import annotations

import json
import logging

from ....errors import OptionError
from ...checkpoints.identity import FOUND_BY_STATE, JobIdentity
from ...checkpoints.store import CheckpointStore
from ...connectors.sinks.output_writers import OutputWriters, Replacement, WritingJob
from ...jvm.spark_errors import spark_says
from ...spark_io.spark_sources import sources
from ...spec import JobSpec
from ...storage.filesystem import absolute, resolve
from ...storage.spark_paths import UNREACHABLE
from ...support.ids import NO_JOB
from ...support.redaction import redacted

logger = logging.getLogger(__name__)

#: The option that decides.
OPTION = "execution.sink.existing"
#: Options of sources that say what is read, by lower case; folders are asked for apart.
_SUBJECTS = ("subscribe", "subscribepattern", "assign", "dbtable", "table", "topic")


def check_existing_rows(job: JobSpec) -> None:
    """Look at the output of a job that is about to begin, and has no checkpoint.

    Raises:
        OptionError: it holds rows that this job has written under another ``checkpointLocation``.
    """
    location = job.checkpoint_location
    if job.settings.sink_existing != "auto" or job.settings.savepoint_path is not None or location is None:
        return
    store = CheckpointStore(*resolve(location))
    try:
        writers = job.sink.writers(job.spark)
        if writers is not None and job.sink.has_rows(job.spark):
            _check(job, store, writers)
    except (*UNREACHABLE, OSError) as error:
        logger.warning("who has written to the output cannot be told yet: %s", spark_says(error))


def _check(job: JobSpec, store: CheckpointStore, writers: OutputWriters) -> None:
    known = store.identity()
    stages = tuple(json.loads(json.dumps([stage.operator.describe() for stage in job.stages], default=str)))
    me = writing_job(job, JobIdentity(NO_JOB, stages, job.settings.max_parallelism, job.name))
    others = writers.others(None if known is None else known.job_id)
    same = next((other for other in others if is_same_job(me, other)), None)
    output = job.sink.path
    if same is not None:
        raise OptionError(
            f"path = {output!r} holds rows of this job, and checkpointLocation is new\n"
            f"It wrote them under checkpointLocation {same.checkpoint_location!r}. Now it would write its whole history"
            " again, and readers would find its rows twice. To go on, use that checkpointLocation. To begin anew, set"
            f" {OPTION} = replace (the first commit removes the old rows), or give another path. To have both, set"
            f" {OPTION} = append",
            code="MIXEDMODE_OUTPUT_EXISTS",
        )
    if others or known is None:
        whose = ", ".join(sorted({repr(other.name or other.job_id) for other in others}))
        logger.warning(
            "query %s appends to path = %r, which holds rows %s; to replace them, set %s = replace",
            job.name or "without a name",
            output,
            f"of other jobs ({whose})" if whose else "of others",
            OPTION,
        )


def prepare_output(job: JobSpec, store: CheckpointStore, identity: JobIdentity) -> None:
    """Tell the sink, before it is opened, who writes, and whether its first commit removes the rows of before."""
    sink = job.sink
    if job.checkpoint_location is None:
        return
    if sink.writer is None:
        sink.writer = writing_job(job, identity)
    if not sink.can_replace:
        return
    sink.replacement = Replacement(store.filesystem, f"{store.root}/replaces-existing")
    if not store.known_ids():
        store.guard()
        sink.replacement.begin(replaces=job.settings.sink_existing == "replace")


def writing_job(job: JobSpec, identity: JobIdentity) -> WritingJob:
    """The job as its output remembers it."""
    assert job.checkpoint_location is not None, "without one the output is gone with the query"
    return WritingJob(
        identity.job_id, job.name, identity.stages, _subjects(job), redacted(absolute(job.checkpoint_location))
    )


def is_same_job(one: WritingJob, other: WritingJob) -> bool:
    """Whether two writers are one job: equal names and stages, and without a name a source that both read."""
    if one.name != other.name:
        return False
    if JobIdentity(NO_JOB, one.stages, 0).differences(other.stages, FOUND_BY_STATE):
        return False
    return one.name is not None or not one.sources or not other.sources or bool({*one.sources} & {*other.sources})


def _subjects(job: JobSpec) -> tuple[str, ...]:
    """What the job reads, in words that are the same each time: folders, topics, tables."""
    frames = [job.live, *(lane.history for lane in job.lanes)]
    found = []
    for source in (source for frame in frames if frame is not None for source in sources(frame)):
        named = [value for name, value in source.options.items() if name in _SUBJECTS]
        found += [redacted(text) for text in (*source.folders, *named) or (source.name,)]
    return tuple(dict.fromkeys(found))
