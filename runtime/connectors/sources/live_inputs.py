"""Several live inputs in one Structured Streaming query: which rows came from which, and how far each has come.

Spark gives a union of streams one position in its log, which is what makes the hand-over exact; what it does not tell
is which input a row came from.  So every frame of such a job carries a literal column with the number of its frame,
which no operator looks at.  A job with one live input has no such column and pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...catalyst.columns import event_time_us
from ...scan.footer_times import footer_times
from .seam_claim import SeamClaim

#: Number of the frame that a row came from.
INPUT_COLUMN = "__input"


@dataclass(frozen=True)
class LiveInput:
    """One live input of a job."""

    #: Its name in progress and checkpoints; fixed for the life of the state.
    name: str
    #: Numbers of the frames whose rows move its watermark: its own, and that of the history which precedes it.
    frames: tuple[int, ...] = ()
    #: How it goes on from its history; None: nobody has said.
    seam: SeamClaim | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Reach:
    """What a look at some rows found."""

    rows: int
    #: Greatest event time (ms) by live input, for those inputs that have rows.
    seen: dict[str, int | None]


def look_at(frame: DataFrame, event_time: str, inputs: Sequence[LiveInput]) -> Reach:
    """Count the rows of a frame and find each input's greatest event time (one Spark job)."""
    time_us = event_time_us(frame, event_time)
    if INPUT_COLUMN not in frame.columns:
        row = frame.agg(F.max(time_us), F.count("*")).first()
        assert row is not None
        greatest_ms = None if row[0] is None else row[0] // 1000
        return Reach(row[1], {one.name: greatest_ms for one in inputs} if row[1] else {})
    found = frame.groupBy(INPUT_COLUMN).agg(F.max(time_us), F.count("*")).collect()
    times = [(row[0], None if row[1] is None else row[1] // 1000) for row in found]
    return Reach(sum(row[2] for row in found), by_input(times, inputs))


def look_at_footers(frame: DataFrame, event_time: str, inputs: Sequence[LiveInput]) -> Reach | None:
    """As :func:`look_at`, without a Spark job; None: the footers of the frame's files do not say enough."""
    parts = footer_times(frame, event_time, INPUT_COLUMN if INPUT_COLUMN in frame.columns else None)
    if parts is None:
        return None
    times_ms = [(one.part, None if one.greatest_us is None else one.greatest_us // 1000) for one in parts if one.rows]
    rows = sum(one.rows for one in parts)
    if INPUT_COLUMN in frame.columns:
        return Reach(rows, by_input(times_ms, inputs))
    greatest_ms = max((time_ms for _, time_ms in times_ms if time_ms is not None), default=None)
    return Reach(rows, {one.name: greatest_ms for one in inputs} if rows else {})


def by_input(times_ms: Sequence[tuple[int, int | None]], inputs: Sequence[LiveInput]) -> dict[str, int | None]:
    """The greatest event time of each live input that has rows.

    Args:
        times_ms: event times of rows, each with the number of the frame that they came from; None: rows without any.
        inputs: the inputs.
    """
    seen: dict[str, int | None] = {}
    for one in inputs:
        mine = [time_ms for frame, time_ms in times_ms if frame in one.frames]
        if mine:
            seen[one.name] = max((time_ms for time_ms in mine if time_ms is not None), default=None)
    return seen
