"""Says in English what has happened in a run: a name, a detail and a sentence for each event.

Those of the driver's facts are in :mod:`.fact_descriptions`: events are read where there is no Spark.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

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
def description_of(happened: object) -> Description | None:
    """The description of an event or a fact; None: it is one of many whose numbers are shown instead."""
    return None


@description_of.register
def _(it: RunRestored) -> Description:
    drained = ", taken by a drain; this run continues after it" if it.drained else ""
    return Description(
        "restored",
        f"checkpoint {it.checkpoint_id}, epoch {it.epoch}{drained}",
        f"goes on from checkpoint {it.checkpoint_id}, behind epoch {it.epoch}",
    )


@description_of.register
def _(it: DataLost) -> Description:
    if it.is_file:
        what = f"{it.source} is {it.fate}: its rows that no checkpoint holds are lost"
    else:
        perhaps = "while they were read: any of them may be missing" if it.fate == "perhaps" else "never read"
        what = f"{it.text}: gone from the source, {perhaps}"
    detail = f"{what} (failOnDataLoss = false)"
    return Description("data-lost", detail, f"data lost: {detail}")


@description_of.register
def _(it: PhaseBegan) -> Description:
    return Description("phase", it.phase, _PHASES.get(it.phase, it.phase))


@description_of.register
def _(it: SourceChanged) -> Description:
    how = "is in backlog again" if it.is_backlog else "is no longer in backlog"
    return Description(
        "switch",
        f"{it.source} isBacklog={str(it.is_backlog).lower()} after epoch {it.epoch}: {it.reason}",
        f"{it.source} {how}, behind epoch {it.epoch}: {it.reason}",
    )


@description_of.register
def _(it: CheckpointCompleted) -> Description:
    how = f"({it.trigger}, {it.duration_ms} ms)"
    return Description("checkpoint", f"{it.checkpoint_id} {how}", f"checkpoint {it.checkpoint_id} is complete {how}")


@description_of.register
def _(it: CheckpointFailed) -> Description:
    detail = f"{it.checkpoint_id} ({it.trigger}) {it.outcome}: {it.error_class}: {it.error}"
    return Description("checkpoint-failed", detail, f"checkpoint {detail}")


@description_of.register
def _(it: SavepointWritten) -> Description:
    detail = it.path + ", completed for an earlier run that was stopped with it" * it.by_recovery
    return Description("savepoint", detail, f"savepoint written: {detail}")


@description_of.register
def _(it: ShardsRescaled) -> Description:
    detail = rescaled(it.before, it.after, it.checkpoint_id)
    return Description("rescaled", detail, f"rescaled: {detail}")
