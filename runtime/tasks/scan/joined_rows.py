"""Both sides of a join that meet no state, joined by numpy: what ``first_pass`` of the operator has Spark make of them.

Pairs, and outer rows that are over without a partner, go out as they are; the rows of either side that may still meet a
partner come behind them, in order, and become state.  The rules are those of :mod:`...operators.join.first_pass`.

Rows of one side are put in the order of key and event time, both in one number, in which the partners of a row of the
other side are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.gather import gathered
from ...operators.contract import EpochSpec
from ...operators.join.columns import LEFT, MATCHED_COLUMN, PAIR, RIGHT, SIDE_COLUMN, TIME_COLUMN
from ...operators.join.definition import How, StreamJoin, TimeBounds
from ...operators.join.pairing import covered, pairs_of, partner_times
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN, NO_TIME
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...scan.parquet_scan import NotTakenError
from .key_order import in_order, order_of_numbers
from .row_work import RowWork

_MAX_US = 2**63 - 1
#: Pairs that are made at once, and their bytes, about.
_PAIRS, _PAIR_BYTES = 1 << 17, 1 << 23


@dataclass(frozen=True)
class JoinedRows(RowWork):
    """The rows of a join.

    Args:
        key_columns: see :class:`.row_work.RowWork`.
        group_columns: see :class:`.row_work.RowWork`.
        sides: see :class:`.row_work.RowWork`.
        how: which rows go out besides pairs, or in their place.
        bounds: of the event times of a pair.
        outer: the sides whose rows go out without a partner.
        keep_us: by side how long rows wait.
        firing_ms: the watermark by which rows are over.
        delay_ms: how far it stays behind event times.
    """

    how: How
    bounds: TimeBounds
    outer: tuple[int, ...]
    keep_us: tuple[int | None, int | None]
    firing_ms: int
    delay_ms: int

    side_column = SIDE_COLUMN

    def of_shard(self, sides: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [_Side(batch, self.key_columns) for batch in sides]
        low, high, ordered = self._partners(*rows)
        counts = high - low
        matched = [np.zeros(len(one.times), dtype=bool) for one in rows]
        matched[LEFT][ordered[LEFT]] = counts > 0
        matched[RIGHT][ordered[RIGHT]] = covered(low, high, len(ordered[RIGHT]))
        if self.how == "leftsemi":
            at = np.flatnonzero(matched[LEFT])
            yield from self._out(rows, {LEFT: at}, rows[LEFT].times[at], LEFT, True)
        else:
            yield from self._pairs(rows, low, high, ordered)
            for side in self.outer:
                at = np.flatnonzero(~matched[side] & self._is_over(side, rows[side].times))
                yield from self._out(rows, {side: at}, self._when_over(side, rows[side].times[at]), side, False)
        kept = [self._kept(side, rows[side], matched[side]) for side in (LEFT, RIGHT)]
        staying = [batch for batch in kept if batch is not None and batch.num_rows]
        if staying:
            yield in_order(pa.concat_batches(staying), (*self.key_columns, TIME_COLUMN))

    # -- partners ------------------------------------------------------------------------------------------------------

    def _partners(self, left: _Side, right: _Side) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """For left rows in some order the stretch of right rows in some order that they are pairs with.

        Returns:
            Where the stretches begin and end, and the places of both sides' rows in these orders.
        """
        codes, others = _codes(left, right)
        lefts = np.flatnonzero((codes >= 0) & (left.times != NO_TIME))
        rights = np.flatnonzero((others >= 0) & (right.times != NO_TIME))
        none = np.zeros(0, dtype=np.int64)
        if not len(lefts) or not len(rights):
            return none, none, [none, none]
        times = right.times[rights]
        earliest, latest = partner_times(left.times[lefts], LEFT, self.bounds)
        first_us, last_us = int(times.min()), int(times.max())
        if int(others.max() + 1) * (last_us - first_us + 1) < _MAX_US:
            ranks, width = times - first_us, last_us - first_us + 1
            low_ranks = np.clip(earliest, first_us, last_us + 1) - first_us
            high_ranks = np.clip(latest, first_us - 1, last_us) - first_us + 1
        else:  # so far apart that key and time do not fit into one number
            known = np.unique(times)
            ranks, width = np.searchsorted(known, times), len(known)
            low_ranks = np.searchsorted(known, earliest)
            high_ranks = np.searchsorted(known, latest, side="right")
        numbers = others[rights] * width + ranks
        order = order_of_numbers(numbers)
        numbers, rights = numbers[order], rights[order]
        firsts = codes[lefts] * width + low_ranks
        order = order_of_numbers(firsts)  # what is looked up one behind the other is found faster
        low = np.searchsorted(numbers, firsts[order])
        high = np.searchsorted(numbers, (codes[lefts] * width + high_ranks)[order])
        return low, np.maximum(low, high), [lefts[order], rights]

    def _pairs(
        self, rows: Sequence[_Side], low: np.ndarray, high: np.ndarray, ordered: Sequence[np.ndarray]
    ) -> Iterator[pa.RecordBatch]:
        row_bytes = sum(one.batch.nbytes // max(1, one.batch.num_rows) for one in rows)
        for here, there in pairs_of(low, high, max(1, min(_PAIRS, _PAIR_BYTES // max(1, row_bytes)))):
            at = {LEFT: ordered[LEFT][here], RIGHT: ordered[RIGHT][there]}
            times = np.maximum(rows[LEFT].times[at[LEFT]], rows[RIGHT].times[at[RIGHT]])
            yield from self._out(rows, at, times, RIGHT if self.how == "right" else LEFT, True)

    # -- what the operator gets ----------------------------------------------------------------------------------------

    def _out(
        self, rows: Sequence[_Side], at: Mapping[int, np.ndarray], times: np.ndarray, key_side: int, matched: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows that go out.

        Args:
            rows: both sides.
            at: by side the places of the rows; a side that is not there is null.
            times: their event times.
            key_side: whose keys they have.
            matched: whether they have had a partner.
        """
        if len(times):
            yield self._batch(rows, at, PAIR, times, key_side, np.full(len(times), matched))

    def _batch(
        self,
        rows: Sequence[_Side],
        at: Mapping[int, np.ndarray],
        row_side: int,
        times: np.ndarray,
        key_side: int,
        matched: np.ndarray,
    ) -> pa.RecordBatch:
        count = len(times)
        taken = {side: pa.array(places) for side, places in at.items()}
        arrays = {
            name: gathered(rows[key_side].batch.column(name), taken[key_side])
            for name in (KEY_GROUP_COLUMN, *self.key_columns)
        }
        arrays[SIDE_COLUMN] = pa.array(np.full(count, row_side, dtype=np.int32))
        time_type = self.type_of(LEFT, TIME_COLUMN)
        arrays[TIME_COLUMN] = pa.array(times, pa.int64(), mask=times == NO_TIME).view(time_type)
        for side, one in enumerate(rows):
            for name, data_type in self.sides[side]:
                if name in arrays:
                    continue
                arrays[name] = (
                    gathered(one.batch.column(name), taken[side]) if side in at else pa.nulls(count, data_type)
                )
        arrays[MATCHED_COLUMN] = pa.array(matched)
        return pa.RecordBatch.from_pydict(arrays)

    def _kept(self, side: int, rows: _Side, matched: np.ndarray) -> pa.RecordBatch | None:
        """The rows of a side that stay."""
        if self._is_end:
            return None
        from_us, stays = self._over_until_us(side), np.ones(len(rows.times), dtype=bool)
        if from_us is not None:
            stays = (rows.times >= from_us) | (rows.times == NO_TIME)
        if self.how == "leftsemi" and side == LEFT:
            stays &= ~matched
        at = np.flatnonzero(stays)
        has_had = matched[at] if side in self.outer else np.zeros(len(at), dtype=bool)
        both = [rows, rows]  # of the other one nothing is taken
        return self._batch(both, {side: at}, side, rows.times[at], side, has_had)

    # -- when rows are over --------------------------------------------------------------------------------------------

    @property
    def _is_end(self) -> bool:
        return self.firing_ms == MAX_WATERMARK

    def _over_until_us(self, side: int) -> int | None:
        """The event time before which rows of a side are over; None: no row of it is."""
        keep_us = self.keep_us[side]
        if keep_us is None or self.firing_ms == MIN_WATERMARK:
            return None
        return max(-_MAX_US, min(self.firing_ms * 1000 - keep_us, _MAX_US))

    def _is_over(self, side: int, times: np.ndarray) -> np.ndarray:
        if self._is_end:
            return np.ones(len(times), dtype=bool)
        until_us = self._over_until_us(side)
        return np.zeros(len(times), dtype=bool) if until_us is None else (times < until_us) & (times != NO_TIME)

    def _when_over(self, side: int, times: np.ndarray) -> np.ndarray:
        """The event time at which the orderly stream's watermark finds rows of a side over."""
        later_us = (self.keep_us[side] or 0) + (1 + self.delay_ms) * 1000
        return np.where(times == NO_TIME, NO_TIME, times + later_us)


