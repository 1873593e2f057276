"""Finds what a path on the command line means; a wrong path is an error of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import CheckpointError, UnknownStateError
from ...runtime.checkpoints.metadata import CheckpointMetadata, OperatorState
from ...runtime.checkpoints.reader_marks import CheckpointReaders
from ...runtime.checkpoints.savepoints.store import MANIFEST, SavepointStore, open_store
from ...runtime.checkpoints.store import CheckpointStore
from ...runtime.state_reader import StateReader
from ...runtime.support.ids import CheckpointId
from .console import misused
from .location_checks import check_location, is_there, resolved_path


def opened(path: str) -> tuple[StateReader, CheckpointStore]:
    """The reader and the store of a checkpointLocation or a savepoint."""
    filesystem, folder = resolved_path(path)
    if not is_there(filesystem, f"{folder}/{MANIFEST}", path):
        check_location(path)
    store = open_store(filesystem, folder)
    return StateReader(store, None), store


def read_checkpoint(store: CheckpointStore, checkpoint: int | None) -> CheckpointMetadata:
    """One checkpoint's metadata; its files are checked by presence and size."""
    if checkpoint is None:
        found = store.latest()
        if found is None:
            raise CheckpointError(
                f"{store.location!r} holds no complete checkpoint yet", code="MIXEDMODE_CHECKPOINT_NOT_FOUND"
            )
        return found
    if checkpoint not in store.known_ids():
        held = ", ".join(map(str, store.known_ids())) or "none"
        raise misused(f"{store.location!r} has no checkpoint {checkpoint}; it holds {held}")
    return store.read(CheckpointId(checkpoint))


@contextmanager
def held_checkpoint(store: CheckpointStore, checkpoint: int | None, *, holds: bool) -> Iterator[CheckpointMetadata]:
    """As :func:`read_checkpoint`; the job that runs does not remove the checkpoint meanwhile.

    Args:
        store: that of the location.
        checkpoint: its id; None: the newest.
        holds: whether its state is read; False: its metadata are enough.
    """
    while True:
        metadata = read_checkpoint(store, checkpoint)
        if not holds or isinstance(store, SavepointStore):
            yield metadata
            return
        with CheckpointReaders(store.filesystem, store.home).holding(metadata.checkpoint_id):
            if metadata.checkpoint_id in store.known_ids():  # it was not removed right before
                yield metadata
                return


def one_of_the_operators(metadata: CheckpointMetadata, uid: str | None) -> OperatorState:
    """The operator of that id, or the only one."""
    held = {operator.uid: operator for operator in metadata.operators}
    if uid is None and len(held) == 1:
        return next(iter(held.values()))
    if uid is None:
        raise misused(f"the checkpoint has the operators {', '.join(held)}; say which with --operator")
    if uid not in held:
        raise UnknownStateError(f"the checkpoint has no operator {uid!r}; it has {', '.join(held) or 'none'}")
    return held[uid]
