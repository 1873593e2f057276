"""The order of rows by key group and key, found by numpy: keys as whole numbers of the same order.

A text is a number of its bytes, eight at a time, so most texts are told apart by one comparison of numbers.  Rows of
one key are neighbours afterwards, which tells where each key begins.  Columns without such numbers (floats, binaries)
are sorted as the sorter does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....sorter.order import Ordering
from ....state.codec.byte_arrays import valid_mask
from ....state.codec.gather import gathered_rows
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.decimal_words import unscaled

#: Texts are sorted by so many numbers before they are sorted as texts.
_NUMBERS_OF_TEXT = 3
#: Sorted runs are merged if they have so many rows, on average.
_LONG_RUN = 64
#: Fewer numbers are not sorted by their first bits before.
_FEW = 1000
#: If so many rows are alike, on average, each lot of them is sorted by itself.
_MANY_ALIKE = 48


@dataclass(frozen=True)
class KeyOrder:
    """Rows in the order of their key groups and keys."""

    #: Where the rows are among those that were given.
    places: np.ndarray
    #: Of the rows in order: whether a key begins.
    begins: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Where keys begin in the order."""
        return np.flatnonzero(self.begins)


def in_order(rows: pa.RecordBatch, key_columns: Sequence[str]) -> pa.RecordBatch:
    """Rows by key group and key; those of one key come in any order.

    Args:
        rows: them, key group first.
        key_columns: the key.
    """
    return gathered_rows(rows, pa.array(key_order(rows, key_columns).places))


def key_order(rows: pa.RecordBatch, key_columns: Sequence[str]) -> KeyOrder:
    """The order of rows by key group and key.

    Args:
        rows: them, key group first.
        key_columns: the key.
    """
    columns = [part for name in key_columns for part in _parts(rows.column(name))]
    if not columns or not all(_has_numbers(column.type) for column in columns):
        return _by_values(rows, key_columns)
    order = _Order.of_groups(rows.column(0).to_numpy().astype(np.uint16))
    for column in columns:
        if order.is_done:
            break
        order.refine_by(column)
    return KeyOrder(order.places, order.begins)


