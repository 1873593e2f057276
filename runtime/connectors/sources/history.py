"""Cutting the history into epochs, for streaming mode: a bounded table read as if it arrived bit by bit.

With an event-time column the cuts are in event time, so that slices come in order and nothing is late.  Without one,
the slices are by a hash of the whole row.  Where several stages read, each takes slices of the rows that it reads, by
its own event times, and the cuts are the same for all.  Both are functions of the row alone: the same slice holds the
same rows after a restart, as long as the history itself has not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, VariantType

from ...catalyst.columns import event_time_us, quoted


@dataclass(frozen=True)
class HistoryCut:
    """Where a history is cut into slices, and which slice comes next."""

    slices: int
    #: Upper ends of all slices but the last, in microseconds of event time; None: cut by hash.
    bounds_us: tuple[int, ...] | None
    next: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"slices": self.slices, "bounds_us": self.bounds_us and list(self.bounds_us), "next": self.next}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> HistoryCut:
        bounds = body["bounds_us"]
        return cls(body["slices"], None if bounds is None else tuple(bounds), body["next"])

    @property
    def done(self) -> bool:
        """True if every slice has been processed."""
        return self.next >= self.slices

    def take(self, history: DataFrame, event_time: str | None) -> DataFrame:
        """The rows of the next slice."""
        if self.slices == 1:
            return history
        if self.bounds_us is None or event_time is None:
            return history.where(self._slice_of(history) == self.next)
        micros = event_time_us(history, event_time)
        lower = self.bounds_us[self.next - 1] if self.next else None
        upper = self.bounds_us[self.next] if self.next < len(self.bounds_us) else None
        condition = F.lit(True) if lower is None else micros > lower
        if upper is not None:
            condition = condition & (micros <= upper)
        return history.where(condition | micros.isNull() if self.next == 0 else condition)

    def _slice_of(self, history: DataFrame) -> Column:
        """The slice of a row without an event time to go by."""
        return F.pmod(F.xxhash64(*_hashable(history)), F.lit(self.slices))

    def rest(self, history: DataFrame, event_time: str | None) -> DataFrame:
        """The rows of all slices that are still to come."""
        if self.next == 0:
            return history
        if self.bounds_us is None or event_time is None:
            return history.where(self._slice_of(history) >= self.next)
        return history.where(event_time_us(history, event_time) > self.bounds_us[self.next - 1])


def cut(readers: Sequence[tuple[DataFrame, str | None]], rows_per_epoch: int) -> HistoryCut:
    """Plan slices of about ``rows_per_epoch`` rows each (two Spark jobs at most).

    Args:
        readers: for each stage the rows of the history that it takes, and the column with their event times (None: it
            has none).
        rows_per_epoch: rows that the stages together take in a slice.
    """
    rows = reduce(DataFrame.unionAll, [frame.select(F.lit(1)) for frame, _ in readers]).count()
    slices = max(1, -(-rows // rows_per_epoch))
    times = [frame.select(event_time_us(frame, column).alias("us")) for frame, column in readers if column is not None]
    if not times or slices == 1:
        return HistoryCut(slices, None)
    fractions = [index / slices for index in range(1, slices)]
    bounds = reduce(DataFrame.unionAll, times).agg(F.percentile_approx("us", fractions, 10_000)).first()
    assert bounds is not None
    distinct = sorted(set(bounds[0] or []))
    return HistoryCut(len(distinct) + 1, tuple(distinct))


def _hashable(frame: DataFrame) -> list[Column]:
    return [F.col(quoted(f.name)) for f in frame.schema.fields if not isinstance(f.dataType, (MapType, VariantType))]
