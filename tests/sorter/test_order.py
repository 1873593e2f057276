"""Tests of sorter.order: it is the order of the encoded keys, whatever way a column is compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import SorterError
from mixedmode.sorter import order
from mixedmode.sorter.order import Ordering, SortedRows
from mixedmode.state.keys.keys import KeyCodec

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf]),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(max_size=4) | st.sampled_from(["", "a", "a\0", "a\0b", "ab", "é", "\uffff", "\U0001f600"]),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us", "UTC"): st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc)),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(timedelta(days=-9), timedelta(days=9)),
    pa.decimal128(9, 2): st.integers(-(10**6), 10**6).map(lambda cents: Decimal(cents).scaleb(-2)),
    pa.struct([("a", pa.int16()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(-2, 2), "b": st.none() | st.text("ab\0", max_size=2)}
    ),
    pa.list_(pa.int8()): st.lists(st.none() | st.integers(-2, 2), max_size=3),
}
TYPES = list(VALUES)


@st.composite
def key_batches(draw: Callable[[Any], Any]) -> tuple[pa.RecordBatch, list[str], list[str]]:
    """A batch of one to three sort columns and its row numbers, the key's names and the names after it."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(st.none() | VALUES[kind] for kind in types)), max_size=30))
    names = [f"c{number}" for number in range(len(types))]
    columns = [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(types)]
    batch = pa.record_batch([*columns, pa.array(range(len(rows)), pa.int32())], names=[*names, "row"])
    keys = draw(st.integers(1, len(names)))
    return batch, names[:keys], names[keys:]


def encoded(batch: pa.RecordBatch, names: list[str]) -> list[bytes]:
    """The model: what KeyCodec makes of the columns, row by row."""
    codec = KeyCodec(pa.schema([batch.schema.field(name) for name in names]))
    return codec.encode_columns([batch.column(name) for name in names]).to_pylist()


@given(key_batches())
def test_order_is_the_order_of_encoded_keys(example: tuple[pa.RecordBatch, list[str], list[str]]) -> None:
    """Rows are sorted as their encoded key and ``then`` columns are, rows that are equal in order of arrival."""
    batch, key, then = example
    ordering = Ordering(batch.schema, key, then)
    model = encoded(batch, [*key, *then])

    indices = ordering.sort_indices(ordering.extend(batch)).to_pylist()

    assert indices == sorted(range(batch.num_rows), key=model.__getitem__)


@given(key_batches(), st.sampled_from([pa.int8(), pa.int32(), pa.int16(), pa.int64()]), st.data())
def test_rows_in_groups_are_in_the_same_order(
    example: tuple[pa.RecordBatch, list[str], list[str]], kind: pa.DataType, data: st.DataObject
) -> None:
    """A first column of few numbers, which splits the rows into groups to be sorted one by one, changes nothing."""
    batch, key, then = example
    lowest = data.draw(st.sampled_from([0, 7, -3]))
    drawn = data.draw(st.lists(st.integers(lowest, lowest + 4), min_size=batch.num_rows, max_size=batch.num_rows))
    batch = pa.record_batch([pa.array(drawn, kind), *batch.columns], names=["group", *batch.schema.names])
    ordering = Ordering(batch.schema, ["group", *key], then)
    model = encoded(batch, ["group", *key, *then])

    with patch.object(order, "_GROUP_ROWS", 1):
        indices = ordering.sort_indices(ordering.extend(batch)).to_pylist()

    assert indices == sorted(range(batch.num_rows), key=model.__getitem__)


@pytest.mark.parametrize("first", [[0, 2**31 - 1], [5, -(2**31)], [None, 3], [2, 2]], ids=str)
def test_any_numbers_may_come_first(first: list[int | None]) -> None:
    """Numbers far apart, a null, or one number alone: the order is that of the encoded key."""
    rows = 2_000
    batch = pa.record_batch(
        [pa.array(first * rows, pa.int32()), pa.array([3, 1, 2, 1] * (rows // 2))], names=["a", "b"]
    )
    ordering = Ordering(batch.schema, ["a", "b"])
    model = encoded(batch, ["a", "b"])

    assert ordering.sort_indices(batch).to_pylist() == sorted(range(batch.num_rows), key=model.__getitem__)


@given(key_batches(), st.data())
def test_count_until_finds_the_cut(example: tuple[pa.RecordBatch, list[str], list[str]], data: st.DataObject) -> None:
    """The binary search splits sorted rows exactly at a rank, with or without the rows of that rank."""
    batch, key, then = example
    if batch.num_rows == 0:
        return
    ordering = Ordering(batch.schema, key, then)
    inner = ordering.extend(batch)
    inner = inner.take(ordering.sort_indices(inner))
    model = encoded(inner, [*key, *then])
    at = data.draw(st.integers(0, batch.num_rows - 1))
    start = data.draw(st.integers(0, at))
    cut = SortedRows(ordering, inner.slice(0, at + 1)).last_rank
    rows = SortedRows(ordering, inner)

    assert rows.count_until(cut, start, inclusive=False) == max(start, sum(value < model[at] for value in model))
    assert rows.count_until(cut, start, inclusive=True) == sum(value <= model[at] for value in model)


@given(key_batches())
def test_strip_undoes_extend(example: tuple[pa.RecordBatch, list[str], list[str]]) -> None:
    """Encoded columns leave no trace in what the user gets back."""
    batch, key, then = example
    ordering = Ordering(batch.schema, key, then)
    stripped = ordering.strip(ordering.extend(batch))

    assert stripped.schema == batch.schema
    assert str(stripped.to_pydict()) == str(batch.to_pydict())  # as text: NaN is not equal to itself


def test_map_key_is_refused_by_name() -> None:
    """A map has no order; the error names the column."""
    schema = pa.schema([("tags", pa.map_(pa.string(), pa.int64()))])

    with pytest.raises(TypeError, match="'tags' is a map"):
        Ordering(schema, ["tags"])


@pytest.mark.parametrize("names", [["nope"], ["twice"]])
def test_sort_column_must_be_in_the_schema_once(names: list[str]) -> None:
    """An unknown or ambiguous column is an error that lists the columns."""
    schema = pa.schema([("a", pa.int64()), ("twice", pa.int64()), ("twice", pa.int64())])

    with pytest.raises(SorterError, match=rf"'{names[0]}' must be in the schema exactly once; .*'a', 'twice', 'twice'"):
        Ordering(schema, ["a"], names)


def test_empty_key_is_refused() -> None:
    """Without a key there is nothing to sort by."""
    with pytest.raises(SorterError, match="the key is empty"):
        Ordering(pa.schema([("a", pa.int64())]), [])
