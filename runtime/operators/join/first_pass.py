"""The first pass of a join: its sides meet no state, so Spark joins them in the JVM.

Three kinds of rows cross into Python: pairs, outer rows whose time is over without a partner, and the rows of either
side that may still meet a partner, which become state.  The last are those within their retention of the pass's final
watermark, or all if more of the backlog follows.

Each side is read once for the pairs and once for the rows that stay; where outer rows stay, also to tell which of them
have had a partner, and then only as far back as the bounds of event times allow.  So a side must give the same rows
each time: who runs the pass keeps it on disk if it does not (:func:`...catalyst.spark_plans.repeatable`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...catalyst.spark_observations import unobserved
from ...catalyst.spark_plans import is_repeatable
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ..contract import INPUT_ROWS, EpochSpec, FirstPass
from .columns import LEFT, MATCHED_COLUMN, PAIR, RIGHT, SIDE_COLUMN, TIME_COLUMN

if TYPE_CHECKING:
    from .definition import StreamJoin

#: What the event times of left and right are called beside each other, and the keys of the side that is not kept.
_TIMES = ("__lt", "__rt")
_OTHER_KEY = "__o{}"
_MAX_US = 2**63 - 1


def first_pass_of(
    join: StreamJoin,
    frame: DataFrame,
    epoch: EpochSpec,
    spread: Callable[[DataFrame], DataFrame],
    *,
    counted: bool,
) -> FirstPass:
    """What Spark makes of both sides of a join that meet no state.

    Args:
        join: the join.
        frame: both sides.
        epoch: what the tasks must know: above all the pass's final watermark, by which rows are over.
        spread: brings rows with the key columns to where Spark is to join them.
        counted: whether Spark is to count the rows of the sides on the way.

    Returns:
        Pairs, and outer rows that are over, as ``PAIR`` rows; the rows that stay, with whether they have had a partner.
    """
    # What is kept on disk, as it would be computed anew, is found by its whole plan, and was observed when it was kept.
    again = unobserved(frame) if is_repeatable(frame) else frame
    output, kept = _Output(join, frame, epoch, spread, counted, again), _Kept(join, again, epoch, spread)
    stays = [rows for side in (LEFT, RIGHT) for rows in kept.of(side)]
    return FirstPass(output.rows(), reduce(DataFrame.union, stays) if stays else None)


@dataclass(frozen=True)
class _Sides:
    """Both sides, and when their rows are over."""

    join: StreamJoin
    frame: DataFrame
    epoch: EpochSpec
    spread: Callable[[DataFrame], DataFrame]

    def side(self, side: int) -> DataFrame:
        """The rows of a side."""
        return self.frame.where(F.col(SIDE_COLUMN) == side)

    def over_until_us(self, side: int) -> int | None:
        """The event time before which rows of a side are over; None: no row of it is, whatever its event time."""
        keep_us, watermark_ms = self.join.sides[side].keep_us, self.epoch.firing_watermark_ms
        if keep_us is None or watermark_ms == MIN_WATERMARK:
            return None
        return _time(watermark_ms * 1000 - keep_us)

    @property
    def is_end(self) -> bool:
        """Whether all rows are over, with or without an event time."""
        return self.epoch.firing_watermark_ms == MAX_WATERMARK

    def beside(self, rows: DataFrame, side: int, *, is_other: bool = False) -> DataFrame:
        """Rows of a side where Spark joins them, under names that the other side does not have."""
        keys = [f"{key} AS {_OTHER_KEY.format(place)}" if is_other else key for place, key in enumerate(self._keys)]
        columns = self.join.sides[side].columns(side)
        return self.spread(rows).selectExpr(*keys, f"{TIME_COLUMN} AS {_TIMES[side]}", *columns)

    def having(self, rows: DataFrame, side: int, how: str, others: DataFrame) -> DataFrame:
        """The rows of a side with a partner among rows of the other (``leftsemi``), or without one (``leftanti``)."""
        return self.beside(rows, side).join(self.beside(others, 1 - side, is_other=True), self.is_pair(), how)

    def is_pair(self) -> Column:
        """What makes two rows a pair."""
        terms = [f"{key} = {_OTHER_KEY.format(place)}" for place, key in enumerate(self._keys)]
        left, right = (_micros(name) for name in _TIMES)
        if self.join.bounds.least_us is not None:
            terms.append(f"{left} >= {right} + {self.join.bounds.least_us}L")
        if self.join.bounds.greatest_us is not None:
            terms.append(f"{left} <= {right} + {self.join.bounds.greatest_us}L")
        is_pair = F.expr(" AND ".join(terms))
        return is_pair if self.join.residual is None else is_pair & self.join.residual.column

    def canonical(self, rows: DataFrame, row_side: int, time: str, sides: tuple[int, ...], matched: str) -> DataFrame:
        """Rows in the columns of the frame of both sides, and whether they have had a partner.

        Args:
            rows: rows with the key columns and those of some sides.
            row_side: what they are.
            time: their event time, as SQL.
            sides: those whose columns they have.
            matched: whether they have had a partner, as SQL.
        """
        theirs = [
            F.col(name) if side in sides else F.lit(None).cast(self.frame.schema[name].dataType).alias(name)
            for side, one in enumerate(self.join.sides)
            for name in one.columns(side)
        ]
        is_side, has_matched = F.lit(row_side).alias(SIDE_COLUMN), F.expr(matched).alias(MATCHED_COLUMN)
        return rows.select(*map(F.col, self._keys), is_side, F.expr(time).alias(TIME_COLUMN), *theirs, has_matched)

    @property
    def _keys(self) -> tuple[str, ...]:
        return self.join.key_columns


@dataclass(frozen=True)
class _Output(_Sides):
    """What goes out."""

    counted: bool
    #: Both sides once more.
    again: DataFrame

    def rows(self) -> DataFrame:
        """Pairs, and outer rows that are over."""
        how, left, right = self.join.how, self._counted(LEFT), self._counted(RIGHT)
        if how == "leftsemi":
            return self.canonical(self.having(left, LEFT, how, right), PAIR, _TIMES[LEFT], (LEFT,), "true")
        if how == "right":
            return self._pairs(right, left, RIGHT)
        pairs = self._pairs(left, right, LEFT)
        if how != "full" or not self._some_go_out(RIGHT):
            return pairs
        # Spark does not say where the rows of a full outer join are: neither side's key is in all of them.
        again = _Sides(self.join, self.again, self.epoch, self.spread)
        over = again.side(RIGHT)
        if not self.is_end:
            over = over.where(self._is_over(RIGHT, TIME_COLUMN))
        alone = again.having(over, RIGHT, "leftanti", again.side(LEFT))
        return pairs.union(self.canonical(alone, PAIR, self._when_over(RIGHT), (RIGHT,), "false"))

    def _counted(self, side: int) -> DataFrame:
        rows = self.side(side)
        return rows.observe(f"{INPUT_ROWS}{side}", F.count(F.lit(1)).alias("rows")) if self.counted else rows

    def _pairs(self, rows: DataFrame, others: DataFrame, side: int) -> DataFrame:
        """Pairs, and the rows of a side, if that is an outer one, that are over and have no partner.

        Args:
            rows: the rows of the side.
            others: those of the other one.
            side: the side.
        """
        is_outer = side in self.join.outer_sides and self._some_go_out(side)
        both = self.beside(rows, side).join(
            self.beside(others, 1 - side, is_other=True), self.is_pair(), "left" if is_outer else "inner"
        )
        time, matched = f"greatest({', '.join(_TIMES)})", f"{_OTHER_KEY.format(0)} IS NOT NULL"
        if is_outer:
            if not self.is_end:
                both = both.where(f"{matched} OR {self._is_over(side, _TIMES[side])}")
            time = f"CASE WHEN {matched} THEN {time} ELSE {self._when_over(side)} END"
        return self.canonical(both, PAIR, time, (LEFT, RIGHT), matched if is_outer else "true")

    def _some_go_out(self, side: int) -> bool:
        """Whether a row of a side can be over with this pass."""
        return self.is_end or self.over_until_us(side) is not None

    def _is_over(self, side: int, time: str) -> str:
        return f"{_micros(time)} < {self.over_until_us(side)}L"

    def _when_over(self, side: int) -> str:
        """The event time at which the orderly stream's watermark finds a row of a side over."""
        keep_us = self.join.sides[side].keep_us or 0
        return _later(_TIMES[side], keep_us + (1 + self.epoch.delay_ms) * 1000)


