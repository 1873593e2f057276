"""The facts of a run in the words of ``query.lifecycle``."""

from __future__ import annotations

from ..jvm.spark_errors import what_happened
from ..protocols.lifecycle.events import Stop
from ..support.redaction import redacted
from .events.facts import (
    CheckpointCompleted,
    CheckpointFailed,
    Fact,
    FileLost,
    InputEnded,
    LiveBegins,
    LiveFolderGone,
    LiveFolderIsBack,
    MessagesLost,
    PhaseBegan,
    Rescaled,
    Restored,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStopped,
    SavepointWritten,
    SeamPassed,
    ShardsReused,
    SourceChanged,
    StateEvolved,
)
from .units import rescaled


def in_words(fact: Fact) -> tuple[str, str] | None:
    """The event and its detail; None: it is no event of the run's life."""
    match fact:
        case Restored(checkpoint_id, epoch, drained):
            behind = ", taken by a drain; this run continues after it" if drained else ""
            return "restored", f"checkpoint {checkpoint_id}, epoch {epoch}{behind}"
        case StateEvolved(change):
            return "state-evolved", change
        case MessagesLost(messages):
            perhaps = "while they were read: any of them may be missing" if messages.fate == "perhaps" else "never read"
            return "data-lost", f"{messages}: gone from the source, {perhaps} (failOnDataLoss = false)"
        case FileLost(path, fate):
            return "data-lost", f"{path} is {fate}: its rows that no checkpoint holds are lost (failOnDataLoss = false)"
        case SeamPassed(source, seam):
            return "seam", f"{source}: {seam}"
        case LiveBegins(entry):
            return "positions", f"the live source begins at {' '.join(entry.splitlines()[2:])}"
        case PhaseBegan(kind):
            return "phase", kind
        case ShardsReused(finished, shards):
            return "reused", f"{finished} of {shards} shards were finished"
        case SourceChanged(source, is_backlog, epoch, reason):
            return "switch", f"{source} isBacklog={str(is_backlog).lower()} after epoch {epoch}: {reason}"
        case LiveFolderGone(folder):
            return "folder-gone", redacted(folder)
        case LiveFolderIsBack(folder):
            return "folder-is-back", redacted(folder)
        case CheckpointCompleted(report):
            return "checkpoint", f"{report.checkpoint_id} ({report.trigger}, {report.duration_ms} ms)"
        case CheckpointFailed(checkpoint_id, trigger, outcome, error):
            return (
                "checkpoint-failed",
                f"{checkpoint_id} ({trigger}) {outcome}: {type(error).__name__}: {what_happened(error)}",
            )
        case SavepointWritten(path, by_recovery):
            return (
                "savepoint",
                f"{path}, completed for an earlier run that was stopped with it" if by_recovery else path,
            )
        case InputEnded():
            return "MAX_WATERMARK", "all sources have ended"
        case RunFinished(None):
            return "finished", "an earlier run has already processed all input"
        case RunFinished(checkpoint_id):
            return "finished", f"checkpoint {checkpoint_id}"
        case RunStopped(savepoint, inside_epoch):
            return "stopped", _how_stopped(savepoint, inside_epoch)
        case RunPaused(phase):
            return "paused", f"in the {phase} phase"
        case RunResumed(paused_ms):
            return "resumed", f"after {paused_ms / 1000:.1f} s"
        case Rescaled(before, after, checkpoint_id):
            return "rescaled", rescaled(before, after, checkpoint_id)
        case RunFailed(error):
            return "failed", f"{type(error).__name__}: {what_happened(error)}"
    return None


def _how_stopped(savepoint: Stop | None, inside_epoch: bool) -> str:
    if savepoint is not None:
        return f"with savepoint, {savepoint.value}"
    if inside_epoch:
        return "in the middle of an epoch; the next start processes that epoch again"
    return "before the switch; the next start processes what no checkpoint holds again"
