"""The key codec: Spark's order, exact round trips, one encoding per row and per column."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import StateSchemaError
from mixedmode.state.keys.keys import KeyCodec

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("a\x00\x01\xff", max_size=5)
MOMENTS = st.datetimes(datetime(1902, 1, 1), datetime(2100, 1, 1))
WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(10, 2): st.integers(-(10**10) + 1, 10**10 - 1).map(lambda digits: Decimal(digits).scaleb(-2)),
    pa.decimal128(38, 0): st.integers(-(10**37), 10**37).map(Decimal),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=8) | st.sampled_from([b"\x00", b"\x00\x01", b"\x00\xff", b""]),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): MOMENTS,
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
    pa.time64("ns"): st.times(),
    WINDOW: st.tuples(st.none() | MOMENTS, MOMENTS),
    pa.struct([("s", pa.string()), ("n", pa.int16())]): st.tuples(st.none() | TEXT, st.integers(-9, 9)),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(-5, 5), max_size=3),
    pa.list_(pa.string()): st.lists(st.none() | TEXT, max_size=3),
}


def order_of(value: Any) -> Any:
    """A Python value that sorts as Spark sorts ``value`` ascending, nulls first."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, (tuple, list)):
        return (1, [order_of(part) for part in value])
    return (1, value)


def same(value: Any) -> Any:
    """``value`` with one NaN, one zero, and lists for sequences."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, (tuple, list)):
        return [same(part) for part in value]
    return value


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Schema, list[tuple[Any, ...]]]:
    """One to three key columns and a few rows."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    schema = pa.schema([(f"c{i}", data_type) for i, data_type in enumerate(types)])
    row = st.tuples(*[st.none() | VALUES[data_type] for data_type in types])
    return schema, draw(st.lists(row, min_size=1, max_size=6))


