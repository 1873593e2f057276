"""The lanes on top of the report: phases, checkpoints, and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..run_records import RunRecord
from ..units import clock, span
from .charts import LEFT, RIGHT, Axis, ChartMark, Shade, Span
from .scales import TimeScale

#: Width of a letter in a lane, and the least width that a thing is drawn with.
_LETTER, _LEAST = 7.4, 2.0
#: Width of a sign.
_SIGN = 13.0
#: What happenings look like; others are told in the table only.
SIGNS = {
    "restored": "restart",
    "failed": "failure",
    "killed": "failure",
    "savepoint": "savepoint",
    "data-lost": "loss",
    "checkpoint-failed": "failure",
    "stopped": "end",
    "finished": "end",
}


@dataclass(frozen=True)
class Sign:
    """A happening at its place."""

    x: float
    shape: str
    text: str


@dataclass(frozen=True)
class Timeline:
    """The lanes."""

    phases: tuple[Span, ...]
    checkpoints: tuple[ChartMark, ...]
    signs: tuple[Sign, ...]
    kinds: tuple[str, ...]
    shapes: tuple[str, ...]


def time_scale(runs: Sequence[RunRecord]) -> TimeScale:
    """Of all runs; there is one at least."""
    return TimeScale.of([(run.began_ms, run.until_ms) for run in runs], LEFT, RIGHT)


def axis(runs: Sequence[RunRecord], time: TimeScale) -> Axis:
    """Marks of time, cuts in it, and where runs began."""
    return Axis(tuple(time.ticks()), tuple(time.breaks), tuple(round(time(run.began_ms), 1) for run in runs[1:]))


def shades(runs: Sequence[RunRecord], time: TimeScale) -> list[Shade]:
    """Phases behind the charts: those that are no ordinary stream."""
    return [Shade(left, width, kind) for left, width, kind, _ in _spans(runs, time) if kind not in ("live", "recovery")]


def timeline(runs: Sequence[RunRecord], time: TimeScale) -> Timeline:
    """Lay the lanes out."""
    phases, kinds = [], []
    for left, width, kind, text in _spans(runs, time):
        room = int((width - 8) / _LETTER)
        phases.append(Span(left, width, kind, text, kind if len(kind) <= room else ""))
        if kind not in kinds:
            kinds.append(kind)
    checkpoints = [
        ChartMark(
            round(time(one.at_ms), 1),
            0,
            f"checkpoint {one.checkpoint_id} ({one.trigger}), {clock(one.at_ms)},"
            f" took {span(one.duration_ms / max(one.checkpoints, 1))}",
        )
        for run in runs
        for one in run.checkpoints
    ]
    signs = [
        Sign(round(time(one.at_ms), 1), SIGNS[one.kind], f"{one.kind}, {clock(one.at_ms)}: {one.detail}")
        for run in runs
        for one in run.happenings
        if one.kind in SIGNS
    ]
    signs = _apart(signs)
    shapes = [shape for shape in dict.fromkeys(SIGNS.values()) if any(sign.shape == shape for sign in signs)]
    return Timeline(tuple(phases), tuple(_thinned(checkpoints)), tuple(signs), tuple(kinds), tuple(shapes))


def _apart(signs: Sequence[Sign]) -> list[Sign]:
    """None of the few that happen at about the same time hides another one."""
    ordered = sorted(signs, key=lambda sign: sign.x)
    found: list[Sign] = []
    limit = RIGHT - 2
    for sign in reversed(ordered):
        sign = replace(sign, x=round(min(sign.x, limit), 1))
        limit = sign.x - _SIGN
        found.append(sign)
    return found[::-1]


def _thinned(marks: Sequence[ChartMark]) -> list[ChartMark]:
    """Not two on one place."""
    found: list[ChartMark] = []
    for mark in marks:
        if not found or mark.x - found[-1].x >= 1.5:
            found.append(mark)
    return found


def _spans(runs: Sequence[RunRecord], time: TimeScale) -> list[tuple[float, float, str, str]]:
    found = []
    for run in runs:
        for phase in run.phases:
            ended_ms = run.until_ms if phase.ended_ms is None else phase.ended_ms
            left = round(time(phase.began_ms), 1)
            width = max(round(time(ended_ms) - left, 1), _LEAST)
            text = f"{phase.kind}: from {clock(phase.began_ms)}, {span(ended_ms - phase.began_ms)}"
            found.append((left, width, phase.kind, text))
    return found