@dataclass(frozen=True)
class _Kept(_Sides):
    """What stays."""

    def of(self, side: int) -> list[DataFrame]:
        """The rows of a side that stay, in one frame or two: with a partner, and without."""
        if self.is_end:
            return []
        from_us, rows = self.over_until_us(side), self.side(side)
        if from_us is not None:
            rows = rows.where(f"{_is_from(from_us)} OR {TIME_COLUMN} IS NULL")
        is_semi = self.join.how == "leftsemi" and side == LEFT
        if not is_semi and side not in self.join.outer_sides:
            return [self.canonical(rows, side, TIME_COLUMN, (side,), "false")]
        partners = self._partners(side, from_us)
        found = {"leftanti": "false"} if is_semi else {"leftsemi": "true", "leftanti": "false"}
        return [
            self.canonical(self.having(rows, side, how, partners), side, _TIMES[side], (side,), matched)
            for how, matched in found.items()
        ]

    def _partners(self, side: int, from_us: int | None) -> DataFrame:
        """The rows of the other side that can be partners of those that stay."""
        others, bounds = self.side(1 - side), self.join.bounds
        # least <= left - right <= greatest
        least_us = bounds.least_us if side == RIGHT else None if bounds.greatest_us is None else -bounds.greatest_us
        if from_us is None or least_us is None:
            return others
        return others.where(_is_from(_time(from_us + least_us)))


def _micros(time: str) -> str:
    """An event time in microseconds, as SQL."""
    return f"unix_micros({time})"


def _is_from(from_us: int) -> str:
    """Whether an event time is this one or later, as SQL that Spark's readers can answer by statistics, if any."""
    return f"{TIME_COLUMN} >= timestamp_micros({from_us}L)"


def _later(time: str, by_us: int) -> str:
    """An event time and so much more, as SQL."""
    return f"timestamp_micros({_micros(time)} + {by_us}L)"


def _time(time_us: int) -> int:
    return max(-_MAX_US, min(time_us, _MAX_US))
