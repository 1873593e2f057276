"""Where checkpoints live: ``<checkpointLocation>/mixedmode``.

::

    job.json                      which job this location belongs to
    lease/                        which driver has it (:mod:`.lease.claims`)
    newest.json                   id of the newest checkpoint whose output is visible
    checkpoints/chk-00000007/_metadata
    state/<operator uid>/*.sst|*.log     pool of immutable files, shared by checkpoints
    output/                       staged rows of sinks that are not files

All but the first two are below ``branch-00000003/`` once a driver has taken over from one that might still have been
running (:mod:`.branch`).

A file of the pool is removed only when no retained checkpoint, no running epoch and no savepoint that is being written
can name it.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from pyarrow import fs

from ...errors import CheckpointError, CorruptStateError
from ...state.store.files import StateFile
from ...state.store.pool import StatePool
from ...state.store.state_manifest import StateManifest
from ..connectors.staging import epoch_of
from ..connectors.transaction import SinkTransaction
from ..storage.checksummed import seal, unseal
from ..storage.deletions import delete_files
from ..storage.exclusive import put_if_absent
from ..storage.filesystem import delete_quietly, exists, list_files, read_bytes, resolve, write_atomically
from ..support.failpoints import failpoint
from .branch import Branch, branch_that_counts, checkpoints_in
from .identity import JobIdentity
from .job_file import JobFile
from .lease.claims import ClaimFolder, authority
from .metadata import CheckpointMetadata
from .readers import CheckpointReaders
from .spark_log import SparkLog

logger = logging.getLogger(__name__)

_FOLDER = re.compile(r"chk-(\d{8})$")


def has_checkpoint(location: str | None) -> bool:
    """Whether a job has taken a checkpoint at its ``checkpointLocation``; False also for a place that is of no use."""
    try:
        return location is not None and bool(CheckpointStore(*resolve(location)).known_ids())
    except (OSError, ValueError, CheckpointError):
        return False  # the start says what is wrong with it


class CheckpointStore:
    """Reads and writes the checkpoints below one checkpoint location.

    Args:
        filesystem: of the location.
        location: its path there.
        branch: the branch that is meant, whatever drivers do; None: the one that counts.
    """

    def __init__(self, filesystem: fs.FileSystem, location: str, branch: Branch | None = None) -> None:
        self.filesystem = filesystem
        self.location = location
        self.root = f"{location}/mixedmode"
        #: Called right before each step that others can see; raises if this driver may not do it (any more).
        self.guard: Callable[[], None] = lambda: None
        #: Names of state files that somebody reads without a checkpoint that names them; by whatever identifies him.
        self._held: dict[object, frozenset[str]] = {}
        #: The state files that checkpoints name which this store has written, by operator: their content is fixed.
        self._named: dict[int, Mapping[str, frozenset[str]]] = {}
        #: When checkpoints were written, in seconds of the epoch.
        self._written_s: dict[int, float] = {}
        self._branch = branch
        #: True: whatever drivers do, this one branch is meant.
        self._is_fixed = branch is not None

    @property
    def branch(self) -> Branch:
        """What is read and written here; a reader's follows the drivers whenever it looks for checkpoints."""
        if self._branch is None:
            claim = authority(ClaimFolder(self.filesystem, self.root).look())
            self._branch = branch_that_counts(self.filesystem, self.root, claim)
        return self._branch

    def work_in(self, branch: Branch) -> None:
        """Read and write this branch from now on: its driver does."""
        self._branch, self._is_fixed = branch, True
        self._named.clear()

    def _look_again(self) -> None:
        if not self._is_fixed:
            self._branch = None

    def view(self) -> tuple[int, tuple[int, ...]]:
        """Where one that takes the location over goes on from: the branch, and its checkpoints that are complete."""
        ids = self.ids()
        return self.branch.number, tuple(ids)

    @property
    def home(self) -> str:
        """Folder of the branch: all that its driver changes is below it."""
        return self.branch.home(self.root)

    @property
    def spark_location(self) -> str:
        """Folder of the live source's query."""
        return f"{self.home}/spark" if self.branch.number else f"{self.location}/spark"

    @property
    def spark_log(self) -> SparkLog:
        """Spark's own log of the live source."""
        return SparkLog(self.filesystem, self.spark_location)

    def pool(self, uid: str) -> str:
        """Folder of an operator's state files."""
        return f"{self.home}/state/{uid}"

    def exchange(self, uid: str) -> str:
        """Folder of what a stage hands on to others."""
        return f"{self.home}/exchange/{uid}"

    @property
    def runs(self) -> str:
        """Folder of the runs of partial aggregates of a sorted pass, by stage; nothing there outlives the pass."""
        return f"{self.home}/runs"

    @property
    def backlog(self) -> str:
        """Folder of what an unfinished sorted pass leaves to the next run."""
        return f"{self.home}/backlog"

    @property
    def backlog_pin(self) -> str:
        """File that says of which pass it is."""
        return f"{self.backlog}/pin.json"

    def discard_backlog(self) -> None:
        """Remove that folder; state and output files that it names become garbage."""
        delete_quietly(self.filesystem, self.backlog_pin)
        delete_quietly(self.filesystem, self.backlog)

    @property
    def output(self) -> str:
        """Folder for staged output of sinks that have no folder of their own."""
        return f"{self.home}/output"

    def identity(self) -> JobIdentity | None:
        """The job that this location belongs to; None: it is empty.  Errors as of :meth:`JobFile.read`."""
        return JobFile(self.filesystem, self.location).read()

    def claim(self, identity: JobIdentity) -> None:
        """Write the identity of a new job."""
        JobFile(self.filesystem, self.location).claim(identity)

    def ids(self) -> list[int]:
        """Ids of the complete checkpoints, oldest first."""
        self._look_again()
        return sorted(found for found in checkpoints_in(self.filesystem, self.home) if self.branch.counts(found))

    def known_ids(self) -> list[int]:
        """Ids of the checkpoints that are complete, or were and have lost their metadata, oldest first."""
        complete = self.ids()
        # The removal of an old checkpoint that was cut short leaves such a folder too, but only for the oldest ones.
        oldest = complete[0] if complete else 0
        return sorted({*complete, *(found for found in self._committed_ids() if found > oldest)})

    def _committed_ids(self) -> list[int]:
        """Ids of all checkpoints that are marked as visible."""
        matches = [_FOLDER.search(info.path) for info in list_files(self.filesystem, f"{self.home}/checkpoints")]
        ids = [int(match[1]) for match in matches if match and self.branch.counts(int(match[1]))]
        return [found for found in ids if self.is_committed(found)]

    def folder(self, checkpoint_id: int) -> str:
        """Folder of a checkpoint."""
        return f"{self.home}/checkpoints/chk-{checkpoint_id:08d}"

    def read(self, checkpoint_id: int) -> CheckpointMetadata:
        """Read one checkpoint's metadata; it is verified."""
        path = f"{self.folder(checkpoint_id)}/_metadata"
        try:
            data = read_bytes(self.filesystem, path)
        except FileNotFoundError:
            raise CorruptStateError(f"{path} is missing") from None
        return CheckpointMetadata.from_bytes(data, path)

    def kind_of(self, metadata: CheckpointMetadata) -> str:
        """What it is here: "checkpoint", "completion" (the job has ended with it) or "savepoint"."""
        return metadata.kind

    def write(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint exist.  Everything that it names must already be in place."""
        folder = self.folder(metadata.checkpoint_id)
        path = f"{folder}/_metadata"
        self.filesystem.create_dir(folder, recursive=True)
        failpoint("checkpoint-before-metadata")
        self.guard()
        if not put_if_absent(self.filesystem, path, metadata.to_bytes()):
            raise CheckpointError(
                f"{path} exists already: another driver runs this job on the same checkpointLocation. Stop one of them",
                code="MIXEDMODE_LOCATION_IN_USE",
            )
        self._named[metadata.checkpoint_id] = _state_files(metadata)
        self._written_s[metadata.checkpoint_id] = time.time()

    def is_committed(self, checkpoint_id: int) -> bool:
        """True if the checkpoint's transaction is known to be visible."""
        return exists(self.filesystem, f"{self.folder(checkpoint_id)}/_committed")

    def mark_committed(self, checkpoint_id: int) -> None:
        """Remember that the checkpoint's transaction is visible."""
        self.guard()
        write_atomically(self.filesystem, f"{self.folder(checkpoint_id)}/_committed", b"")
        write_atomically(self.filesystem, self._newest, seal(json.dumps({"checkpoint_id": checkpoint_id}).encode()))

    def restaged(self, checkpoint_id: int) -> SinkTransaction | None:
        """What a later run has made of the checkpoint's output, in place of it; None: nothing."""
        path = self._restaged(checkpoint_id)
        if not exists(self.filesystem, path):
            return None
        try:
            return SinkTransaction.model_validate_json(unseal(read_bytes(self.filesystem, path)))
        except ValueError as error:
            raise CorruptStateError(f"{path} is damaged ({error}); it names output that was not shown yet") from error

    def write_restaged(self, checkpoint_id: int, transaction: SinkTransaction) -> None:
        """Put other staged files in the place of the checkpoint's output."""
        self.guard()
        write_atomically(self.filesystem, self._restaged(checkpoint_id), seal(transaction.model_dump_json().encode()))

    def _restaged(self, checkpoint_id: int) -> str:
        return f"{self.folder(checkpoint_id)}/_restaged"

    def savepoint_made(self, checkpoint_id: int) -> str | None:
        """Where the savepoint is that the checkpoint was taken for; None: it was not made, or not for one."""
        path = self._savepoint_marker(checkpoint_id)
        if not exists(self.filesystem, path):
            return None
        return read_bytes(self.filesystem, path).decode()

    def mark_savepoint_made(self, checkpoint_id: int, path: str) -> None:
        """Remember that the savepoint that the checkpoint was taken for is complete."""
        write_atomically(self.filesystem, self._savepoint_marker(checkpoint_id), path.encode())

    def _savepoint_marker(self, checkpoint_id: int) -> str:
        return f"{self.folder(checkpoint_id)}/_savepoint"

    @property
    def _newest(self) -> str:
        return f"{self.home}/newest.json"

    def _newest_committed(self) -> int:
        """The newest checkpoint that has shown its output; 0: none that is known, 1: there was one.

        The file outlives the checkpoints' folders, so that their loss does not look like a new job.
        """
        if not exists(self.filesystem, self._newest):
            return 0
        try:
            return int(json.loads(unseal(read_bytes(self.filesystem, self._newest)))["checkpoint_id"])
        except ValueError:
            return 1  # whatever it said: it is written only when there is one

    def latest(self) -> CheckpointMetadata | None:
        """The newest checkpoint, verified with the presence and size of all its files; None: there is none."""
        ids = self.ids()
        self._refuse_lost(ids[-1] if ids else 0)
        if not ids:
            return None
        try:
            metadata = self.read(ids[-1])
            self.check_files(metadata, checksums=False)
        except CorruptStateError as error:
            raise self.with_alternative(error, ids[-1]) from error
        return metadata

    def _refuse_lost(self, latest_id: int) -> None:
        """Raise if a checkpoint newer than the latest had committed its output and has no metadata any more.

        A writer that dies leaves no such folder, and the removal of an old checkpoint only leaves it for old ones.
        """
        for lost in self._committed_ids():
            if lost > latest_id:
                raise self.with_alternative(CorruptStateError(f"{self.folder(lost)}/_metadata is missing"), lost)
        newest = self._newest_committed()
        if newest > latest_id and self.branch.counts(newest):
            raise self.with_alternative(
                CorruptStateError(
                    f"{self._newest} says that checkpoint {newest} was complete and has shown its output, but "
                    f"{self.folder(newest)} is missing"
                ),
                newest,
            )

    def with_alternative(self, error: CorruptStateError, damaged_id: int) -> CorruptStateError:
        """The same error, with the newest older checkpoint that is whole."""
        for candidate in reversed([found for found in self.ids() if found < damaged_id]):
            try:
                self.check_files(self.read(candidate), checksums=True)
            except CorruptStateError:
                continue
            return CorruptStateError(
                f"{error}. The newest older checkpoint that is whole is {candidate} ({self.folder(candidate)}); to go "
                f"back to it, remove the folders of the newer ones and {self._newest} (rows that they committed will "
                "be committed again; a function of foreachBatch gets their ids again, with other rows: what it has "
                "remembered by them it must forget)"
            )
        return CorruptStateError(
            f"{error}. No older checkpoint is whole: restore it, or start again with a new checkpointLocation and a "
            "new output path"
        )

    def check_files(self, metadata: CheckpointMetadata, *, checksums: bool) -> None:
        """Raise CorruptStateError if a state file is missing or has another size (or content, with ``checksums``)."""
        for operator in metadata.operators:
            pool = StatePool(self.filesystem, self.pool(operator.uid))
            for file in (file for shard in operator.shards for file in shard.load().files):
                if checksums:
                    pool.check(file)
                else:
                    self.check_file(pool, file)

    def check_file(self, pool: StatePool, file: StateFile) -> None:
        """Raise CorruptStateError if a state file is missing or has another size."""
        info = self.filesystem.get_file_info(pool.path(file.name))
        if info.type != fs.FileType.File:
            raise CorruptStateError(f"state file {info.path} is missing")
        if info.size != file.size_bytes:
            raise CorruptStateError(
                f"state file {info.path} has {info.size} bytes, its checkpoint recorded {file.size_bytes}"
            )

    def subsume(self, retained: int, *, keep_ms: int = 0) -> None:
        """Keep the newest checkpoints, and those that somebody reads; remove older ones.

        Args:
            retained: how many are kept.
            keep_ms: others are kept, too, until they are so old.
        """
        self.guard()
        outdated = self.ids()[:-retained]
        held = CheckpointReaders(self.filesystem, self.home).held() if outdated else set()
        for old in outdated:
            if keep_ms and self._age_ms(old) < keep_ms:
                return  # those that follow are younger
            if old in held:
                continue
            folder = self.folder(old)
            # The metadata goes first: what is left of a half-removed folder is not a checkpoint.
            delete_quietly(self.filesystem, f"{folder}/_metadata")
            failpoint("gc-after-metadata")
            delete_quietly(self.filesystem, folder)

    def _age_ms(self, checkpoint_id: int) -> float:
        """How old a checkpoint is, by the store's clock where another driver has written it."""
        written_s = self._written_s.get(checkpoint_id)
        if written_s is None:
            found = self.filesystem.get_file_info(f"{self.folder(checkpoint_id)}/_metadata").mtime
            written_s = self._written_s[checkpoint_id] = 0.0 if found is None else found.timestamp()
        return (time.time() - written_s) * 1000

    @contextmanager
    def holding(self, metadata: CheckpointMetadata) -> Iterator[None]:
        """Keep the state files of a checkpoint from being removed, even if it is subsumed meanwhile; thread-safe."""
        files = (file for operator in metadata.operators for shard in operator.shards for file in shard.load().files)
        holder = object()
        self._held[holder] = frozenset(file.name for file in files)
        try:
            yield
        finally:
            del self._held[holder]

    def collect_garbage(
        self, uid: str, live: Iterable[StateManifest], *, up_to_epoch: int | None = None, keep: Iterable[str] = ()
    ) -> int:
        """Remove pool files that no retained checkpoint, no holder and not ``live`` names; returns how many.

        Args:
            uid: the operator whose pool is swept.
            live: manifests of the running job.
            up_to_epoch: leave files of later epochs alone (their attempts may still be running); None: sweep all.
            keep: names of further files to keep.
        """
        named = set(keep).union(*list(self._held.values())) | {
            file.name for manifest in live for file in manifest.files
        }
        ids = self.ids()
        for gone in {*self._named, *self._written_s}.difference(ids):
            # Not one that is being written meanwhile, which the newest is older than.
            if ids and gone < ids[-1]:
                self._named.pop(gone, None)
                self._written_s.pop(gone, None)
        for checkpoint_id in ids:
            try:
                known = self._named.get(checkpoint_id) or _state_files(self.read(checkpoint_id))
            except CorruptStateError as error:
                logger.warning("no state file is removed while this checkpoint is kept: %s", error)
                return 0
            named |= known.get(uid, frozenset())
        self.guard()

        def is_garbage(info: fs.FileInfo) -> bool:
            too_new = up_to_epoch is not None and epoch_of(info.base_name) > up_to_epoch
            return info.type == fs.FileType.File and info.base_name not in named and not too_new

        garbage = [info.path for info in list_files(self.filesystem, self.pool(uid)) if is_garbage(info)]
        delete_files(self.filesystem, garbage, lambda: failpoint("gc-between-files"))
        return len(garbage)


def _state_files(metadata: CheckpointMetadata) -> Mapping[str, frozenset[str]]:
    """Names of the state files of each operator."""
    return {
        operator.uid: frozenset(file["name"] for shard in operator.shards for file in shard.lineage["files"])
        for operator in metadata.operators
    }
