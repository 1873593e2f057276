"""A job's history through its stages, for the state alone: no live source is asked, no output is shown.

What runs is the backlog phase of the driver itself, on a location of its own, so that a job which begins with this
state stands where it would stand behind that history.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace

from ...errors import PlanError
from ..checkpoints.branch import Branch
from ..checkpoints.lease.driver_lease import DriverLease
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.savepoints.queue import SavepointQueue
from ..checkpoints.store import CheckpointStore
from ..connectors.sinks.per_epoch import NoopSink
from ..connectors.staging_folder import StagingFolder
from ..driver.recovery.initial_state import fresh_state
from ..driver.recovery.recovery import RecoveredRun
from ..driver.requests.commit_queue import CommitQueue
from ..driver.requests.pause_switch import PauseSwitch
from ..driver.run.live_start import LiveStart
from ..driver.run.phases import PHASES
from ..driver.run.run_context import RunContext
from ..driver.run.run_snapshot import Published
from ..driver.run.running_job import RunningJob
from ..driver.run.shutdown import Ending
from ..driver.state.job_state import CheckpointCause, CheckpointSnapshot
from ..jvm.worker_errors import raised_in_workers
from ..metrics.backlog_progress import BacklogProgress
from ..metrics.events.facts import FactListeners
from ..spec import JobSpec
from ..storage.filesystem import resolve
from ..support.clean_up import take_all
from ..support.ids import NO_JOB, CheckpointId, JobId, RunId

#: Why the checkpoint was taken.
TRIGGER = "state-writer"


def check_history(job: JobSpec) -> None:
    """Raise PlanError if a job's history cannot go through its stages by itself."""
    if not job.has_history:
        raise PlanError("run_history() needs a job with a history: read(history=…, live=…)")
    if job.live is None:
        raise PlanError("run_history() needs a job with a live source: without one nothing goes on from the savepoint")
    if not job.has_phase("backlog"):
        raise PlanError(
            "run_history() works through the history in one sorted pass, which this job does not have: its"
            f" execution.runtime-mode is {job.settings.runtime_mode} with execution.interval-during-backlog ="
            f" {job.settings.interval_during_backlog_ms} ms; use mixed and 0"
        )
    if any(stage.coordinator is not None for stage in job.stages):
        raise PlanError("run_history() cannot speak for the job's coordinator; start the job, and take a savepoint")


def history_pass(job: JobSpec, location: str) -> tuple[CheckpointStore, CheckpointMetadata]:
    """Work through the history; returns where the state is, and the checkpoint that it would be.

    Args:
        job: the job.
        location: an empty folder, to be removed when the state has been copied.

    Raises:
        PlanError: see :func:`check_history`.
    """
    check_history(job)
    store = CheckpointStore(*resolve(location), Branch())
    sink = NoopSink(job.output_schema)
    settings = job.settings.model_copy(update={"savepoint_path": None})
    job = replace(job, sink=sink, late_rows=None, checkpoint_location=location, settings=settings)
    sink.open(job.spark, StagingFolder(store.filesystem, store.output), NO_JOB)
    job_id, run_id = JobId(uuid.uuid4().hex), RunId(str(uuid.uuid4()))
    state = fresh_state(job, job_id, settings.max_parallelism, settings.shards(job.spark))
    listener = FactListeners()
    context = RunContext(
        run_id=run_id,
        store=store,
        listener=listener,
        backlog=BacklogProgress(store.filesystem, f"{store.home}/progress"),
        lease=DriverLease(store.filesystem, store.root, run_id),
        turn=threading.RLock(),
        stopping=threading.Event(),
        wake=threading.Event(),
        pause=PauseSwitch(lambda: None),
        savepoints=SavepointQueue(lambda request: None),
        commits=CommitQueue(),
        live=None,
        live_start=LiveStart(job, store, location, None, listener),
        published=Published(),
    )
    run = RunningJob.of(RecoveredRun(job, state, None), context)
    phase = next(phase for phase in job.phases if phase.kind == "backlog")
    try:
        with raised_in_workers():
            PHASES["backlog"](run, Ending(run), phase)
    finally:
        take_all(run.events.close, run.losses.close, *[executor.close for executor in run.executors.values()])
    state.set_source("history", is_backlog=False, finished=True)
    cut = CheckpointSnapshot.of(
        state, CheckpointId(1), CheckpointCause(TRIGGER), finished_shards={}, events={}, form=job.staged_form
    )
    return store, cut.to_metadata(with_state=True)
