"""Removes checkpoints that are outdated, and state files that nobody can name any more.

A file of the pool is removed only when no retained checkpoint, no running epoch and no savepoint that is being written
can name it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from pyarrow import fs

from ...errors import CorruptStateError
from ...state.store.state_manifest import StateManifest
from ..connectors.staging import epoch_of
from ..storage.deletions import delete_files
from ..storage.filesystem import delete_quietly, list_files
from ..support.failpoints import failpoint
from ..support.ids import CheckpointId, EpochNumber
from .metadata import CheckpointMetadata, state_files
from .reader_marks import CheckpointReaders
from .stored_checkpoints import StoredCheckpoints, state_file_names

logger = logging.getLogger(__name__)


class CheckpointRetention:
    """Decides what of a location may go.

    Args:
        checkpoints: those of the location.
        guard: called right before each step that others can see; raises if this driver may not do it.
    """

    def __init__(self, checkpoints: StoredCheckpoints, guard: Callable[[], None]) -> None:
        self._checkpoints, self._guard = checkpoints, guard
        #: Names of state files that somebody reads without a checkpoint that names them; by whatever identifies him.
        self._held: dict[object, frozenset[str]] = {}
        #: The state files that checkpoints name which this driver has written, by operator: their content is fixed.
        self._named: dict[CheckpointId, Mapping[str, frozenset[str]]] = {}
        #: When checkpoints were written, in seconds of the epoch.
        self._written_s: dict[CheckpointId, float] = {}

    def note_written(self, metadata: CheckpointMetadata) -> None:
        """A checkpoint has been written just now, and need not be read for what it names."""
        self._named[metadata.checkpoint_id] = state_file_names(metadata)
        self._written_s[metadata.checkpoint_id] = time.time()

    def forget_names(self) -> None:
        """The checkpoints are those of another branch from now on."""
        self._named.clear()

    def subsume(self, retained: int, *, keep_ms: int = 0) -> None:
        """Keep the newest checkpoints, and those that somebody reads; remove older ones.

        Args:
            retained: how many are kept.
            keep_ms: others are kept, too, until they are so old.
        """
        self._guard()
        outdated = self._checkpoints.ids()[:-retained]
        held = CheckpointReaders(self._checkpoints.filesystem, self._checkpoints.home).held() if outdated else set()
        for old in outdated:
            if keep_ms and self._age_ms(old) < keep_ms:
                return  # those that follow are younger
            if old in held:
                continue
            folder = self._checkpoints.folder(old)
            # The metadata goes first: what is left of a half-removed folder is not a checkpoint.
            delete_quietly(self._checkpoints.filesystem, f"{folder}/_metadata")
            failpoint("gc-after-metadata")
            delete_quietly(self._checkpoints.filesystem, folder)

    def _age_ms(self, checkpoint_id: CheckpointId) -> float:
        """How old a checkpoint is, by the store's clock where another driver has written it."""
        written_s = self._written_s.get(checkpoint_id)
        if written_s is None:
            found = self._checkpoints.filesystem.get_file_info(
                f"{self._checkpoints.folder(checkpoint_id)}/_metadata"
            ).mtime
            written_s = self._written_s[checkpoint_id] = 0.0 if found is None else found.timestamp()
        return (time.time() - written_s) * 1000

    @contextmanager
    def holding(self, metadata: CheckpointMetadata) -> Iterator[None]:
        """Keep the state files of a checkpoint from being removed, even if it is subsumed meanwhile; thread-safe."""
        holder = object()
        self._held[holder] = frozenset(file.name for _, file in state_files(metadata.operators))
        try:
            yield
        finally:
            del self._held[holder]

    def collect_garbage(
        self,
        uid: str,
        live: Iterable[StateManifest],
        *,
        up_to_epoch: EpochNumber | None = None,
        keep: Iterable[str] = (),
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
        ids = self._checkpoints.ids()
        for gone in {*self._named, *self._written_s}.difference(ids):
            # Not one that is being written meanwhile, which the newest is older than.
            if ids and gone < ids[-1]:
                self._named.pop(gone, None)
                self._written_s.pop(gone, None)
        for checkpoint_id in ids:
            try:
                known = self._named.get(checkpoint_id) or state_file_names(self._checkpoints.read(checkpoint_id))
            except CorruptStateError as error:
                logger.warning("no state file is removed while this checkpoint is kept: %s", error)
                return 0
            named |= known.get(uid, frozenset())
        self._guard()

        def is_garbage(info: fs.FileInfo) -> bool:
            too_new = up_to_epoch is not None and epoch_of(info.base_name) > up_to_epoch
            return info.type == fs.FileType.File and info.base_name not in named and not too_new

        garbage = [
            info.path
            for info in list_files(self._checkpoints.filesystem, self._checkpoints.pool(uid))
            if is_garbage(info)
        ]
        delete_files(self._checkpoints.filesystem, garbage, lambda: failpoint("gc-between-files"))
        return len(garbage)
