"""Reads the checkpoints of a location: which there are, what is in them, and whether their files are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyarrow import fs

from ...errors import CorruptStateError
from ...state.store.files import StateFile
from ...state.store.pool import StatePool
from ..connectors.transaction import SinkTransaction
from ..storage.checksummed import read_sealed, unseal
from ..storage.filesystem import exists, read_bytes
from ..support.ids import NO_CHECKPOINT, CheckpointId
from .branch import checkpoint_folders, is_complete
from .folders import CheckpointFolders
from .metadata import CheckpointMetadata, state_files


class StoredCheckpoints(CheckpointFolders):
    """The checkpoints below one checkpoint location, to be read; the arguments are those of the folders."""

    def view(self) -> tuple[int, tuple[int, ...]]:
        """Where one that takes the location over goes on from: the branch, and its checkpoints that are complete."""
        ids = self.ids()
        return self.branch.number, tuple(ids)

    def ids(self) -> list[CheckpointId]:
        """Ids of the complete checkpoints, oldest first."""
        return self._listed()[0]

    def known_ids(self) -> list[CheckpointId]:
        """Ids of the checkpoints that are complete, or were and have lost their metadata, oldest first."""
        complete, others = self._listed()
        # The removal of an old checkpoint that was cut short leaves such a folder too, but only for the oldest ones.
        oldest = complete[0] if complete else 0
        return sorted([*complete, *(found for found in others if found > oldest and self.is_committed(found))])

    def _listed(self) -> tuple[list[CheckpointId], list[CheckpointId]]:
        """Ids of the complete checkpoints, and of folders without metadata, both oldest first: listed once."""
        self.look_again()
        complete, others = list[CheckpointId](), list[CheckpointId]()
        for found, folder in checkpoint_folders(self.filesystem, self.home).items():
            if self.branch.counts(found):
                (complete if is_complete(self.filesystem, folder) else others).append(found)
        return complete, others

    def read(self, checkpoint_id: CheckpointId) -> CheckpointMetadata:
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

    def is_committed(self, checkpoint_id: CheckpointId) -> bool:
        """True if the checkpoint's transaction is known to be visible."""
        return exists(self.filesystem, f"{self.folder(checkpoint_id)}/_committed")

    def restaged(self, checkpoint_id: CheckpointId) -> SinkTransaction | None:
        """What a later run has made of the checkpoint's output, in place of it; None: nothing."""
        path = self.restaged_file(checkpoint_id)
        if not exists(self.filesystem, path):
            return None
        try:
            return SinkTransaction.model_validate_json(unseal(read_bytes(self.filesystem, path)))
        except ValueError as error:
            raise CorruptStateError(f"{path} is damaged ({error}); it names output that was not shown yet") from error

    def restaged_file(self, checkpoint_id: CheckpointId) -> str:
        """File with what a later run has made of the checkpoint's output."""
        return f"{self.folder(checkpoint_id)}/_restaged"

    def savepoint_made(self, checkpoint_id: CheckpointId) -> str | None:
        """Where the savepoint is that the checkpoint was taken for; None: it was not made, or not for one."""
        path = self.savepoint_marker(checkpoint_id)
        if not exists(self.filesystem, path):
            return None
        return read_bytes(self.filesystem, path).decode()

    def savepoint_marker(self, checkpoint_id: CheckpointId) -> str:
        """File that says where the savepoint is that the checkpoint was taken for."""
        return f"{self.folder(checkpoint_id)}/_savepoint"

    def _newest_committed(self) -> CheckpointId:
        """The newest checkpoint that has shown its output; 0: none that is known, 1: there was one.

        The file outlives the checkpoints' folders, so that their loss does not look like a new job.
        """
        if not exists(self.filesystem, self.newest):
            return NO_CHECKPOINT
        try:
            return CheckpointId(int(read_sealed(self.filesystem, self.newest)["checkpoint_id"]))
        except ValueError:
            return CheckpointId(1)  # whatever it said: it is written only when there is one

    def latest(self) -> CheckpointMetadata | None:
        """The newest checkpoint, verified with the presence and size of all its files; None: there is none."""
        ids, others = self._listed()
        self._refuse_lost(ids[-1] if ids else NO_CHECKPOINT, others)
        if not ids:
            return None
        try:
            metadata = self.read(ids[-1])
            self.check_files(metadata, checksums=False)
        except CorruptStateError as error:
            raise self.with_alternative(error, ids[-1]) from error
        return metadata

    def _refuse_lost(self, latest_id: CheckpointId, others: Sequence[CheckpointId]) -> None:
        """Raise if a checkpoint newer than the latest had committed its output and has no metadata any more.

        A writer that dies leaves no such folder, and the removal of an old checkpoint only leaves it for old ones.
        """
        for lost in others:
            if lost > latest_id and self.is_committed(lost):
                raise self.with_alternative(CorruptStateError(f"{self.folder(lost)}/_metadata is missing"), lost)
        newest = self._newest_committed()
        if newest > latest_id and self.branch.counts(newest):
            raise self.with_alternative(
                CorruptStateError(
                    f"{self.newest} says that checkpoint {newest} was complete and has shown its output, but "
                    f"{self.folder(newest)} is missing"
                ),
                newest,
            )

    def with_alternative(self, error: CorruptStateError, damaged_id: CheckpointId) -> CorruptStateError:
        """The same error, with the newest older checkpoint that is whole."""
        for candidate in reversed([found for found in self.ids() if found < damaged_id]):
            try:
                self.check_files(self.read(candidate), checksums=True)
            except CorruptStateError:
                continue
            return CorruptStateError(
                f"{error}. The newest older checkpoint that is whole is {candidate} ({self.folder(candidate)}); to go "
                f"back to it, remove the folders of the newer ones and {self.newest} (rows that they committed will "
                "be committed again; a function of foreachBatch gets their ids again, with other rows: what it has "
                "remembered by them it must forget)"
            )
        return CorruptStateError(
            f"{error}. No older checkpoint is whole: restore it, or start again with a new checkpointLocation and a "
            "new output path"
        )

    def check_files(self, metadata: CheckpointMetadata, *, checksums: bool) -> None:
        """Raise CorruptStateError if a state file is missing or has another size (or content, with ``checksums``)."""
        for uid, file in state_files(metadata.operators):
            pool = StatePool(self.filesystem, self.pool(uid))
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


def state_file_names(metadata: CheckpointMetadata) -> Mapping[str, frozenset[str]]:
    """Names of the state files that a checkpoint names, by operator."""
    return {
        operator.uid: frozenset(file["name"] for shard in operator.shards for file in shard.lineage["files"])
        for operator in metadata.operators
    }
