"""How the time of a backlog grows: the points that are measured, their table, and their picture.

One thing is changed at a time, from one base point: the number of rows, the number of keys, the rows a key, what a key
is, the width of a row, the skew of the keys.  Every axis contains the base point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from dataset import TEXT_BYTES, Shape
from report import markdown
from results import Measurement
from ways import DUCKDB, MIXED, PLAIN, STOCK_ONE

JOBS = ("aggregate", "processor")
#: The ways of each job, ours first.
WAYS = {"aggregate": (MIXED, PLAIN, STOCK_ONE, DUCKDB), "processor": (MIXED, STOCK_ONE)}
_COLORS = {MIXED: "#0b5fad", PLAIN: "#7a7a7a", STOCK_ONE: "#c8641b", DUCKDB: "#3f8f4f"}
_MARKERS = {MIXED: "o", PLAIN: "s", STOCK_ONE: "^", DUCKDB: "v"}
#: By axis what is written below it.
_AXES = {
    "rows": "rows",
    "keys": "keys",
    "rows a key": "rows a key",
    "key": "kind of key",
    "width": "width of a row",
    "skew": "skew of the keys",
}
_NUMBERS = ("rows", "keys", "rows a key")
_KINDS = {"scattered": "scattered", "sequential": "sequential", "uuid": "uuid", "composite": "composite"}
_SKEWS = {"uniform": "uniform", "zipf-1.0": "Zipf 1.0", "zipf-1.5": "Zipf 1.5", "hot": "hot half"}


@dataclass(frozen=True)
class Point:
    """A place on an axis."""

    axis: str
    label: str
    shape: Shape


def points(base_rows: int) -> list[Point]:
    """All points for a job whose base point has so many rows; ten rows a key, scattered keys."""
    base = Shape(base_rows, base_rows // 10)
    keys = (100, max(base.keys // 100, 200), base.keys, base.keys * 10)
    narrow = (("width", "3 columns", "narrow"), ("width", "13 columns", "columns"), ("width", "text", "text"))
    return [
        *(Point("rows", f"{rows:,}", replace(base, rows=rows)) for rows in _steps(base_rows)),
        *(Point("keys", f"{count:,}", replace(base, keys=count)) for count in keys),
        *(Point("rows a key", str(each), replace(base, keys=base_rows // each)) for each in (2, 10, 50)),
        *(Point("key", label, replace(base, key=kind)) for kind, label in _KINDS.items()),  # type: ignore[arg-type]
        *(Point(axis, label, replace(base, width=width)) for axis, label, width in narrow),  # type: ignore[arg-type]
        *(Point("skew", label, replace(base, skew=skew)) for skew, label in _SKEWS.items()),  # type: ignore[arg-type]
    ]


def _steps(base_rows: int) -> tuple[int, ...]:
    return base_rows // 10, base_rows * 3 // 10, base_rows, base_rows * 3


def name(job: str, shape: Shape) -> str:
    """The measurement's name; a point that two axes share is measured once."""
    return f"growth-{job}-{shape.name}"


def base_rows(measurements: Mapping[str, Measurement], job: str) -> int:
    """Rows of the base point of what has been measured."""
    found = {int(one.parameters["base"]) for key, one in measurements.items() if key.startswith(f"growth-{job}-")}
    if len(found) != 1:
        raise ValueError(f"the growth of the {job} has been measured for {len(found)} base points, not for one")
    return found.pop()


def lines(all_measurements: Iterable[Measurement]) -> list[str]:
    """A markdown table for each job."""
    measurements = {one.name: one for one in all_measurements}
    found: list[str] = []
    for job in JOBS:
        others = WAYS[job][1:]
        table = [["what", "rows", "keys", f"{MIXED}, s", "million rows/s"]]
        table[0] += [column for way in others for column in (f"{way}, s", f"x {way}")]
        for point in points(base_rows(measurements, job)):
            measurement = measurements.get(name(job, point.shape))
            if measurement is not None:
                table.append(_row(point, measurement, others))
        found += [f"### {job.capitalize()}", "", *markdown(table), ""]
    return [*found, f"A row of text has {TEXT_BYTES} bytes of it; a hot half: one key has half of all rows."]


def is_cut(measurement: Measurement, way: str) -> bool:
    """Whether a way was stopped before its end: what it took is a lower bound."""
    return way in measurement.parameters.get("cut", ())


def _row(point: Point, measurement: Measurement, others: Sequence[str]) -> list[str]:
    mixed = median(measurement.seconds[MIXED])
    row = [f"{point.axis}: {point.label}", f"{point.shape.rows:,}", f"{point.shape.keys:,}", f"{mixed:.2f}"]
    row.append(f"{point.shape.rows / mixed / 1e6:.3g}")
    for way in others:
        if way in measurement.seconds:
            seconds, more = median(measurement.seconds[way]), "> " if is_cut(measurement, way) else ""
            row += [f"{more}{seconds:.2f}", f"{more}{seconds / mixed:.2f}"]
        else:
            row += ["", ""]
    return row


def plot(all_measurements: Iterable[Measurement], path: Path) -> None:
    """The same as a picture: a row for each job, a column for each axis; all of them are logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    measurements = {one.name: one for one in all_measurements}
    figure, places = pyplot.subplots(
        len(JOBS), len(_AXES), figsize=(15, 6), constrained_layout=True, sharey="row", squeeze=False
    )
    for job, row in zip(JOBS, places, strict=True):
        every = [point for point in points(base_rows(measurements, job)) if name(job, point.shape) in measurements]
        for axis, place in zip(_AXES, row, strict=True):
            mine = [point for point in every if point.axis == axis]
            _draw(place, job, axis, mine, [measurements[name(job, point.shape)] for point in mine])
        row[0].set_ylabel(f"{job}: seconds")
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _draw(place: Any, job: str, axis: str, mine: Sequence[Point], measured: Sequence[Measurement]) -> None:
    """One axis of one job: a line over numbers, marks alone over kinds; an arrow where a way was stopped."""
    for way in WAYS[job]:
        there = [(point, one) for point, one in zip(mine, measured, strict=True) if way in one.seconds]
        across = [_number(axis, point) if axis in _NUMBERS else mine.index(point) for point, _ in there]
        seconds = [median(one.seconds[way]) for _, one in there]
        line = "-" if axis in _NUMBERS else "none"
        place.plot(across, seconds, linestyle=line, marker=_MARKERS[way], markersize=5, color=_COLORS[way], label=way)
        for at, height, (_, one) in zip(across, seconds, there, strict=True):
            if is_cut(one, way):
                up = {"arrowstyle": "<-", "color": _COLORS[way]}
                place.annotate("", (at, height), (0, 14), textcoords="offset points", arrowprops=up)
    place.set_yscale("log")
    place.margins(y=0.15)
    place.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    if axis in _NUMBERS:
        place.set_xscale("log")
        numbers = sorted({_number(axis, point) for point in mine})
        place.set_xticks(numbers, [_short(number) for number in numbers])
        place.minorticks_off()
    else:
        place.set_xticks(range(len(mine)), [point.label for point in mine], rotation=25, ha="right")
        place.set_xlim(-0.6, len(mine) - 0.4)
    place.set_xlabel(_AXES[axis])
    place.grid(axis="y", color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)


def _short(number: float) -> str:
    """A number as it is written below an axis."""
    for unit, size in ((" M", 1_000_000), (" k", 1_000)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def _number(axis: str, point: Point) -> float:
    shape = point.shape
    return shape.rows / shape.keys if axis == "rows a key" else float(getattr(shape, axis))
