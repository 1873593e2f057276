"""Charts over the time of a job: what is drawn where.  The template writes it as SVG.

Paths by hand, and no library: those that make SVG without a browser either bring a number cruncher of tens of megabytes
(matplotlib), or fix their colours (so the page could not follow the reader's scheme), or load scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ..units import Unit, clock
from .scales import Break, Rounds, Tick, TimeScale, ValueScale, decimal

#: Of all charts, so that they stand under each other.
LEFT, RIGHT = 84.0, 988.0
#: Of one that shows values.
HEIGHT, TOP, BOTTOM = 168.0, 14.0, 142.0
#: A column of a chart: what falls into one is drawn as one.
_COLUMN = 3.0
#: Rows of the table below a chart.
_ROWS = 40
#: Points that are few enough to be seen one by one.
_FEW = 80


@dataclass(frozen=True)
class Point:
    """A value of a run at a moment."""

    run: str
    ms: int
    value: float
    #: How much it counts where several are one.
    weight: float = 1.0


@dataclass(frozen=True)
class ChartMark:
    """What is drawn at one place, and said of it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A line for each run over time."""

    key: str
    title: str
    caption: str
    lines: tuple[str, ...]
    areas: tuple[str, ...]
    marks: tuple[ChartMark, ...]
    has_dots: bool
    y_ticks: tuple[Tick, ...]
    is_logarithmic: bool
    #: Moments and values, as text.
    table: tuple[tuple[str, str], ...]
    #: In one sentence.
    summary: str
    #: What the value is called in the table.
    column: str


@dataclass(frozen=True)
class Span:
    """A stretch of a lane."""

    left: float
    width: float
    kind: str
    text: str
    #: Written into it; empty: there is no room.
    label: str = ""


@dataclass(frozen=True)
class Axis:
    """The time axis that all charts share."""

    ticks: tuple[Tick, ...]
    breaks: tuple[Break, ...]
    #: Where a run begins that is not the first.
    restarts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Shade:
    """A phase behind a chart."""

    left: float
    width: float
    kind: str


@dataclass(frozen=True)
class Series:
    """What a chart is to show.

    Args:
        key: names it in the page.
        title: its heading.
        caption: what is shown, in a sentence.
        column: what a value is called.
        unit: how a value is written.
        points: the values, by run and time.
        joined: what becomes of several that are too near to each other.
        rounds: see :class:`ValueScale`.
        is_filled: whether the line has an area below it.
    """

    key: str
    title: str
    caption: str
    column: str
    unit: Unit
    points: Sequence[Point]
    joined: Callable[[Sequence[Point]], float]
    rounds: Rounds = decimal
    is_filled: bool = True
    joined_says: str = field(default="the greatest of each moment")


def greatest(points: Sequence[Point]) -> float:
    """For what is bad where it is great."""
    return max(point.value for point in points)


def last(points: Sequence[Point]) -> float:
    """For what is so at a moment."""
    return points[-1].value


def mean(points: Sequence[Point]) -> float:
    """For rates: each counts as long as it lasted."""
    weights = sum(point.weight for point in points)
    return sum(point.value * point.weight for point in points) / weights if weights else points[-1].value


def chart(series: Series, time: TimeScale) -> Chart:
    """Lay out one chart."""
    ordered = sorted(series.points, key=lambda point: point.ms)
    columns = [
        (run, list(together))
        for (run, _), together in groupby(ordered, key=lambda point: (point.run, round(time(point.ms) / _COLUMN)))
    ]
    drawn = [Point(run, points[-1].ms, series.joined(points)) for run, points in columns]
    scale = ValueScale.of([point.value for point in drawn], BOTTOM, TOP, series.rounds)
    marks = tuple(
        ChartMark(round(time(one.ms), 1), round(scale(one.value), 1), f"{clock(one.ms)}: {series.unit(one.value)}")
        for one in drawn
    )
    lines, areas = [], []
    for _, group in groupby(zip(drawn, marks, strict=True), key=lambda pair: pair[0].run):
        places = [(mark.x, mark.y) for _, mark in group]
        lines.append("M" + " L".join(f"{x:g} {y:g}" for x, y in places))
        if series.is_filled and not scale.is_logarithmic:
            areas.append(f"M{places[0][0]:g} {BOTTOM:g} L" + lines[-1][1:] + f" L{places[-1][0]:g} {BOTTOM:g} Z")
    return Chart(
        key=series.key,
        title=series.title,
        caption=_caption(series, len(drawn) < len(ordered), scale.is_logarithmic),
        lines=tuple(lines),
        areas=tuple(areas),
        marks=marks,
        has_dots=len(marks) <= _FEW,
        y_ticks=tuple(scale.ticks(series.unit)),
        is_logarithmic=scale.is_logarithmic,
        table=tuple((clock(one.ms), series.unit(one.value)) for one in _thinned(drawn)),
        summary=_summary(series, drawn),
        column=series.column,
    )


def _caption(series: Series, is_joined: bool, is_logarithmic: bool) -> str:
    more = [series.joined_says] if is_joined else []
    more += ["logarithmic scale"] if is_logarithmic else []
    return series.caption + (f" ({'; '.join(more)})" if more else "") + "."


def _summary(series: Series, drawn: Sequence[Point]) -> str:
    if not drawn:
        return "nothing was recorded"
    values, unit = [point.value for point in drawn], series.unit
    return f"from {unit(min(values))} to {unit(max(values))}, at the end {unit(values[-1])}"


def _thinned(drawn: Sequence[Point]) -> list[Point]:
    """Evenly chosen ones, with the first, the last and the greatest."""
    if len(drawn) <= _ROWS:
        return list(drawn)
    every = (len(drawn) - 1) / (_ROWS - 1)
    chosen = {round(number * every) for number in range(_ROWS)}
    chosen.add(max(range(len(drawn)), key=lambda place: drawn[place].value))
    return [drawn[place] for place in sorted(chosen)]
