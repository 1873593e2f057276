"""Begins a new job from a savepoint: what the savepoint holds becomes the first checkpoint of an empty location.

State is copied into the job's own pool, checked on the way: from then on the job does not need the savepoint, which may
be deleted, and no damage passes from one to the other.  After the copy the usual recovery goes on from the checkpoint
as from any other, so parallelism, sink and trigger may differ.  The restored job is another job: its id, and that of
its Structured Streaming query, are new, so that it can run beside the one it comes from.

``<checkpointLocation>/mixedmode/savepoint.json`` says which savepoint a location was begun from.  It is written before
anything else, and without a checkpoint it means that the restore has to be done (again).
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyarrow import ArrowException

from ....errors import CheckpointError, CheckpointMismatchError, CorruptStateError, OptionError
from ....state.keys.registry import StateRegistry
from ...connectors.transaction import SinkTransaction
from ...operators.contract import KeyedOperator
from ...spec import JobSpec
from ...storage.checksummed import read_sealed, write_sealed
from ...storage.filesystem import (
    absolute,
    delete_quietly,
    exists,
    is_local,
    is_local_disk,
    read_bytes,
    write_atomically,
)
from ...storage.parallel import in_parallel
from ...support.failpoints import failpoint
from ..first_position import FOLDER as FIRST_POSITION
from ..identity import FOUND_BY_STATE, JobIdentity, stage_differences
from ..metadata import CheckpointMetadata, OperatorState, state_files
from ..spark_log import crc_file
from ..state_layout import empty_stage
from ..store import CheckpointStore
from .copying import CopyReport, copy_checked
from .store import SavepointFile, SavepointStore, open_savepoint

logger = logging.getLogger(__name__)

OPTION = "execution.savepoint.path"
_IGNORE = "execution.savepoint.ignore-unclaimed-state"


@dataclass(frozen=True)
class SavepointOrigin:
    """The savepoint that a checkpoint location was begun from."""

    savepoint_id: str
    #: Where it was then, absolute if it is local.
    path: str


def check_restorable(job: JobSpec) -> None:
    """Raise if the job names a savepoint that is not for it; called before anything is written.

    Raises:
        CheckpointError: there is no savepoint at that path, or the job could not go on from it.
        CheckpointMismatchError: it is another job's, or holds state that this job lacks.
        OptionError: ``pipeline.max-parallelism`` is not the savepoint's.
    """
    if job.settings.savepoint_path is not None:
        _check_claims(job, open_savepoint(job.settings.savepoint_path))


def check_origin(job: JobSpec, store: CheckpointStore, known_ids: Sequence[int]) -> None:
    """Raise if the location was not begun as the job says it was; a few small files are read, nothing is written.

    Args:
        job: the job.
        store: the location's checkpoints.
        known_ids: which there are.

    Raises:
        CheckpointError: the location has checkpoints that do not come from the savepoint, or an earlier restore into it
            was cut short and the option is not set any more.
    """
    path, origin = job.settings.savepoint_path, _origin(store)
    if known_ids:
        if path is not None:
            _check_descent(store, origin, path)
    elif path is None and origin is not None:
        raise CheckpointError(
            f"savepoint {origin.path!r} was being restored into {store.location!r}, and it was cut short: set"
            f" {OPTION} again, or use a new checkpointLocation"
        )


def restore_if_asked(job: JobSpec, store: CheckpointStore, identity: JobIdentity) -> None:
    """Make the first checkpoint of an empty location from the savepoint that the job names, if it names one.

    A location that has been begun from that very savepoint goes on from its own checkpoints.

    Args:
        job: the job, whose settings name the savepoint.
        store: the location's checkpoint store.
        identity: which job the location belongs to.

    Raises:
        CheckpointError: as :func:`check_origin`.
        CorruptStateError: a file of the savepoint is not as it was written.
    """
    known_ids = store.known_ids()
    check_origin(job, store, known_ids)
    path = job.settings.savepoint_path
    if path is None:
        return
    if not known_ids:
        _restore(job, store, identity, open_savepoint(path))
        return
    logger.info(
        "%s = %r is ignored: %r was started from it and has checkpoints of its own", OPTION, path, store.location
    )


def _check_descent(store: CheckpointStore, origin: SavepointOrigin | None, path: str) -> None:
    """The same command line again is fine, whether or not the savepoint is still there; another savepoint is not.

    What is there says by its id which savepoint it is; if nothing is left there, the place must be the same.
    """
    if origin is not None:
        found = _savepoint_id(path)
        if found == origin.savepoint_id or (found is None and _place(path) == _place(origin.path)):
            return
    begun = "from no savepoint" if origin is None else f"from savepoint {origin.path!r}"
    raise CheckpointError(
        f"{OPTION} is {path!r}, but the job in checkpointLocation {store.location!r} was begun {begun} and has"
        " checkpoints of its own, which would be lost; use a new checkpointLocation, or leave the option out"
    )


def _savepoint_id(path: str) -> str | None:
    try:
        return open_savepoint(path).savepoint.savepoint_id
    except (CheckpointError, ArrowException, OSError, ValueError):  # gone, perhaps with its whole filesystem
        return None


def _place(path: str) -> str:
    """One text for one place, whatever the working folder; nothing is looked up on other filesystems."""
    return absolute(path) if is_local(path) else path.rstrip("/")


def _origin_path(store: CheckpointStore) -> str:
    return f"{store.root}/savepoint.json"


def _origin(store: CheckpointStore) -> SavepointOrigin | None:
    path = _origin_path(store)
    if not exists(store.filesystem, path):
        return None
    try:
        return SavepointOrigin(**read_sealed(store.filesystem, path))
    except (ValueError, TypeError) as error:
        raise CorruptStateError(f"{path} is damaged ({error}); restore it, or use a new checkpointLocation") from error


# -- what fits ---------------------------------------------------------------------------------------------------------


def _check_claims(job: JobSpec, savepoint: SavepointStore) -> None:
    """Raise if the savepoint is not for this job, or holds state that the job does not claim."""
    check_fits(job, savepoint)
    unclaimed = _unclaimed(job, savepoint.savepoint.checkpoint)
    if unclaimed and not job.settings.savepoint_ignore_unclaimed:
        raise CheckpointMismatchError(
            f"savepoint {savepoint.location!r} holds state that this job does not have: {', '.join(unclaimed)}. Name"
            " the keyed stages as they were with .uid(…), declare the variables, or set"
            f" {_IGNORE} = true to drop that state [upgrade:U16]",
            code="MIXEDMODE_STATE_UNCLAIMED",
        )


def check_fits(job: JobSpec, savepoint: SavepointStore) -> None:
    """Raise if the state of a savepoint, as far as the job has it, is not for this job; arguments as of a restore.

    Args:
        job: the job.
        savepoint: the savepoint.

    Raises:
        CheckpointError: the job keeps no state.
        CheckpointMismatchError: a stage of both is another one's.
        OptionError: ``pipeline.max-parallelism`` is not the savepoint's.
    """
    held, where = savepoint.savepoint, f"savepoint {savepoint.location!r}"
    if not job.keeps_state:
        raise CheckpointError(
            f"{where} cannot be restored in runtime-mode batch, which keeps no state; use mixed or streaming"
            " [upgrade:U2]"
        )
    if held.max_parallelism != job.settings.max_parallelism:
        raise OptionError(
            f"pipeline.max-parallelism is {job.settings.max_parallelism}, but the state of {where} was written with "
            f"{held.max_parallelism}; it is fixed for the life of the state [upgrade:U4]",
            code="MIXEDMODE_PARALLELISM_FIXED",
        )
    known = {operator.uid: operator for operator in held.checkpoint.operators}
    for stage in job.stages:
        if stage.uid not in known:
            continue
        operator, described = stage.operator, held.described(stage.uid)
        differences = stage_differences(described, operator.describe(), FOUND_BY_STATE)
        if differences:
            named = f" (stage {stage.uid!r})" if len(job.stages) > 1 else ""
            raise CheckpointMismatchError(f"{where} is another job's{named}: {'; '.join(differences)} [upgrade:U10]")
        if operator.aggregates_by_key:
            _check_aggregates(operator, known[stage.uid], described, where)


def _check_aggregates(operator: KeyedOperator, held: OperatorState, described: dict[str, Any], where: str) -> None:
    try:
        operator.evolved(StateRegistry.from_json(held.registry), held.record, described)
    except CheckpointMismatchError as error:
        raise CheckpointMismatchError(f"{where} is not for this job: {error}") from error


def _unclaimed(job: JobSpec, checkpoint: CheckpointMetadata) -> list[str]:
    """Operators and state variables of the savepoint that the job lacks, in words."""
    found = []
    mine = {stage.uid: stage.operator for stage in job.stages}
    own = (
        f"the job's is {', '.join(map(repr, mine))}"
        if len(mine) == 1
        else f"the job's are {', '.join(map(repr, mine))}"
    )
    for operator in checkpoint.operators:
        if operator.uid not in mine:
            found.append(f"operator {operator.uid!r} ({own})")
            continue
        declared = {item.name for item in mine[operator.uid].registry}
        found += [
            f"state {item.name!r} ({item.kind}) of operator {operator.uid!r}"
            for item in StateRegistry.from_json(operator.registry)
            if item.name not in declared
        ]
    return found


# -- taking over -------------------------------------------------------------------------------------------------------


def _restore(job: JobSpec, store: CheckpointStore, identity: JobIdentity, savepoint: SavepointStore) -> None:
    held = savepoint.savepoint
    place = _place(str(job.settings.savepoint_path))
    _check_claims(job, savepoint)
    write_sealed(store.filesystem, _origin_path(store), asdict(SavepointOrigin(held.savepoint_id, place)))
    store.discard_backlog()
    known = {operator.uid: operator for operator in held.checkpoint.operators}
    claimed = tuple(known[stage.uid] for stage in job.stages if stage.uid in known)
    empty = tuple(empty_stage(job, stage.operator) for stage in job.stages if stage.uid not in known)
    for one in empty:
        logger.info("stage %r starts without state: savepoint %r has none for it", one.uid, savepoint.location)
    _copy_state(savepoint, store, claimed)
    _copy_source_logs(savepoint, store)
    failpoint("restore-before-metadata")
    store.write(
        held.checkpoint.model_copy(
            update={
                "job_id": identity.job_id,
                "trigger": "savepoint",
                "operators": (*claimed, *empty),
                "transaction": SinkTransaction(id=held.checkpoint.checkpoint_id),
                "late_rows": None,
            }
        )
    )
    store.mark_committed(held.checkpoint.checkpoint_id)


def _copy_state(savepoint: SavepointStore, store: CheckpointStore, operators: tuple[OperatorState, ...]) -> None:
    for operator in operators:
        store.filesystem.create_dir(store.pool(operator.uid), recursive=True)
    wanted = {(uid, file.name): CopyReport(file.size_bytes, file.sha256) for uid, file in state_files(operators)}

    def copy(item: tuple[str, str]) -> None:
        uid, name = item
        source, target = f"{savepoint.pool(uid)}/{name}", f"{store.pool(uid)}/{name}"
        failpoint("restore-copy")
        _copy_from(savepoint, source, store, target, wanted[item])

    in_parallel(copy, wanted)


def _copy_source_logs(savepoint: SavepointStore, store: CheckpointStore) -> None:
    """Give Spark's query what it has read under a new id; its position itself is written by recovery, as always."""
    store.spark_log.clear()
    delete_quietly(store.filesystem, f"{store.root}/{FIRST_POSITION}")
    wanted = [file for file in savepoint.savepoint.files if file.path.startswith(("spark/", f"{FIRST_POSITION}/"))]
    if not wanted and savepoint.savepoint.checkpoint.spark is None:
        return
    store.filesystem.create_dir(store.spark_location, recursive=True)
    metadata = json.dumps({"id": str(uuid.uuid4())}).encode()
    write_atomically(store.filesystem, f"{store.spark_location}/metadata", metadata)

    def copy(file: SavepointFile) -> None:
        target = f"{store.location if file.path.startswith('spark/') else store.root}/{file.path}"
        store.filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        source = f"{savepoint.location}/{file.path}"
        _copy_from(savepoint, source, store, target, CopyReport(file.size_bytes, file.sha256))
        if is_local_disk(store.filesystem):  # where Hadoop keeps checksums, recovery compares them
            folder, _, name = target.rpartition("/")
            content = read_bytes(store.filesystem, target)
            write_atomically(store.filesystem, f"{folder}/.{name}.crc", crc_file(content))

    in_parallel(copy, wanted)


def _copy_from(
    savepoint: SavepointStore, source: str, store: CheckpointStore, target: str, expected: CopyReport
) -> None:
    try:
        copy_checked(savepoint.filesystem, source, store.filesystem, target, expected)
    except CorruptStateError as error:
        delete_quietly(store.filesystem, target)
        raise savepoint.with_alternative(error, savepoint.ids()[0]) from error
