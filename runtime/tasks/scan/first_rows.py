"""The first row of each key among rows that tasks read without Spark, as ``DedupOperator.prepare`` has Spark find it.

Invariants:
- A row stays if it has the least event time of its key (null before all), and of those with that time stands first:
  in the first file, and there before the others.  So what stays does not depend on how rows were cut into runs.
- Rows are merged over and over again: by key group, key and, where keys may be forgotten between their rows, time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.codec.gather import gathered_rows
from ...operators.dedup.columns import MAX_TIME_COLUMN, ROWS_COLUMN, TIME_COLUMN
from ...operators.dedup.definition import Deduplication
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.parquet_scan import NotTakenError
from .key_order import key_order, order_in_lots
from .row_work import RowWork

#: Bits of a row's number in its file; the others are its file's.
_ROW_BITS = 40
#: Where a row stands.
_PLACE = "__place"
#: An event time as a number, for rows without one: before all.
NO_TIME = -(2**63)


@dataclass(frozen=True)
class FirstRows(RowWork):
    """The rows of a deduplication.

    Args:
        key_columns: see :class:`.row_work.RowWork`.
        group_columns: see :class:`.row_work.RowWork`.
        sides: see :class:`.row_work.RowWork`; the input's columns.
        names: for each prepared column of keys and values the input's.
        time: the input's event time; None: it has none that decides.
        by_time: whether rows of one key and different event times all stay.
        has_max: whether the greatest event time is asked for.
        has_time: whether that of the row that stays is.
        keeps_first: whether it matters which of several rows stays.
    """

    names: tuple[tuple[str, str], ...]
    time: str | None
    by_time: bool
    has_max: bool
    has_time: bool
    keeps_first: bool

    reduces = True

    @property
    def has_places(self) -> bool:  # type: ignore[override]
        return self.keeps_first

    def run_schema(self, side: int) -> pa.Schema:
        schema = super().run_schema(side).append(pa.field(ROWS_COLUMN, pa.int64()))
        if self.has_max:
            schema = schema.append(pa.field(MAX_TIME_COLUMN, pa.int64()))
        return schema.append(pa.field(_PLACE, pa.int64())) if self.has_places else schema

    def run_rows(
        self, side: int, arrays: Mapping[str, pa.Array], places: pa.Array | None, rank: int | None
    ) -> pa.RecordBatch:
        rows = len(arrays[KEY_GROUP_COLUMN])
        more = {ROWS_COLUMN: pa.array(np.ones(rows, dtype=np.int64))}
        if self.has_max:
            more[MAX_TIME_COLUMN] = pa.array(_micros(arrays[str(self.time)]))
        if self.has_places:
            assert places is not None and rank is not None
            more[_PLACE] = pa.array(places.to_numpy() + (rank << _ROW_BITS))
        return super().run_rows(side, {**arrays, **more}, places, rank)

    def reduced(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those that stay, as they were read: a table of hashes finds those of one key, and nothing is sorted."""
        if self.has_places and not (np.diff(rows.column(_PLACE).to_numpy()) > 0).all():
            return self._first(rows)
        codes = self._codes(rows)
        count = int(codes.max()) + 1
        at = np.arange(rows.num_rows)
        if self.time is not None and not self.by_time:
            times = _micros(rows.column(self.time))
            least = np.full(count, 2**63 - 1)
            np.minimum.at(least, codes, times)
            at = np.flatnonzero(times == least[codes])
        firsts = np.zeros(count, dtype=np.int64)
        firsts[codes[at[::-1]]] = at[::-1]  # the last one that is written stays
        summed = {ROWS_COLUMN: np.bincount(codes, rows.column(ROWS_COLUMN).to_numpy()).astype(np.int64)}
        if self.has_max:
            most = np.full(count, NO_TIME)
            np.maximum.at(most, codes, rows.column(MAX_TIME_COLUMN).to_numpy())
            summed[MAX_TIME_COLUMN] = most
        order = np.argsort(firsts)
        return _with_numbers(
            gathered_rows(rows, pa.array(firsts[order])), {name: values[order] for name, values in summed.items()}
        )

    def _codes(self, rows: pa.RecordBatch) -> np.ndarray:
        """A number for each key (and event time), from 0 on."""
        codes: np.ndarray | None = None
        for name in (*self.key_columns, *([str(self.time)] if self.by_time else [])):
            found = rows.column(name).dictionary_encode(null_encoding="encode")
            mine = found.indices.to_numpy().astype(np.int64)
            if codes is not None:
                mine = pa.array(codes * len(found.dictionary) + mine).dictionary_encode().indices.to_numpy()
            codes = mine.astype(np.int64)
        assert codes is not None
        return codes

    def of_shard(self, sides: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self._first(sides[0])
        arrays = {KEY_GROUP_COLUMN: rows.column(KEY_GROUP_COLUMN), ROWS_COLUMN: rows.column(ROWS_COLUMN)}
        arrays |= {prepared: rows.column(name) for prepared, name in self.names}
        if self.has_max:
            most = rows.column(MAX_TIME_COLUMN).to_numpy()
            time_type = self.type_of(0, str(self.time))
            arrays[MAX_TIME_COLUMN] = pa.array(most, pa.int64(), mask=most == NO_TIME).view(time_type)
        if self.has_time:
            arrays[TIME_COLUMN] = rows.column(str(self.time))
        yield pa.RecordBatch.from_pydict(arrays)

    def _first(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row of each key (and event time), in order.

        Until it is known which rows stay, only columns that decide are moved.
        """
        by_key = key_order(rows, self.key_columns)
        places, changed = by_key.places, by_key.begins
        if changed.all():
            return gathered_rows(rows, pa.array(places))
        times = None if self.time is None else _micros(rows.column(self.time))[places]
        if self.by_time:
            assert times is not None
            by_time = order_in_lots(np.cumsum(changed) - 1, times)
            places, times = places[by_time], times[by_time]
            changed[1:] |= times[1:] != times[:-1]
            times = None
        starts = np.flatnonzero(changed)
        counts = np.diff(np.append(starts, rows.num_rows))
        chosen = starts
        for numbers in (times, rows.column(_PLACE).to_numpy()[places] if self.has_places else None):
            if numbers is not None:
                chosen = _least(numbers, starts, counts) if chosen is starts else _least_of(numbers, chosen, changed)
        if len(chosen) != len(starts):  # without places they are all alike
            chosen = chosen[np.append(True, np.diff(np.cumsum(changed)[chosen]) != 0)]
        found = gathered_rows(rows, pa.array(places[chosen]))
        summed = {ROWS_COLUMN: np.add.reduceat(rows.column(ROWS_COLUMN).to_numpy()[places], starts)}
        if self.has_max:
            summed[MAX_TIME_COLUMN] = np.maximum.reduceat(rows.column(MAX_TIME_COLUMN).to_numpy()[places], starts)
        return _with_numbers(found, summed)


def _with_numbers(rows: pa.RecordBatch, columns: Mapping[str, np.ndarray]) -> pa.RecordBatch:
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows


def _least(numbers: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The places of the least numbers of each stretch; there may be several."""
    return np.flatnonzero(numbers == np.repeat(np.minimum.reduceat(numbers, starts), counts))


def _least_of(numbers: np.ndarray, places: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Of some places those with the least numbers of each stretch."""
    stretches = np.cumsum(changed)[places]
    starts = np.flatnonzero(np.append(True, stretches[1:] != stretches[:-1]))
    counts = np.diff(np.append(starts, len(places)))
    return places[_least(numbers[places], starts, counts)]


def _micros(times: pa.Array) -> np.ndarray:
    micros: np.ndarray = times.view(pa.int64()).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    return micros


def first_rows(operator: Deduplication, types: Mapping[str, pa.DataType], *, by_time: bool, knows: bool) -> FirstRows:
    """The work of a deduplication.

    Args:
        operator: its operator.
        types: of the input's columns.
        by_time: whether keys may be forgotten between their rows.
        knows: whether it is known where rows stand.

    Raises:
        NotTakenError: Spark has to do it.
    """
    if not operator.keys:
        raise NotTakenError("there is no key")
    if operator.keeps_arrival and not knows:
        raise NotTakenError("nobody knows in which order its rows have arrived")
    if not operator.keeps_arrival and operator.payload:
        raise NotTakenError("its rows are compared as they are")
    has_max = operator.event_time is not None and operator.event_time_key is None and not by_time
    time = operator.event_time if has_max or by_time else None
    if time is not None and not (pa.types.is_timestamp(types[time]) and types[time].unit == "us"):
        raise NotTakenError(f"event time {time} has type {types[time]}")
    key_types = {field.name: field.type for field in operator.key_schema}
    wanted = {name: key_types[column] for name, column in zip(operator.keys, operator.key_columns, strict=True)}
    wanted |= {name: types[name] for name in operator.payload if name not in wanted}
    if time is not None:
        wanted.setdefault(time, types[time])
    names = dict(zip(operator.key_columns, operator.keys, strict=True))
    names |= {f"__b{place}": name for place, name in enumerate(operator.payload)}
    return FirstRows(
        key_columns=operator.keys,
        group_columns=tuple(names[column] for column in operator.key_group_columns),
        sides=(tuple(wanted.items()),),
        names=tuple(names.items()),
        time=time,
        by_time=by_time,
        has_max=has_max,
        has_time=operator.time_column == TIME_COLUMN,
        keeps_first=operator.keeps_arrival,
    )
