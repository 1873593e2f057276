"""Cutting the history into epochs, for streaming mode: a bounded table read as if it arrived bit by bit.

With an event-time column the cuts are in event time, so that slices come in order and nothing is late.  Without one,
the slices are by a hash of the whole row.  Both are functions of the row alone: the same slice holds the same rows
after a restart, as long as the history itself has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import MapType, VariantType

from ...platform.columns import event_time_us, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
        if self.bounds_us is None:
            return history.where(F.pmod(F.xxhash64(*_hashable(history)), F.lit(self.slices)) == self.next)
        assert event_time is not None
        micros = event_time_us(history, event_time)
        lower = self.bounds_us[self.next - 1] if self.next else None
        upper = self.bounds_us[self.next] if self.next < len(self.bounds_us) else None
        condition = F.lit(True) if lower is None else micros > lower
        if upper is not None:
            condition = condition & (micros <= upper)
        return history.where(condition | micros.isNull() if self.next == 0 else condition)

    def rest(self, history: DataFrame, event_time: str | None) -> DataFrame:
        """The rows of all slices that are still to come."""
        if self.next == 0:
            return history
        if self.bounds_us is None:
            return history.where(F.pmod(F.xxhash64(*_hashable(history)), F.lit(self.slices)) >= self.next)
        assert event_time is not None
        return history.where(event_time_us(history, event_time) > self.bounds_us[self.next - 1])


def cut(history: DataFrame, event_time: str | None, rows_per_epoch: int) -> HistoryCut:
    """Plan the slices of a history of about ``rows_per_epoch`` rows each (one Spark job)."""
    if event_time is None:
        rows = history.count()
        return HistoryCut(max(1, -(-rows // rows_per_epoch)), None)
    micros = event_time_us(history, event_time)
    rows = history.count()
    slices = max(1, -(-rows // rows_per_epoch))
    if slices == 1:
        return HistoryCut(1, None)
    fractions = [index / slices for index in range(1, slices)]
    bounds = history.agg(F.percentile_approx(micros, fractions, 10_000)).first()
    assert bounds is not None
    distinct = sorted(set(bounds[0] or []))
    return HistoryCut(len(distinct) + 1, tuple(distinct))


def _hashable(frame: DataFrame) -> list[Column]:
    return [F.col(quoted(f.name)) for f in frame.schema.fields if not isinstance(f.dataType, (MapType, VariantType))]
