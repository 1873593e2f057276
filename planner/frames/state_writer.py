"""``mixedmode.state_writer``: state that is built or changed offline, for a job as it is described."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from ...errors import OptionError
from ...runtime.checkpoints.savepoints.store import open_savepoint
from ...runtime.offline.state_writer import StateWriter
from ...runtime.storage.filesystem import path_text
from .writer import MixedStreamWriter


def state_writer(
    job: MixedStreamWriter | None = None,
    *,
    savepoint: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> StateWriter:
    """Returns a writer of savepoints: the first state of a job, or another savepoint with changes.

        writer = mixedmode.state_writer(savepoint="sp/7")
        writer.state("total", corrected).remove_keys(forgotten).write("sp/8")

        mixedmode.state_writer(frame.writeStream).state("total", totals).write("savepoints/first")

    Args:
        job: the writer of the job, as for ``start()``.  The state is checked against it: stages, variables, key,
            ``pipeline.max-parallelism``.  The job is not started.
        savepoint: the savepoint to change, which itself does not change; None: the new one holds only what is set.
        spark: the session; None: that of the job, or the active one.

    Raises:
        OptionError: both are missing, or ``pipeline.max-parallelism`` is not that of the savepoint.
        CheckpointError: there is no savepoint at that path, or it is not for the job.
        PlanError: the job cannot be planned as described, or has no state.
    """
    if job is not None and not isinstance(job, MixedStreamWriter):
        raise OptionError(
            f"state_writer() got a {type(job).__name__} as its job; give what writeStream has led to, and leave out its"
            " start()"
        )
    if job is None and savepoint is None:
        raise OptionError("state_writer() needs a job, for a new savepoint, or savepoint=…, to change one, or both")
    store = None if savepoint is None else open_savepoint(path_text("savepoint of state_writer()", savepoint))
    return StateWriter(None if job is None else job.described(), store, spark)
