"""Checks at ``start()``, before a query exists, the places that a job was given and whose they are.

Everything here is asked again by the run itself, since it may change in between; the point of asking first is that
the caller of ``start()`` gets the error, rather than somebody who looks at ``query.exception()`` later.  Invariants: no
Spark job (but a small one where there is more than one machine or filesystem), a handful of small files read, and
nothing is written that stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import ArrowException

from ....errors import CheckpointError, CorruptStateError, MixedModeError, OptionError, PlanError
from ....state.store.local_folder import check_local_root
from ...checkpoints.identity import JobIdentity
from ...checkpoints.lease.driver_lease import DriverLease
from ...checkpoints.savepoints.restore import OPTION as SAVEPOINT_OPTION
from ...checkpoints.savepoints.restore import check_origin, check_restorable
from ...checkpoints.savepoints.store import open_savepoint
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_sources import check_brokers, check_replayable
from ...spark_io.place_probe import probe_places
from ...spec import JobSpec
from ...storage.filesystem import resolve
from ...storage.folder_checks import check_folder
from ...support.ids import NO_RUN, CheckpointId
from ..checkpoint.staged_output_migration import check_showable
from ..coordinators.task_graph import check_finished_tasks
from ..recovery.existing_rows import check_existing_rows
from ..recovery.recovery import check_identity, check_sources, evolved, forgotten_behind, refuse_more_after_the_end


def check_places(job: JobSpec) -> None:
    """Raise if the job cannot run where it is to run.

    Raises:
        OptionError: a folder is a file or cannot be written to.
        PlanError: the live source cannot be read again, or nobody is there to give it.
        CheckpointMismatchError: ``checkpointLocation`` or the savepoint is another job's.
        CheckpointError: another driver runs the job, there is no whole savepoint to begin with, or the location was
            begun from another one.
    """
    ids: Sequence[int] = ()
    for frame in [job.live, *(lane.history for lane in job.lanes)]:
        if frame is not None:
            check_brokers(frame)
    if job.checkpoint_location is not None:
        if job.live is not None:
            check_replayable(job.live)
        check_folder("checkpointLocation", job.checkpoint_location)
        ids = _check_location(job, job.checkpoint_location)
    elif job.settings.savepoint_path is not None:
        _check_savepoint(job, job.settings.savepoint_path)
    else:
        _check_begin(job)
    job.sink.check_place(job.spark)
    if not ids:
        check_existing_rows(job)
    settings = job.settings
    if job.late_rows is not None:
        job.late_rows.check_place(job.spark)
    folders: dict[str, str | None] = {"execution.savepoint.on-sigterm": settings.savepoint_on_sigterm}
    if str(job.spark.sparkContext.master).startswith("local"):  # elsewhere they are the executors'
        folders |= {"state.local-dir": settings.state_local_dir, "sorter.spill-dir": settings.sorter_spill_dir}
    for option, location in folders.items():
        if location is not None:
            check_folder(option, location)
    if str(job.spark.sparkContext.master).startswith("local"):
        _check_local_root(job)
    shared = {
        "checkpointLocation": job.checkpoint_location,
        "path": job.sink.shared_folder,
        "pipeline.late-data.path": settings.late_data_path,
    }
    probe_places(job.spark, {option: place for option, place in shared.items() if place is not None})


def _check_local_root(job: JobSpec) -> None:
    """The folder for working copies, as the workers will use it.

    By default that is in a scratch folder which Spark has made for this session alone, under a name that nobody could
    know before.
    """
    configured = job.settings.state_local_dir
    refused = None if configured is None else check_local_root(configured)
    if refused is not None:
        raise OptionError(
            f"state.local-dir = {configured!r} cannot be used: {refused}; allowed: a folder where this user can make,"
            " or has, one of its own named 'mixedmode'",
            code="MIXEDMODE_LOCATION_UNUSABLE",
        )


def _check_location(job: JobSpec, location: str) -> Sequence[int]:
    """As :func:`_check_owner`; a file there that cannot be read is named with the option."""
    try:
        return _check_owner(job, CheckpointStore(*resolve(location)))
    except MixedModeError:
        raise
    except OSError as error:
        raise OptionError(
            f"checkpointLocation = {location!r} cannot be read: {error}; allowed: a folder whose files this user can"
            " read and write",
            code="MIXEDMODE_LOCATION_UNUSABLE",
        ) from error


def _check_owner(job: JobSpec, store: CheckpointStore) -> Sequence[int]:
    """Check whose the location is; returns the ids of its checkpoints, which are listed once: a store may be slow."""
    known, ids = check_identity(job, store), store.known_ids()
    check_origin(job, store, ids)
    path, has_checkpoints = job.settings.savepoint_path, known is not None and bool(ids)
    # A location with checkpoints of its own goes on from those, whether or not the savepoint is still there.
    if path is not None and not has_checkpoints:
        _check_savepoint(job, path)
    elif not has_checkpoints:
        _check_begin(job)
    if known is not None:
        _check_newest(job, store, known, ids)
    DriverLease(store.filesystem, store.root, NO_RUN).check_free()
    return ids


def _check_begin(job: JobSpec) -> None:
    """Raise PlanError if nothing of the job is there yet, and it must not begin."""
    if job.begin_refused is not None:
        raise PlanError(job.begin_refused)


def _check_newest(job: JobSpec, store: CheckpointStore, known: JobIdentity, ids: Sequence[CheckpointId]) -> None:
    """Raise what recovery would if the newest checkpoint has other state or inputs, or output for other columns."""
    try:
        metadata = store.read(ids[-1]) if ids else None
    except CorruptStateError:
        return  # recovery names it, with the newest older checkpoint that is whole
    if metadata is None:
        return
    if not job.keeps_state and metadata.kind != "completion":
        raise OptionError(
            f"execution.runtime-mode is batch, but checkpointLocation {store.location!r} holds the state of a job that"
            f" goes on (checkpoint {metadata.checkpoint_id}): a batch run would fire all that is open and end that job"
            " for good. Use mixed or streaming, or a new checkpointLocation [upgrade:U2]",
            code="MIXEDMODE_BATCH_ENDED",
        )
    for stage in job.stages:
        evolved(stage.operator, store, known, metadata)
    shards = {one.uid: len(one.shards) for one in metadata.operators}
    check_finished_tasks(job, {stage.uid: shards.get(stage.uid, 1) for stage in job.stages}, metadata, store.location)
    check_sources(job, metadata, store)
    check_showable(job, store, metadata)
    lost = [one for one in forgotten_behind(job, metadata) if not one.is_tolerated]
    if lost:
        raise CheckpointError(
            f"the job in {store.location!r} goes on behind checkpoint {metadata.checkpoint_id}, and messages after it"
            f" are gone: {'; '.join(map(str, lost))}. Restore them; or set failOnDataLoss = false on the source, to go"
            " on without them; or start again with a new checkpointLocation",
            code="MIXEDMODE_DATA_LOST",
        )
    if metadata.kind == "completion" and job.keeps_state and store.is_committed(metadata.checkpoint_id):
        refuse_more_after_the_end(job, store, metadata)  # otherwise a run shows its last output first


def _check_savepoint(job: JobSpec, path: str) -> None:
    try:
        open_savepoint(path)
    except CheckpointError as error:
        raise type(error)(
            f"{SAVEPOINT_OPTION}: {error}; allowed: a folder that savepoint() or stopWithSavepoint() has completed",
            code=error.code,
        ) from error
    except (OSError, ValueError, ArrowException) as error:
        raise OptionError(
            f"{SAVEPOINT_OPTION} = {path!r} cannot be reached: {error}; allowed: a folder that savepoint() or"
            " stopWithSavepoint() has completed, in a bucket that exists and that this user may read",
            code="MIXEDMODE_LOCATION_UNUSABLE",
        ) from error
    check_restorable(job)