class _Side:
    """The rows of a side, and their event times in microseconds."""

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        self.batch = batch
        self.keys = [batch.column(name) for name in key_columns]
        times = batch.column(TIME_COLUMN).view(pa.int64()).fill_null(NO_TIME)
        self.times: np.ndarray = times.to_numpy(zero_copy_only=False)


def _codes(left: _Side, right: _Side) -> tuple[np.ndarray, np.ndarray]:
    """A number for the key of each row, small and equal where keys are; negative: it equals none of the other side."""
    codes, others = (np.zeros(len(side.times), dtype=np.int64) for side in (left, right))
    for ones, twos in zip(left.keys, right.keys, strict=True):
        found = pc.dictionary_encode(twos)
        mine = pc.index_in(ones, found.dictionary, skip_nulls=True).fill_null(-1).to_numpy(zero_copy_only=False)
        theirs = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        width = len(found.dictionary)
        codes = np.where((codes < 0) | (mine < 0), -1, codes * width + mine)
        others = np.where((others < 0) | (theirs < 0), -1, others * width + theirs)
        if len(left.keys) > 1:  # so that they stay small
            known = np.unique(others[others >= 0])
            places = np.searchsorted(known, codes)
            is_known = (codes >= 0) & (places < len(known))
            is_known[is_known] = known[places[is_known]] == codes[is_known]
            codes = np.where(is_known, places, -1)
            others = np.where(others < 0, -1, np.searchsorted(known, others))
    return codes, others


