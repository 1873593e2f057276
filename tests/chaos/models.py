"""What a run must put out, and what state must be left, from its rows alone and without Spark."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from jobs import ALARMS, GAP_S, SLIDE_S, TICKS, WINDOW_S
from plans import FLUSH_KEY, Event, Plan
from support import START

Row = tuple[Any, ...]
_START_S = round(START.timestamp())


def expected(plan: Plan) -> list[Row]:
    """All rows that are committed in the end (of ticking jobs: as :func:`seen` sums them up)."""
    all_rows = [*plan.backlog, *plan.live]
    if plan.kind == "reorder":
        return sorted(row for key in _keys(plan) for row in _reordered(plan, key))
    if plan.kind == "quiet":
        return sorted(row for key in _keys(plan) for row in _alarms(plan, key))
    if plan.kind == "ticks":
        return sorted((key, len(events), sum(event[2] for event in events), True) for key, events in _by_key(all_rows))
    # Under max everything fires at the switch, and what comes later begins anew.
    parts = [plan.backlog, plan.live] if plan.final_watermark == "max" else [all_rows]
    if plan.kind == "sessions":
        of = _sessions
    elif plan.kind == "session-windows":
        of = _session_windows
    else:
        of = _means if plan.kind == "means" else _windows
    return sorted((row for part in parts for row in of(part)), key=repr)


def seen(plan: Plan, rows: Iterable[Row]) -> list[Row]:
    """Committed rows as :func:`expected` has them."""
    wanted = [row for row in rows if row[0] != FLUSH_KEY]
    if plan.kind != "ticks":
        return sorted(wanted, key=repr)
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in wanted:
        by_key[row[0]].append(row)
    found = []
    for key, ticks in by_key.items():
        steps = sorted(step for _, step, _, _ in ticks)
        each_once = steps == list(range(1, len(steps) + 1)) and len(steps) >= TICKS
        found.append((key, sum(count for _, _, count, _ in ticks), sum(total for *_, total in ticks), each_once))
    return sorted(found)


def expected_state(plan: Plan) -> dict[str, Row]:
    """What is left in the state that is looked at, by key."""
    if plan.kind != "reorder":
        return {}
    return {
        key: (len(events), sum(event[2] for event in events), -1)
        for key, events in _by_key([*plan.backlog, *plan.live])
    }


def _by_key(events: Iterable[Event]) -> list[tuple[str, list[Event]]]:
    """Rows of each key in the order of their event times."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event[1]):
        found[event[0]].append(event)
    return sorted(found.items())


def _keys(plan: Plan) -> list[str]:
    return sorted({event[0] for event in [*plan.backlog, *plan.live]})


def _rows_of(key: str, events: list[Event]) -> list[Event]:
    return sorted((event for event in events if event[0] == key), key=lambda event: event[1])


def _reordered(plan: Plan, key: str) -> Iterable[Row]:
    ordered = _rows_of(key, [*plan.backlog, *plan.live])
    if plan.final_watermark == "max":
        # Of the timers only that of the earliest row is there when MAX_WATERMARK fires; the next one is carried.
        backlog = _rows_of(key, plan.backlog)
        waiting = [row for row in backlog if row[1] > plan.observed_s] if plan.fires_in_order else backlog
        early = [row for row in waiting[:1] if row[1] > plan.observed_s]
        passed = [row for row in backlog if row[1] <= plan.observed_s]
        ordered = [*passed, *early, *(row for row in ordered if row not in passed and row not in early)]
    total = 0
    for nth, (_, seconds, value) in enumerate(ordered, 1):
        total += value
        yield (key, _ms(seconds), nth, total)


def _alarms(plan: Plan, key: str) -> Iterable[Row]:
    """The orderly stream: what is due by a row's event time less the delay fires before it, the rest at the end."""
    count, alarms, timer = 0, 0, None
    raised: list[Row] = []

    def fire(upto_s: float, most: int = ALARMS) -> None:
        nonlocal count, alarms, timer
        while timer is not None and timer <= upto_s and most:
            alarms, most = alarms + 1, most - 1
            raised.append((key, _ms(timer), count, alarms))
            timer = timer + GAP_S if alarms < ALARMS else None
            count = count if timer is not None else 0

    for part, ends_in_switch in ((plan.backlog, True), (plan.live, False)):
        for _, seconds, _ in _rows_of(key, part):
            fire(seconds - plan.delay_s)
            count, alarms, timer = count + 1, 0, seconds + GAP_S
        if ends_in_switch and plan.final_watermark == "max":
            fire(plan.observed_s)
            fire(math.inf, most=1)  # what a timer registers at the switch is carried into the stream
    fire(math.inf)
    return raised


def _split(events: Iterable[Event]) -> Iterable[tuple[str, list[Event]]]:
    """The sessions: rows of one key less than the gap apart."""
    for key, ordered in _by_key(events):
        session: list[Event] = []
        for event in ordered:
            if session and event[1] >= session[-1][1] + GAP_S:
                yield key, session
                session = []
            session.append(event)
        yield key, session


def _sessions(events: Iterable[Event]) -> Iterable[Row]:
    for key, rows in _split(events):
        yield (key, _ms(rows[0][1]), len(rows), sum(row[2] for row in rows))


def _session_windows(events: Iterable[Event]) -> Iterable[Row]:
    # The last row of a session closes it one gap later; a row at that very moment still belongs to it.
    for key, rows in _split_touching(events):
        yield (key, _window(rows[0][1], rows[-1][1] + GAP_S), *_values(rows))


def _split_touching(events: Iterable[Event]) -> Iterable[tuple[str, list[Event]]]:
    for key, ordered in _by_key(events):
        session: list[Event] = []
        for event in ordered:
            if session and event[1] > session[-1][1] + GAP_S:
                yield key, session
                session = []
            session.append(event)
        yield key, session


def _in_windows(events: Iterable[Event]) -> Iterable[tuple[str, int, list[Event]]]:
    found: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        absolute_s = _START_S + event[1]
        start_s = absolute_s - absolute_s % SLIDE_S
        while start_s > absolute_s - WINDOW_S:
            found[event[0], start_s - _START_S].append(event)
            start_s -= SLIDE_S
    for (key, start_s), rows in found.items():
        yield key, start_s, rows


def _windows(events: Iterable[Event]) -> Iterable[Row]:
    for key, start_s, rows in _in_windows(events):
        yield (key, _window(start_s, start_s + WINDOW_S), *_values(rows))


def _means(events: Iterable[Event]) -> Iterable[Row]:
    for key, start_s, rows in _in_windows(events):
        yield (key, _window(start_s, start_s + WINDOW_S), sum(row[2] for row in rows) / len(rows))


def _values(rows: list[Event]) -> Row:
    values = [row[2] for row in rows]
    return (len(values), sum(values), max(values))


def _window(start_s: int, end_s: int) -> dict[str, Any]:
    return {"start": START + timedelta(seconds=start_s), "end": START + timedelta(seconds=end_s)}


def _ms(seconds: int) -> int:
    return (_START_S + seconds) * 1000
