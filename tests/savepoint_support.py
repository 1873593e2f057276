"""A savepoint of a checkpoint that is there already, in one call."""

from __future__ import annotations

from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.savepoints.writer import SavepointDraft, check_has_state
from mixedmode.runtime.checkpoints.store import CheckpointStore


def write_savepoint(store: CheckpointStore, metadata: CheckpointMetadata, destination: str, plan_json: str) -> str:
    """Write the checkpoint as a savepoint; the path is ``destination``, absolute if it is local."""
    check_has_state(store, metadata)
    with SavepointDraft(store, destination, plan_json) as draft:
        return draft.finish(metadata)
