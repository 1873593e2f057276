"""``mixedmode history LOCATION``: what the runs of a job have told, also of last night's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...runtime.metrics.events import events
from ...runtime.metrics.events.event_json import to_json
from ...runtime.metrics.events.event_reader import read_history
from ...runtime.metrics.events.events import RunEvent
from ...runtime.metrics.units import rescaled, time_to_go
from .console import duration_ms, moment_text, print_table, say, size

#: What there is one of for each micro-batch, and would hide all else.
_ROUTINE = (events.EpochApplied, events.PositionsKnown, events.BacklogProgressed, events.CheckpointCompleted)


def history_of(location: str, run: str | None, last: str | None, everything: bool) -> list[RunEvent]:
    """The events that were asked for, oldest first.

    Args:
        location: the job's checkpointLocation.
        run: how the id of the run begins; None: of all runs.
        last: only so long back; None: all.
        everything: also what comes with every epoch.
    """
    back_ms = duration_ms("--last", last)
    since_ms = None if back_ms is None else round(time.time() * 1000) - back_ms
    found = read_history(location, run=run, since_ms=since_ms)
    return [event for event in found if everything or not isinstance(event, _ROUTINE)]


def as_json(found: Sequence[RunEvent]) -> list[dict[str, Any]]:
    """The same as one JSON document."""
    return [to_json(event) for event in found]


def show_history(found: Sequence[RunEvent]) -> None:
    """The same as a table, and a line for runs that have not said how they ended."""
    if not found:
        say("no events match")
        return
    print_table(
        ["time (UTC)", "run", "event", "what"],
        [[moment_text(one.at_ms)[:23], one.run_id[:8], _kind(one), _in_words(one)] for one in found],
    )
    for run_id in _without_an_end(found):
        say(f"run {run_id[:8]} has not written how it ended: it was killed, or still runs (see mixedmode status)")


def _without_an_end(found: Sequence[RunEvent]) -> Iterator[str]:
    ended = {event.run_id for event in found if isinstance(event, events.RunEnded)}
    yield from (run_id for run_id in dict.fromkeys(event.run_id for event in found) if run_id not in ended)


def _kind(event: RunEvent) -> str:
    return event.kind if isinstance(event, events.UnknownEvent) else type(event).__name__


def _in_words(event: RunEvent) -> str:
    match event:
        case events.RunBegan():
            by_restart = f", start {event.generation} of the location" if event.generation > 1 else ""
            return f"{event.name or event.query_id} on {event.host} (process {event.pid}){by_restart}; {event.sink}"
        case events.RunRestored():
            return f"from checkpoint {event.checkpoint_id}, epoch {event.epoch}{' (drained)' if event.drained else ''}"
        case events.PhaseBegan():
            return event.phase
        case events.BacklogProgressed():
            done = "" if event.fraction is None else f"{event.fraction:.0%}, "
            time_left = time_to_go(event.eta_s, event.eta_low_s, event.eta_high_s)
            left = "" if time_left is None else f", {time_left} left"
            speed = f"{event.rows:,} rows, {event.rows_per_second:,.0f} rows/s"
            return f"{event.stage}: {done}{event.shards_done} of {event.shards} shards, {speed}{left}"
        case events.EpochApplied():
            which = f"{event.epoch}" if event.epochs == 1 else f"up to {event.epoch} ({event.epochs} epochs)"
            rows = f"{event.input_rows:,} rows in, {event.output_rows:,} out, {event.late_rows:,} late"
            return f"{which}, {event.mode}: {rows}, {event.duration_ms:,.0f} ms, state {size(event.state_bytes)}"
        case events.PositionsKnown():
            return "; ".join(f"{one.name}: {one.end}{_waits(one.lag_messages)}" for one in event.positions)
        case events.SourceChanged():
            return f"{event.source} isBacklog={str(event.is_backlog).lower()} after epoch {event.epoch}: {event.reason}"
        case events.DataLost():
            return f"{event.source}: {event.text}"
        case events.Noted():
            return f"{event.what}: {event.text}"
        case events.CheckpointCompleted():
            which = f"{event.checkpoint_id}" if event.checkpoints == 1 else f"up to {event.checkpoint_id}"
            return f"{which} ({event.trigger}), {event.duration_ms:,} ms, {size(event.new_bytes)} new"
        case events.CheckpointFailed():
            goes_on = "the job goes on" if event.is_tolerated else "the job does not go on"
            return f"{event.checkpoint_id} ({event.trigger}) {event.outcome}, {goes_on}: {event.error}"
        case events.SavepointWritten():
            return event.path
        case events.ShardsRescaled():
            return rescaled(event.before, event.after, event.checkpoint_id)
        case events.RunEnded():
            savepoint = "" if event.savepoint is None else f", with savepoint {event.savepoint}"
            return f"{event.how}{savepoint}" if event.error is None else f"failed: {event.error_class}: {event.error}"
    return ""


def _waits(messages: int | None) -> str:
    return "" if messages is None else f" ({messages:,} wait)"