def in_order_of_groups(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows by key group; ``rows``: them, key group first."""
    return gathered_rows(rows, pa.array(order_of_groups(rows.column(0))))


def order_of_groups(groups: pa.Array) -> np.ndarray:
    """The order of rows by their key groups."""
    return np.argsort(groups.to_numpy().astype(np.uint16), kind="stable")  # so narrow that numpy sorts by digits


def differ(column: pa.Array) -> np.ndarray:
    """Whether each value but the first is another one than that before it; nulls are the same."""
    if pa.types.is_struct(column.type):
        return np.logical_or.reduce([differ(field) for field in column.flatten()])
    return _are_others(column.slice(0, len(column) - 1), column.slice(1))


def can_be_ordered(data_type: pa.DataType) -> bool:
    """Whether columns of a type are put in order without a comparison of values one by one."""
    if pa.types.is_struct(data_type):
        return all(_has_numbers(field.type) for field in data_type)
    return _has_numbers(data_type)


def is_sortable(data_type: pa.DataType) -> bool:
    """Whether the order of a type is that of whole numbers."""
    types = pa.types
    return bool(
        types.is_signed_integer(data_type)
        or types.is_date32(data_type)
        or (types.is_timestamp(data_type) and data_type.unit == "us")
    )


def _whole_numbers(column: pa.Array) -> np.ndarray:
    if not pa.types.is_signed_integer(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    numbers: np.ndarray = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def _parts(column: pa.Array) -> list[pa.Array]:
    """Structs as their fields, which are in the same order; of null structs there is no such order."""
    is_plain = pa.types.is_struct(column.type) and not column.null_count
    return list(column.flatten()) if is_plain else [column]


def _has_numbers(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        is_sortable(data_type)
        or types.is_boolean(data_type)
        or types.is_string(data_type)
        or (types.is_decimal128(data_type) and data_type.precision <= 18)
    )


def _numbers(column: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8)
    if not pa.types.is_decimal128(column.type):
        return _whole_numbers(column)
    numbers = unscaled(column)
    assert numbers is not None, "so few digits fit"
    return np.where(valid, numbers, 0) if (valid := valid_mask(column)) is not None else numbers


@dataclass(frozen=True)
class _Texts:
    """The bytes of texts, behind those that all have in common."""

    texts: pa.Array
    data: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> _Texts:
        ends = pc.min_max(texts.view(pa.binary()))
        least, greatest = (ends[side].as_py() or b"" for side in ("min", "max"))
        pairs = enumerate(zip(least, greatest, strict=False))
        common = next((at for at, (one, other) in pairs if one != other), min(len(least), len(greatest)))
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        some = np.frombuffer(data, dtype=np.uint8)[: bounds[-1]] if data is not None else np.zeros(0, dtype=np.uint8)
        # What is read behind the last text is masked; it has to be there.
        padded = np.append(some, np.zeros(common + 8, dtype=np.uint8))
        lengths = np.diff(bounds) - common
        if texts.null_count:
            lengths = np.where(texts.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
        return cls(texts, padded, bounds[:-1] + common, lengths)

    def numbers(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Eight bytes of some texts from a place on, as numbers of the same order; zeros behind the end."""
        eight = np.ndarray(len(self.data) - 7, np.dtype("<u8"), self.data, 0, (1,))  # from each byte on
        starts, left = self.starts[rows] + first, self.lengths[rows] - first
        if not len(rows) or int(left.min()) >= 8:
            return eight[starts].byteswap(inplace=True)
        numbers = eight[np.where(left > 0, starts, 0)].byteswap(inplace=True)
        hidden = (8 * np.clip(8 - left, 0, 7)).astype(np.uint64)
        return np.where(left > 0, (numbers >> hidden) << hidden, np.uint64(0))

    def are_others(self, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Of texts with the same first eight bytes: whether they are not the same."""
        lengths = self.lengths[ones]
        found = lengths != self.lengths[others]
        at = np.flatnonzero(~found & (lengths > 8))
        if len(at):
            pairs = [self.texts.take(pa.array(rows[at])) for rows in (ones, others)]
            found[at] = pc.not_equal(*pairs).to_numpy(zero_copy_only=False)
        return found


@dataclass
class _Order:
    """An order that gets finer, column by column."""

    places: np.ndarray
    begins: np.ndarray

    @classmethod
    def of_groups(cls, groups: np.ndarray) -> _Order:
        places = np.argsort(groups, kind="stable")
        ordered = groups[places]
        begins = np.ones(len(groups), dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        return cls(places, begins)

    @property
    def is_done(self) -> bool:
        """Whether no rows are alike."""
        return bool(self.begins.all())

    def refine_by(self, column: pa.Array) -> None:
        """Put rows that are alike so far into the order of a column."""
        if (valid := valid_mask(column)) is not None:
            self._refine(lambda rows: valid[rows].view(np.uint8))  # null first
        if not pa.types.is_string(column.type):
            numbers = _numbers(column)
            self._refine(lambda rows: numbers[rows])
            return
        texts = _Texts.of(column)
        first_bytes = texts.numbers(np.arange(len(column)), 0)  # read as they lie in memory
        for part in range(_NUMBERS_OF_TEXT):
            if part:
                self._refine(lambda rows, first=8 * part: texts.numbers(rows, first))  # type: ignore[misc]
            else:
                self._refine(lambda rows: first_bytes[rows])
            seconds = np.flatnonzero(~self.begins)
            seconds = seconds[texts.are_others(self.places[seconds - 1], self.places[seconds])]
            if not len(seconds):
                return
        lots = np.cumsum(self.begins)
        among = self.places[np.isin(lots, lots[seconds])]
        ranks = np.zeros(len(column), dtype=np.int64)
        ranks[among] = pc.rank(column.take(pa.array(among)), sort_keys="ascending", tiebreaker="dense").to_numpy()
        self._refine(lambda rows: ranks[rows])

    def _refine(self, numbers_of: Callable[[np.ndarray], np.ndarray]) -> None:
        """Sort rows that are alike so far.

        Args:
            numbers_of: gives the numbers of some rows.
        """
        is_alike = ~self.begins
        is_alike[:-1] |= is_alike[1:]
        if not is_alike.any():
            return
        at: slice | np.ndarray = slice(None) if is_alike.all() else np.flatnonzero(is_alike)
        among, begins = self.places[at], self.begins[at]
        numbers = numbers_of(among)
        if not ((numbers[1:] != numbers[:-1]) & ~begins[1:]).any():
            return
        lots = np.flatnonzero(begins)
        if len(among) >= _MANY_ALIKE * len(lots):
            order = np.empty(len(among), dtype=np.int64)
            for start, end in pairwise([*lots.tolist(), len(among)]):
                order[start:end] = start + order_of_numbers(numbers[start:end])
        else:
            order = order_in_lots(np.cumsum(begins) - 1, numbers)
        self.places[at] = among[order]
        ordered = numbers[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
        self.begins[at] = begins


def order_of_numbers(numbers: np.ndarray) -> np.ndarray:
    """The order of whole numbers; what is the same keeps its order.

    Numpy's stable sort merges sorted runs, and hardly works where no number has to move far.  All others are sorted by
    their first sixteen bits before, which numpy does by digits; that takes a quarter of the time of another sort.
    """
    falls = np.count_nonzero(numbers[1:] < numbers[:-1])
    if len(numbers) < _FEW or _LONG_RUN * falls < len(numbers):
        return np.argsort(numbers, kind="stable")
    unsigned = _unsigned(numbers)
    bits = int(unsigned.max()).bit_length()
    order = np.argsort((unsigned >> np.uint64(max(0, bits - 16))).astype(np.uint16), kind="stable")
    return order[np.argsort(unsigned[order], kind="stable")] if bits > 16 else order


def _unsigned(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in the same order, from zero on."""
    unsigned = numbers.astype(np.uint64)
    if numbers.dtype.kind == "i":
        unsigned ^= np.uint64(1 << 63)
    unsigned -= unsigned.min()
    return unsigned


def order_in_lots(lots: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The order by lot and number; what is the same keeps its order.

    Lot and number are sorted as one number, if need be without the number's last bits.  Where lots are small, hardly
    any row moves far, and a stable sort takes a fraction of another one's time.

    Args:
        lots: they ascend.
        numbers: of each row.
    """
    unsigned = _unsigned(numbers)
    lot_bits = int(lots[-1]).bit_length()
    dropped = max(0, int(unsigned.max()).bit_length() + lot_bits - 64)
    both = lots.astype(np.uint64) << np.uint64(64 - lot_bits) if lot_bits else np.zeros(len(lots), dtype=np.uint64)
    both |= unsigned >> np.uint64(dropped)
    order = np.argsort(both, kind="stable")
    if dropped:
        ordered, both = unsigned[order], both[order]
        if ((ordered[1:] < ordered[:-1]) & (both[1:] == both[:-1])).any():
            order = order_of_numbers(unsigned)
            order = order[order_of_numbers(lots[order])]
    return order


def _by_values(rows: pa.RecordBatch, key_columns: Sequence[str]) -> KeyOrder:
    columns = [rows.column(KEY_GROUP_COLUMN), *(part for name in key_columns for part in _parts(rows.column(name)))]
    keys = pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    places = _sorted(keys)
    begins = np.ones(rows.num_rows, dtype=bool)
    ordered = keys.take(places)
    begins[1:] = np.logical_or.reduce([differ(column) for column in ordered.columns])
    return KeyOrder(places.to_numpy(), begins)


def _sorted(keys: pa.RecordBatch) -> pa.Array:
    ordering = Ordering(keys.schema, keys.schema.names)
    return ordering.sort_indices(ordering.extend(keys))


def _are_others(ones: pa.Array, others: pa.Array) -> np.ndarray:
    """Which values are not the same; nulls are."""
    found = pc.fill_null(pc.not_equal(ones, others), False).to_numpy(zero_copy_only=False)
    if ones.null_count or others.null_count:
        found = found | pc.xor(ones.is_null(), others.is_null()).to_numpy(zero_copy_only=False)
    return np.asarray(found)