def joined_rows(operator: StreamJoin, epoch: EpochSpec | None, types: Mapping[str, pa.DataType]) -> JoinedRows:
    """The work of a join.

    Args:
        operator: its operator.
        epoch: the epoch; None: at the start, when none is known.
        types: of the columns of the frame of both sides.

    Raises:
        NotTakenError: Spark has to do it.
    """
    if operator.residual is not None:
        raise NotTakenError("the join has a condition besides keys and times")
    if operator.bounds == TimeBounds():
        raise NotTakenError("the join has no range of times")
    if not operator.key_columns:
        raise NotTakenError("there is no key")
    keys = {field.name: field.type for field in operator.key_schema}
    sides = []
    for side, one in enumerate(operator.sides):
        wanted = {**keys, TIME_COLUMN: types[TIME_COLUMN]}
        sides.append(tuple((wanted | {name: types[name] for name in one.columns(side)}).items()))
    return JoinedRows(
        key_columns=operator.key_columns,
        group_columns=operator.key_group_columns,
        sides=tuple(sides),
        how=operator.how,
        bounds=operator.bounds,
        outer=tuple(operator.outer_sides),
        keep_us=(operator.sides[LEFT].keep_us, operator.sides[RIGHT].keep_us),
        firing_ms=MIN_WATERMARK if epoch is None else epoch.firing_watermark_ms,
        delay_ms=0 if epoch is None else epoch.delay_ms,
    )
