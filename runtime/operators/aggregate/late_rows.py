"""Finds an aggregate's late rows once more, to hand them out: their window, or their session in this epoch, is over.

The run drops and counts them (:meth:`AggregateRun._admitted`).  Spark's partial aggregation has made one row of many
when lateness is decided, so the same rule (:mod:`..admission`) is put to the single rows here.  Invariant: it finds
exactly the rows that the run counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...catalyst.columns import event_time_us, quoted
from ..admission import is_over
from .definition import interval

if TYPE_CHECKING:
    from .definition import Aggregation, GroupColumns

#: Columns that are added for the comparison.
_KEY, _START, _END, _TIME, _COUNT = (f"__late_{name}" for name in ("key", "start", "end", "time", "count"))


def late_rows(operator: Aggregation, frame: DataFrame, groups: GroupColumns, late_ms: int) -> DataFrame | None:
    """The rows of a frame that are late by this watermark; None: no row of such an aggregate ever is."""
    if operator.session is not None:
        return _in_late_sessions(operator, frame, groups, late_ms) if operator.uses_event_time else None
    if operator.time_key is None:
        return None
    place = operator.keys.index(operator.time_key)
    rows = frame
    if groups.sliding is not None and groups.sliding.place == place:
        # A row counts in the latest of its windows: if that is over, all are.
        rows = frame.withColumn(_TIME, groups.sliding.time).select("*", groups.keys[place].alias(_KEY))
        rows = rows.where(F.col(_TIME) < F.col(_KEY)["start"] + F.expr(interval(groups.sliding.slide_us)))
    else:
        rows = frame.select("*", groups.keys[place].alias(_KEY))
    end = F.col(_KEY)["end"] if operator.time_key.kind == "window" else F.col(_KEY)
    rows = rows.withColumn(_END, end)
    return rows.where(is_over(rows, _END, late_ms))


def _in_late_sessions(operator: Aggregation, frame: DataFrame, groups: GroupColumns, late_ms: int) -> DataFrame | None:
    """Rows of sessions (of this frame's rows alone) that are over; a row in time keeps its session's others in time."""
    assert operator.session is not None and operator.event_time is not None
    place = operator.keys.index(operator.session)
    names = [f"{_KEY}_{index}" for index in range(len(groups.keys))]
    grouped = frame.groupBy(*[key.alias(name) for key, name in zip(groups.keys, names, strict=True)]).agg(
        F.count("*").alias(_COUNT)
    )
    sessions = grouped.select(
        *[F.col(name).alias(f"{name}_of") for index, name in enumerate(names) if index != place],
        F.col(names[place])["start"].alias(_START),
        F.col(names[place])["end"].alias(_END),
        _COUNT,
    )
    # Were it a condition on the key alone, Spark would put it to the rows, before they are merged into sessions.
    over = sessions.where(F.signum(event_time_us(sessions, _END) - late_ms * 1000) * F.col(_COUNT) <= 0)
    rows = frame.select("*", *[key.alias(names[i]) for i, key in enumerate(groups.keys) if i != place])
    time = F.col(quoted(operator.event_time))
    same = (time >= F.col(_START)) & (time < F.col(_END))
    for index, name in enumerate(names):
        if index != place:
            same = same & F.col(name).eqNullSafe(F.col(f"{name}_of"))
    return rows.join(over, same, "left_semi")
