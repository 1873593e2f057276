"""Says in English what has happened in a run: a name, a detail and a sentence for each event and fact."""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

from ..jvm.spark_errors import what_happened
from ..protocols.lifecycle.events import Stop
from .events.events import (
    CheckpointCompleted,
    CheckpointFailed,
    DataLost,
    PhaseBegan,
    RunRestored,
    SavepointWritten,
    ShardsRescaled,
    SourceChanged,
)
from .events.facts import (
    InputEnded,
    LiveBegins,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStopped,
    SeamPassed,
    ShardsReused,
    StateEvolved,
)
from .units import rescaled

_PHASES = {
    "backlog": "the backlog: one sorted pass, a key at a time",
    "history": "the history, read as a stream",
    "catch-up": "what waits at the live inputs, read as a stream",
    "switch": "the switch: the backlog is done",
    "live": "live: micro-batches as they come",
    "finish": "the end of all input: the operators finish",
}


class Description(NamedTuple):
    """What has happened, as ``query.lifecycle`` and the log have it."""

    event: str
    detail: str
    sentence: str


@singledispatch
def described(happened: object) -> Description | None:
    """The description of an event or a fact; None: it is one of many whose numbers are shown instead."""
    return None


@described.register
def _(it: RunRestored) -> Description:
    drained = ", taken by a drain; this run continues after it" if it.drained else ""
    return Description(
        "restored",
        f"checkpoint {it.checkpoint_id}, epoch {it.epoch}{drained}",
        f"goes on from checkpoint {it.checkpoint_id}, behind epoch {it.epoch}",
    )


@described.register
def _(it: StateEvolved) -> Description:
    return Description("state-evolved", it.change, f"state is taken over: {it.change}")


@described.register
def _(it: DataLost) -> Description:
    if it.is_file:
        what = f"{it.source} is {it.fate}: its rows that no checkpoint holds are lost"
    else:
        perhaps = "while they were read: any of them may be missing" if it.fate == "perhaps" else "never read"
        what = f"{it.text}: gone from the source, {perhaps}"
    detail = f"{what} (failOnDataLoss = false)"
    return Description("data-lost", detail, f"data lost: {detail}")


@described.register
def _(it: SeamPassed) -> Description:
    return Description("seam", f"{it.source}: {it.seam}", f"{it.source}: {it.seam}")


@described.register
def _(it: LiveBegins) -> Description:
    detail = f"the live source begins at {' '.join(it.entry.splitlines()[2:])}"
    return Description("positions", detail, detail)


@described.register
def _(it: PhaseBegan) -> Description:
    return Description("phase", it.phase, _PHASES.get(it.phase, it.phase))


@described.register
def _(it: ShardsReused) -> Description:
    finished = f"{it.finished} of {it.shards} shards were finished"
    return Description("reused", finished, f"{finished} by an earlier run, and are taken over")


@described.register
def _(it: SourceChanged) -> Description:
    how = "is in backlog again" if it.is_backlog else "is no longer in backlog"
    return Description(
        "switch",
        f"{it.source} isBacklog={str(it.is_backlog).lower()} after epoch {it.epoch}: {it.reason}",
        f"{it.source} {how}, behind epoch {it.epoch}: {it.reason}",
    )


@described.register
def _(it: CheckpointCompleted) -> Description:
    how = f"({it.trigger}, {it.duration_ms} ms)"
    return Description("checkpoint", f"{it.checkpoint_id} {how}", f"checkpoint {it.checkpoint_id} is complete {how}")


@described.register
def _(it: CheckpointFailed) -> Description:
    detail = f"{it.checkpoint_id} ({it.trigger}) {it.outcome}: {it.error_class}: {it.error}"
    return Description("checkpoint-failed", detail, f"checkpoint {detail}")


@described.register
def _(it: SavepointWritten) -> Description:
    detail = it.path + ", completed for an earlier run that was stopped with it" * it.by_recovery
    return Description("savepoint", detail, f"savepoint written: {detail}")


@described.register
def _(it: InputEnded) -> Description:
    ended = "all sources have ended"
    return Description("MAX_WATERMARK", ended, f"{ended}: the watermark is MAX_WATERMARK")


@described.register
def _(it: RunFinished) -> Description:
    if it.checkpoint_id is None:
        before = "an earlier run has already processed all input"
        return Description("finished", before, f"nothing to do: {before}")
    return Description("finished", f"checkpoint {it.checkpoint_id}", f"finished, with checkpoint {it.checkpoint_id}")


@described.register
def _(it: RunStopped) -> Description:
    if it.savepoint is not None:
        drained = ", drained" if it.savepoint is Stop.DRAIN else ""
        return Description("stopped", f"with savepoint, {it.savepoint.value}", f"stopped with a savepoint{drained}")
    if it.inside_epoch:
        where = "in the middle of an epoch; the next start processes that epoch again"
    else:
        where = "before the switch; the next start processes what no checkpoint holds again"
    return Description("stopped", where, f"stopped {where}")


@described.register
def _(it: RunPaused) -> Description:
    return Description("paused", f"in the {it.phase} phase", f"paused, in the {it.phase} phase")


@described.register
def _(it: RunResumed) -> Description:
    after = f"after {it.paused_ms / 1000:.1f} s"
    return Description("resumed", after, f"goes on, {after}")


@described.register
def _(it: ShardsRescaled) -> Description:
    detail = rescaled(it.before, it.after, it.checkpoint_id)
    return Description("rescaled", detail, f"rescaled: {detail}")


@described.register
def _(it: RunFailed) -> Description:
    detail = f"{type(it.error).__name__}: {what_happened(it.error)}"
    return Description("failed", detail, f"failed: {detail}")