def as_arrays(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    """The rows as Arrow columns."""

    def plain(value: Any, data_type: pa.DataType) -> Any:
        if value is not None and pa.types.is_struct(data_type):
            return {field.name: plain(part, field.type) for field, part in zip(data_type, value, strict=True)}
        return value

    return [pa.array([plain(row[i], field.type) for row in rows], field.type) for i, field in enumerate(schema)]


@given(columns())
def test_byte_order_is_the_order_of_the_values(case: tuple[pa.Schema, list[tuple[Any, ...]]]) -> None:
    """Sorting by encoded key is sorting by the columns ascending with nulls first."""
    schema, rows = case
    codec = KeyCodec(schema)
    by_bytes = [same(row) for row in sorted(rows, key=codec.encode)]
    by_value = [same(row) for row in sorted(rows, key=lambda row: [order_of(value) for value in row])]
    assert by_bytes == by_value


@given(columns())
def test_decode_gives_back_what_was_encoded(case: tuple[pa.Schema, list[tuple[Any, ...]]]) -> None:
    """A key survives the round trip, with negative zero as zero."""
    schema, rows = case
    codec = KeyCodec(schema)
    assert [same(codec.decode(codec.encode(row))) for row in rows] == [same(row) for row in rows]


@given(columns())
def test_columns_encode_like_rows(case: tuple[pa.Schema, list[tuple[Any, ...]]]) -> None:
    """The vectorised encoding gives the same bytes as one row at a time, also for slices, and decodes back."""
    schema, rows = case
    codec = KeyCodec(schema)
    one_by_one = [codec.encode(row) for row in rows]
    arrays = as_arrays(schema, rows)
    assert codec.encode_columns(arrays).to_pylist() == one_by_one
    doubled = [pa.concat_arrays([array, array])[len(rows) :] for array in arrays]
    assert codec.encode_columns(doubled).to_pylist() == one_by_one
    chunked = [pa.chunked_array([array, array]) for array in arrays]
    assert codec.encode_columns(chunked).to_pylist() == one_by_one * 2
    decoded = codec.decode_columns(one_by_one)
    for array in decoded:
        array.validate(full=True)
    assert [array.type for array in decoded] == schema.types
    assert codec.encode_columns(decoded).to_pylist() == one_by_one


@given(columns())
def test_a_key_ends_where_it_ends(case: tuple[pa.Schema, list[tuple[Any, ...]]]) -> None:
    """end_of finds the end inside a longer string, and no key is a prefix of a different key."""
    schema, rows = case
    codec = KeyCodec(schema)
    encoded = [codec.encode(row) for row in rows]
    for key in encoded:
        assert codec.end_of(b"xyz" + key + b"\x00\x01\xff", 3) == 3 + len(key)
        assert not any(other != key and other.startswith(key) for other in encoded)


@given(columns())
def test_tuples_lists_and_columns_that_miss_a_value_are_the_same_bytes(
    case: tuple[pa.Schema, list[tuple[Any, ...]]],
) -> None:
    """Whether a key has just the types of its columns, for which there is code of its own, or not."""
    schema, rows = case
    codec = KeyCodec(schema)
    for row in rows:
        fields = zip(schema, row, strict=True)
        one_by_one = b"".join([KeyCodec(pa.schema([field])).encode((value,)) for field, value in fields])
        assert codec.encode(row) == codec.encode(list(row)) == one_by_one  # type: ignore[arg-type]


def test_common_prefixes_stay_apart() -> None:
    """Strings that extend each other, with and without zero bytes, sort between each other's columns correctly."""
    codec = KeyCodec(pa.schema([("a", pa.string()), ("b", pa.string())]))
    rows = [(None, "z"), ("", ""), ("", "z"), ("\x00", ""), ("a", "b"), ("a\x00", ""), ("a\x00b", ""), ("ab", "")]
    assert sorted(rows, key=codec.encode) == rows


def test_negative_numbers_come_first() -> None:
    """Negative integers sort below zero and every null sorts below them."""
    codec = KeyCodec(pa.schema([("n", pa.int64())]))
    rows = [(None,), (-(2**63),), (-1,), (0,), (1,), (2**63 - 1,)]
    assert sorted(rows, key=codec.encode) == rows


def test_floats_have_one_nan_and_one_zero() -> None:
    """All NaNs are one key, the greatest; negative zero is zero."""
    codec = KeyCodec(pa.schema([("x", pa.float64())]))
    other_nan = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff", dtype="f8")
    encoded = codec.encode_columns([pa.array(np.concatenate([other_nan, [math.nan, -0.0, 0.0, math.inf]]))]).to_pylist()
    assert encoded[0] == encoded[1] == codec.encode((math.nan,))
    assert encoded[2] == encoded[3] == codec.encode((-0.0,))
    assert encoded[4] < encoded[0]


def test_a_zone_aware_timestamp_is_the_same_key() -> None:
    """An aware datetime encodes to the same instant as the naive local one that decode gives."""
    codec = KeyCodec(pa.schema([("t", pa.timestamp("us", "UTC"))]))
    aware = datetime(2024, 5, 1, 14, 0, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    (local,) = codec.decode(codec.encode((aware,)))
    assert local.tzinfo is None
    assert local.astimezone(timezone.utc) == aware


def test_decoded_types_are_those_of_a_spark_row() -> None:
    """Dates, decimals, binaries and structs come back as date, Decimal, bytes and tuple."""
    schema = pa.schema(
        [("d", pa.date32()), ("m", pa.decimal128(5, 1)), ("b", pa.binary()), ("w", WINDOW), ("t", pa.time64("ns"))]
    )
    codec = KeyCodec(schema)
    key = (date(2020, 2, 29), Decimal("-1.5"), b"\x00", (None, datetime(2020, 1, 1)), time(1, 2, 3, 4))
    decoded = codec.decode(codec.encode(key))
    assert decoded == key
    assert [type(value) for value in decoded] == [date, Decimal, bytes, tuple, time]


def test_a_key_without_columns_is_empty() -> None:
    """A global aggregate's key is the empty byte string."""
    codec = KeyCodec(pa.schema([]))
    assert codec.encode(()) == b""
    assert codec.decode(b"") == ()
    assert codec.end_of(b"abc", 1) == 1


def test_a_map_cannot_be_a_key() -> None:
    """The error names the column and is a TypeError."""
    with pytest.raises(TypeError, match="'attributes' is a map"):
        KeyCodec(pa.schema([("attributes", pa.map_(pa.string(), pa.string()))]))


@pytest.mark.parametrize(
    ("data_type", "value", "allowed"),
    [
        (pa.int8(), 128, "an int between -128 and 127"),
        (pa.int64(), True, "an int"),
        (pa.int32(), "1", "an int"),
        (pa.string(), b"a", "a str"),
        (pa.string(), "\ud800", "surrogates"),
        (pa.binary(), 5, "bytes"),
        (pa.decimal128(4, 2), Decimal("100"), "at most 4 digits"),
        (pa.date32(), "2020-01-01", "a datetime.date"),
        (pa.float64(), 2**60 + 1, "a float"),
    ],
)
def test_a_misfit_names_field_value_and_what_is_allowed(data_type: pa.DataType, value: Any, allowed: str) -> None:
    """Encoding a value of the wrong type or range is a StateSchemaError with all three facts."""
    codec = KeyCodec(pa.schema([("ok", pa.int64()), ("wrong", data_type)]))
    with pytest.raises(StateSchemaError) as caught:
        codec.encode((1, value))
    assert "'wrong'" in str(caught.value)
    assert repr(value) in str(caught.value)
    assert allowed in str(caught.value)


def test_a_wrong_number_of_values_is_an_error() -> None:
    """A key with a value too few says which values are needed."""
    with pytest.raises(StateSchemaError, match=r"2 values \(a, b\)"):
        KeyCodec(pa.schema([("a", pa.int64()), ("b", pa.int64())])).encode((1,))
