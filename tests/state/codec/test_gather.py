"""Values are picked as by PyArrow's ``take``."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.codec.gather import gathered, gathered_rows, places_where

_VALUES: dict[pa.DataType, Any] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-1000, 1000).map(lambda days: pa.scalar(days, pa.int32()).cast(pa.date32()).as_py()),
    pa.timestamp("us", "UTC"): st.datetimes(),
    pa.decimal128(20, 2): st.integers(-(10**18), 10**18).map(lambda n: decimal.Decimal(n) / 100),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.null(): st.none(),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9), max_size=3),
    pa.struct([("a", pa.int32())]): st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)}),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b"]),
}


@pytest.mark.parametrize("data_type", _VALUES, ids=str)
@given(data=st.data())
def test_what_is_gathered_is_what_take_gives(data_type: pa.DataType, data: Any) -> None:
    """With and without nulls, of a slice, in any order, more than once, and null where a place is null."""
    values = pa.array(data.draw(st.lists(st.none() | _VALUES[data_type], min_size=1, max_size=20)), data_type)
    column = values.slice(data.draw(st.integers(0, len(values) - 1)))
    index = st.integers(0, len(column) - 1)
    places = data.draw(st.lists(index, max_size=30) | st.lists(st.none() | index, max_size=30))
    at = pa.array(places, pa.int64())
    found = gathered(column, at)
    found.validate(full=True)
    assert found.type == data_type and found.equals(column.take(at))


@given(st.lists(st.sampled_from([True, False, None]), max_size=40), st.data())
def test_places_are_those_that_a_filter_keeps(flags: list[bool | None], data: Any) -> None:
    """Null is false; also of a slice."""
    mask = pa.array(flags, pa.bool_()).slice(data.draw(st.integers(0, len(flags))))
    numbers = pa.array(range(len(mask)), pa.int64())
    assert places_where(mask).equals(numbers.filter(mask, null_selection_behavior="drop"))


def test_rows_are_gathered_by_column() -> None:
    """Their schema, with what it says of its columns, stays."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())], {"made": "here"})
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), pa.array(["a", None, "c"])], schema=schema)
    found = gathered_rows(rows, pa.array([2, 1]))
    assert found.schema.equals(schema, check_metadata=True)
    assert found.to_pylist() == [{"k": 3, "v": "c"}, {"k": 2, "v": None}]
