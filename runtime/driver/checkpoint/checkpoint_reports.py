"""Reports of complete checkpoints: what each holds, and how much of it is new."""

from __future__ import annotations

from ...metrics.events.events import CheckpointCompleted
from ..state.job_state import JobState
from .async_checkpoint import PendingCheckpoint

#: The trigger of a checkpoint that is taken to be written as a savepoint.
SAVEPOINT = "savepoint"


class CheckpointReports:
    """Compares each checkpoint with the one before.

    Args:
        state: the job's, before the first one.
    """

    def __init__(self, state: JobState) -> None:
        manifests = (manifest for stage in state.stages.values() for manifest in stage.manifests)
        self._last_files = frozenset(file.name for manifest in manifests for file in manifest.files)

    def of(self, one: PendingCheckpoint) -> CheckpointCompleted:
        """The report of one that is there."""
        cut, metadata = one.cut, one.metadata
        assert metadata is not None, "only of one that is there"
        files = {file.name: file for stage in cut.stages for manifest in stage.manifests for file in manifest.files}
        new = [file for name, file in files.items() if name not in self._last_files]
        self._last_files = frozenset(files)
        return CheckpointCompleted(
            checkpoint_id=cut.number,
            trigger=cut.cause.trigger,
            kind=SAVEPOINT if cut.cause.trigger == SAVEPOINT else metadata.kind,
            drained=metadata.is_drained,
            duration_ms=one.duration_ms,
            max_duration_ms=one.duration_ms,
            durations_ms=one.laps.ms,
            state_bytes=sum(file.size_bytes for file in files.values()),
            state_entries=sum(file.entries - file.tombstones for file in files.values()),
            state_files=len(files),
            new_files=len(new),
            new_bytes=sum(file.size_bytes for file in new),
            output_rows=sum(file.rows for file in cut.pending),
            output_bytes=sum(file.size_bytes for file in cut.pending),
        )
