"""Says in English what the driver tells of a run beside events: a name, a detail and a sentence for each fact.

Apart from events, because facts hold what only the driver's process has, and who reads events must not import Spark.
"""

from __future__ import annotations

from ..jvm.spark_errors import what_happened
from ..protocols.lifecycle.events import Stop
from ..support.redaction import redacted
from .event_descriptions import Description, description_of
from .events.facts import (
    InputEnded,
    LiveBegins,
    LiveFolderGone,
    LiveFolderIsBack,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStopped,
    SeamPassed,
    ShardsReused,
    StateEvolved,
)

__all__ = ["Description", "description_of"]


@description_of.register
def _(it: StateEvolved) -> Description:
    return Description("state-evolved", it.change, f"state is taken over: {it.change}")


@description_of.register
def _(it: SeamPassed) -> Description:
    return Description("seam", f"{it.source}: {it.seam}", f"{it.source}: {it.seam}")


@description_of.register
def _(it: LiveBegins) -> Description:
    detail = f"the live source begins at {' '.join(it.entry.splitlines()[2:])}"
    return Description("positions", detail, detail)


@description_of.register
def _(it: ShardsReused) -> Description:
    finished = f"{it.finished} of {it.shards} shards were finished"
    return Description("reused", finished, f"{finished} by an earlier run, and are taken over")


@description_of.register
def _(it: LiveFolderGone) -> Description:
    folder = redacted(it.folder)
    return Description("folder-gone", folder, f"the live folder is gone: {folder}")


@description_of.register
def _(it: LiveFolderIsBack) -> Description:
    folder = redacted(it.folder)
    return Description("folder-is-back", folder, f"the live folder is there again: {folder}")


@description_of.register
def _(it: InputEnded) -> Description:
    ended = "all sources have ended"
    return Description("MAX_WATERMARK", ended, f"{ended}: the watermark is MAX_WATERMARK")


@description_of.register
def _(it: RunFinished) -> Description:
    if it.checkpoint_id is None:
        before = "an earlier run has already processed all input"
        return Description("finished", before, f"nothing to do: {before}")
    return Description("finished", f"checkpoint {it.checkpoint_id}", f"finished, with checkpoint {it.checkpoint_id}")


@description_of.register
def _(it: RunStopped) -> Description:
    if it.savepoint is not None:
        drained = ", drained" if it.savepoint is Stop.DRAIN else ""
        return Description("stopped", f"with savepoint, {it.savepoint.value}", f"stopped with a savepoint{drained}")
    if it.inside_epoch:
        where = "in the middle of an epoch; the next start processes that epoch again"
    else:
        where = "before the switch; the next start processes what no checkpoint holds again"
    return Description("stopped", where, f"stopped {where}")


@description_of.register
def _(it: RunPaused) -> Description:
    return Description("paused", f"in the {it.phase} phase", f"paused, in the {it.phase} phase")


@description_of.register
def _(it: RunResumed) -> Description:
    after = f"after {it.paused_ms / 1000:.1f} s"
    return Description("resumed", after, f"goes on, {after}")


@description_of.register
def _(it: RunFailed) -> Description:
    detail = f"{type(it.error).__name__}: {what_happened(it.error)}"
    return Description("failed", detail, f"failed: {detail}")
