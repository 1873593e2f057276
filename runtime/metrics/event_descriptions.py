"""Says in English what has happened in a run: a name, a detail and a sentence for each event.

Those of the driver's facts are in :mod:`.fact_descriptions`: events are read where there is no Spark.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

from .events.event_parts import Latencies
from .events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    CheckpointFailed,
    DataLost,
    EpochApplied,
    Noted,
    PhaseBegan,
    PositionsKnown,
    RealTimeProgressed,
    RunBegan,
    RunEnded,
    RunRestored,
    SavepointWritten,
    ShardsRescaled,
    SourceChanged,
)
from .units import percent, rescaled, size, time_to_go, whole

_PHASES = {
    "backlog": "the backlog: one sorted pass, a key at a time",
    "history": "the history, read as a stream",
    "catch-up": "what waits at the live inputs, read as a stream",
    "switch": "the switch: the backlog is done",
    "live": "live: micro-batches as they come",
    "finish": "the end of all input: the operators finish",
}


#: Events that come with every epoch, and would hide all others.
ROUTINE = (EpochApplied, PositionsKnown, BacklogProgressed, RealTimeProgressed, CheckpointCompleted)


class Description(NamedTuple):
    """A name, a detail and a sentence, for ``query.lifecycle``, the logs, ``watch`` and the report."""

    event: str
    detail: str
    sentence: str


@singledispatch
def description_of(happened: object) -> Description | None:
    """The description of an event or a fact; None: there are no words for it."""
    return None


@description_of.register
def _(it: RunBegan) -> Description:
    start = f", start {it.generation} of the location" if it.generation > 1 else ""
    versions = "".join(f", {name} {version}" for name, version in it.versions.items())
    return _plain("began", f"{it.name or it.query_id} on {it.host} (process {it.pid}){start}, to {it.sink}{versions}")


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
        what = f"{it.text or f'{it.topic}/{it.partition}'}: gone from the source, {perhaps}"
    detail = f"{what} (failOnDataLoss = false)"
    return Description("data-lost", detail, f"data lost: {detail}")


@description_of.register
def _(it: Noted) -> Description:
    return _plain(it.what, it.text)


@description_of.register
def _(it: BacklogProgressed) -> Description:
    done = "" if it.fraction is None else f"{percent(it.fraction)}, "
    time_left = time_to_go(it.eta_s, it.eta_low_s, it.eta_high_s)
    left = "" if time_left is None else f", {time_left} left"
    speed = f"{whole(it.rows)} rows, {whole(it.rows_per_second)} rows/s"
    return _plain("backlog", f"{it.stage}: {done}{it.shards_done} of {it.shards} shards, {speed}{left}")


@description_of.register
def _(it: RealTimeProgressed) -> Description:
    return _plain("real-time", f"epoch {it.epoch}: {', '.join(real_time_numbers(it))}")


def real_time_numbers(it: RealTimeProgressed, now_ms: int | None = None) -> list[str]:
    """How far an epoch in Real-Time Mode is, and how fast the last rows were.

    Args:
        it: the last that was told: while no row comes nothing is.
        now_ms: when it is read; None: when it was told.
    """
    elapsed_s = it.elapsed_s + (0 if now_ms is None else max(now_ms - it.at_ms, 0) / 1000)
    parts = [f"{whole(it.rows)} rows in {elapsed_s:.0f} s", f"{whole(it.rows_per_second)} rows/s"]
    return parts if it.latencies is None else [*parts, in_ms(it.latencies)]


def in_ms(latencies: Latencies) -> str:
    """Latencies in words."""
    return f"latency p50 {latencies.p50_ms:,} ms, p99 {latencies.p99_ms:,} ms, max {latencies.max_ms:,} ms"


@description_of.register
def _(it: EpochApplied) -> Description:
    which = f"{it.epoch}" if it.epochs == 1 else f"up to {it.epoch} ({it.epochs} epochs)"
    rows = f"{whole(it.input_rows)} rows in, {whole(it.output_rows)} out, {whole(it.late_rows)} late"
    took = "" if it.latencies is None else f", {in_ms(it.latencies)}"
    state = f"state {size(it.state_bytes)}"
    return _plain("epoch", f"{which}, {it.mode}: {rows}, {whole(it.duration_ms)} ms, {state}{took}")


@description_of.register
def _(it: PositionsKnown) -> Description:
    waits = {one.name: "" if one.lag_messages is None else f" ({whole(one.lag_messages)} wait)" for one in it.positions}
    return _plain("positions", "; ".join(f"{one.name}: {one.end}{waits[one.name]}" for one in it.positions))


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
    which = f"{it.checkpoint_id}" if it.checkpoints == 1 else f"up to {it.checkpoint_id}"
    how = f"({it.trigger}, {whole(it.duration_ms)} ms)"
    held = f"{size(it.new_bytes)} new, {whole(it.state_entries)} entries of state"
    return Description("checkpoint", f"{which} {how}: {held}", f"checkpoint {it.checkpoint_id} is complete {how}")


@description_of.register
def _(it: CheckpointFailed) -> Description:
    goes_on = "the job goes on" if it.is_tolerated else "the job does not go on"
    detail = f"{it.checkpoint_id} ({it.trigger}) {it.outcome}, {goes_on}: {it.error_class}: {it.error}"
    return Description("checkpoint-failed", detail, f"checkpoint {detail}")


@description_of.register
def _(it: SavepointWritten) -> Description:
    detail = it.path + ", completed for an earlier run that was stopped with it" * it.by_recovery
    return Description("savepoint", detail, f"savepoint written: {detail}")


@description_of.register
def _(it: ShardsRescaled) -> Description:
    detail = rescaled(it.before, it.after, it.checkpoint_id)
    return Description("rescaled", detail, f"rescaled: {detail}")


@description_of.register
def _(it: RunEnded) -> Description:
    if it.how == "failed":
        return _plain(it.how, f"{it.error_class or 'error'}: {it.error or 'no reason was given'}")
    if it.savepoint is not None:
        return _plain(it.how, f"with savepoint {it.savepoint}{' after a drain' * it.drained}")
    return _plain(it.how, "all input is processed" if it.how == "finished" else "on request")


def _plain(event: str, detail: str) -> Description:
    """What is only shown among other events, and has no sentence of its own."""
    return Description(event, detail, detail)
