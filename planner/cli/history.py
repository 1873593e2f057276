"""``mixedmode history LOCATION``: what the runs of a job have told, also of last night's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...runtime.metrics.event_descriptions import ROUTINE, description_of
from ...runtime.metrics.events import events
from ...runtime.metrics.events.event_json import to_json
from ...runtime.metrics.events.event_reader import read_history
from ...runtime.metrics.events.events import RunEvent
from .console import moment_text, option_duration_ms, print_table, say


def chosen_events(location: str, run: str | None, last: str | None, everything: bool) -> list[RunEvent]:
    """The events that were asked for, oldest first.

    Args:
        location: the job's checkpointLocation.
        run: how the id of the run begins; None: of all runs.
        last: only so long back; None: all.
        everything: also what comes with every epoch.
    """
    back_ms = option_duration_ms("--last", last)
    since_ms = None if back_ms is None else round(time.time() * 1000) - back_ms
    found = read_history(location, run=run, since_ms=since_ms)
    return [event for event in found if everything or not isinstance(event, ROUTINE)]


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
        [[moment_text(one.at_ms)[:23], one.run_id[:8], _kind(one), _detail(one)] for one in found],
    )
    for run_id in _without_an_end(found):
        say(f"run {run_id[:8]} has not written how it ended: it was killed, or still runs (see mixedmode status)")


def _without_an_end(found: Sequence[RunEvent]) -> Iterator[str]:
    ended = {event.run_id for event in found if isinstance(event, events.RunEnded)}
    yield from (run_id for run_id in dict.fromkeys(event.run_id for event in found) if run_id not in ended)


def _kind(event: RunEvent) -> str:
    return event.kind if isinstance(event, events.UnknownEvent) else type(event).__name__


def _detail(event: RunEvent) -> str:
    words = description_of(event)
    return "" if words is None else words.detail
