"""How the time of a backlog grows: the points that are measured, their table, and their picture.

One thing is changed at a time, from one base point: the number of rows, the number of keys, the width of a row, the
skew of the keys.  Every axis contains the base point.
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
from ways import MIXED, PLAIN

JOBS = ("aggregate", "processor")
_COLORS = {MIXED: "#3366aa", PLAIN: "#bbbbbb"}
_AXES = ("rows", "keys", "width", "skew")
_SKEWS = {"uniform": "uniform", "zipf-1.0": "Zipf 1.0", "zipf-1.5": "Zipf 1.5", "hot": "one key has half"}


@dataclass(frozen=True)
class Point:
    """A place on an axis."""

    axis: str
    label: str
    shape: Shape


def points(base_rows: int) -> list[Point]:
    """All points for a job whose base point has so many rows; ten rows a key."""
    base = Shape(base_rows, base_rows // 10)
    few, some = 100, max(base.keys // 100, 200)
    return [
        *(Point("rows", f"{rows:,}", replace(base, rows=rows)) for rows in _steps(base_rows)),
        *(Point("keys", f"{keys:,}", replace(base, keys=keys)) for keys in (few, some, base.keys)),
        Point("width", "3 columns", base),
        Point("width", "13 columns", replace(base, width="columns")),
        Point("width", f"{TEXT_BYTES} bytes of text", replace(base, width="text")),
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
        table = [["what", "rows", "keys", f"{MIXED}, s", "million rows/s", f"{PLAIN}, s", f"x {PLAIN}"]]
        for point in points(base_rows(measurements, job)):
            measurement = measurements.get(name(job, point.shape))
            if measurement is not None:
                table.append(_row(point, measurement))
        if job == "processor":
            table = [row[:5] for row in table]
        found += [f"### {job.capitalize()}", "", *markdown(table), ""]
    return found


def _row(point: Point, measurement: Measurement) -> list[str]:
    mixed = median(measurement.seconds[MIXED])
    row = [f"{point.axis}: {point.label}", f"{point.shape.rows:,}", f"{point.shape.keys:,}", f"{mixed:.2f}"]
    row.append(f"{point.shape.rows / mixed / 1e6:.3g}")
    if PLAIN in measurement.seconds:
        plain = median(measurement.seconds[PLAIN])
        row += [f"{plain:.2f}", f"{plain / mixed:.2f}"]
    return row


def plot(all_measurements: Iterable[Measurement], path: Path) -> None:
    """The same as a picture: a row for each job, a column for each axis."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    measurements = {one.name: one for one in all_measurements}
    figure, places = pyplot.subplots(len(JOBS), len(_AXES), figsize=(12, 5.5), constrained_layout=True)
    for job, row in zip(JOBS, places, strict=True):
        every = [point for point in points(base_rows(measurements, job)) if name(job, point.shape) in measurements]
        for axis, place in zip(_AXES, row, strict=True):
            mine = [point for point in every if point.axis == axis]
            _draw(place, axis, mine, [measurements[name(job, point.shape)] for point in mine])
        row[0].set_ylabel(f"{job}: seconds")
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _draw(place: Any, axis: str, mine: Sequence[Point], measured: Sequence[Measurement]) -> None:
    """One axis of one job: a line over numbers, bars over kinds."""
    ways = [way for way in (MIXED, PLAIN) if all(way in one.seconds for one in measured)]
    for number, way in enumerate(ways):
        seconds = [median(one.seconds[way]) for one in measured]
        if axis in ("rows", "keys"):
            numbers = [getattr(point.shape, axis) for point in mine]
            place.plot(numbers, seconds, marker="o", markersize=4, color=_COLORS[way], label=way)
        else:
            width = 0.8 / len(ways)
            starts = [start + number * width for start in range(len(mine))]
            place.bar(starts, seconds, width, color=_COLORS[way], align="edge", label=way)
    if axis in ("rows", "keys"):
        place.set_xscale("log")
        if axis == "rows":
            place.set_yscale("log")
    else:
        place.set_xticks(
            [start + 0.4 for start in range(len(mine))], [point.label for point in mine], rotation=20, ha="right"
        )
    if axis != "rows":
        place.set_ylim(bottom=0)
    place.set_title(axis)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
