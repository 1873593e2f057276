"""The facts of a run as sentences that people read."""

from __future__ import annotations

from ..protocols.lifecycle.events import Stop
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
from .wording import in_words

_PHASES = {
    "backlog": "the backlog: one sorted pass, a key at a time",
    "history": "the history, read as a stream",
    "catch-up": "what waits at the live inputs, read as a stream",
    "switch": "the switch: the backlog is done",
    "live": "live: micro-batches as they come",
    "finish": "the end of all input: the operators finish",
}


def sentence(fact: Fact) -> str | None:
    """What has happened; None: it is no event of the run's life."""
    match fact:
        case Restored(checkpoint_id, epoch):
            return f"goes on from checkpoint {checkpoint_id}, behind epoch {epoch}"
        case StateEvolved(change):
            return f"state is taken over: {change}"
        case MessagesLost() | FileLost():
            return "data lost: " + _detail(fact)
        case SeamPassed(source, seam):
            return f"{source}: {seam}"
        case LiveBegins():
            return _detail(fact)
        case PhaseBegan(kind):
            return _PHASES.get(kind, kind)
        case ShardsReused(finished, shards):
            return f"{finished} of {shards} shards were finished by an earlier run, and are taken over"
        case SourceChanged(source, is_backlog, epoch, reason):
            how = "is in backlog again" if is_backlog else "is no longer in backlog"
            return f"{source} {how}, behind epoch {epoch}: {reason}"
        case LiveFolderGone():
            return f"the live folder is gone: {_detail(fact)}"
        case LiveFolderIsBack():
            return f"the live folder is there again: {_detail(fact)}"
        case CheckpointCompleted(report):
            return f"checkpoint {report.checkpoint_id} is complete ({report.trigger}, {report.duration_ms} ms)"
        case SavepointWritten():
            return f"savepoint written: {_detail(fact)}"
        case InputEnded():
            return "all sources have ended: the watermark is MAX_WATERMARK"
        case RunFinished(None):
            return "nothing to do: an earlier run has already processed all input"
        case RunFinished(checkpoint_id):
            return f"finished, with checkpoint {checkpoint_id}"
        case RunStopped(savepoint) if savepoint is not None:
            return "stopped with a savepoint" + (", drained" if savepoint is Stop.DRAIN else "")
        case RunStopped():
            return f"stopped {_detail(fact)}"
        case CheckpointFailed():
            return f"checkpoint {_detail(fact)}"
        case RunPaused():
            return f"paused, {_detail(fact)}"
        case RunResumed():
            return f"goes on, {_detail(fact)}"
        case Rescaled():
            return f"rescaled: {_detail(fact)}"
        case RunFailed():
            return f"failed: {_detail(fact)}"
    return None


def _detail(fact: Fact) -> str:
    words = in_words(fact)
    return "" if words is None else words[1]
