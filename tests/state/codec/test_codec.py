"""The value codec: exact round trips, strict input, older versions."""

from __future__ import annotations

import math
import pickle
from collections import namedtuple
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import CorruptStateError, StateSchemaError
from mixedmode.state.codec.codec import RowCodec
from test_keys import VALUES, same

PLAIN = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
MAP = pa.map_(pa.string(), pa.list_(pa.date32()))
NESTED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **VALUES,
    MAP: st.dictionaries(st.text("ab", max_size=2), st.none() | st.lists(st.dates(), max_size=2), max_size=2),
    pa.map_(pa.struct([("i", pa.int8())]), pa.float64()): st.dictionaries(
        st.tuples(st.integers(-9, 9)), st.floats(), max_size=2
    ),
    pa.struct([("l", pa.list_(pa.decimal128(5, 1))), ("m", MAP)]): st.tuples(
        st.none() | st.lists(st.just(Decimal("1.5")), max_size=2), st.none()
    ),
    pa.null(): st.none(),
}


def comparable(value: Any) -> Any:
    """Like :func:`same`, for maps too."""
    if isinstance(value, dict):
        return {key: comparable(part) for key, part in value.items()}
    return [comparable(part) for part in value] if isinstance(value, (tuple, list)) else same(value)


@st.composite
def rows(draw: st.DrawFn) -> tuple[pa.Schema, tuple[Any, ...]]:
    """A schema of any types and one row of it."""
    types = draw(st.lists(st.sampled_from(list(NESTED)), max_size=4))
    schema = pa.schema([(f"c{i}", data_type) for i, data_type in enumerate(types)])
    return schema, tuple(draw(st.none() | NESTED[data_type]) for data_type in types)


@given(rows())
def test_every_type_survives_the_round_trip(case: tuple[pa.Schema, tuple[Any, ...]]) -> None:
    """What goes in comes out, twice in a row (the second time by the fast path), with the same Python types."""
    schema, row = case
    codec = RowCodec(schema)
    for _ in range(2):
        decoded = codec.decode(codec.encode(row))
        assert comparable(decoded) == comparable(row)
        assert [type(value) for value in decoded] == [type(value) for value in row]


@given(st.data())
def test_rows_that_others_have_been_learnt_from_are_the_same_bytes(data: st.DataObject) -> None:
    """What a row is encoded to does not depend on the rows before it: code made for their types changes nothing."""
    types = data.draw(st.lists(st.sampled_from(list(NESTED)), min_size=1, max_size=3))
    schema = pa.schema([(f"c{i}", data_type) for i, data_type in enumerate(types)])
    a_row = st.tuples(*[st.none() | NESTED[data_type] for data_type in types])
    codec = RowCodec(schema)
    for row in data.draw(st.lists(a_row, min_size=2, max_size=4)):
        assert codec.encode(row) == RowCodec(schema).encode(row)


def test_negative_zero_and_nan_are_kept() -> None:
    """State keeps floats bit by bit; only keys are normalised."""
    x, y = RowCodec(pa.schema([("x", pa.float64()), ("y", pa.float64())])).decode(
        RowCodec(pa.schema([("x", pa.float64()), ("y", pa.float64())])).encode((-0.0, math.nan))
    )
    assert math.copysign(1, x) == -1
    assert math.isnan(y)


def test_rows_lists_and_numpy_scalars_are_taken() -> None:
    """A Row, a list and numpy scalars encode to the same bytes as a tuple of Python values."""
    codec = RowCodec(PLAIN)
    expected = codec.encode((1, 2.0, "a", True))
    row_type = namedtuple("row_type", ["n", "x", "s", "b"])
    assert codec.encode(row_type(1, 2.0, "a", True)) == expected
    assert codec.encode([1, 2.0, "a", True]) == expected
    assert codec.encode((np.int32(1), np.float64(2.0), np.str_("a"), np.bool_(True))) == expected
    assert codec.encode((1, 2, "a", True)) == expected


def test_a_float_column_of_32_bits_rounds_like_spark() -> None:
    """0.1 is stored as the nearest 32-bit float and an overflow as infinity."""
    codec = RowCodec(pa.schema([("x", pa.float32())]))
    assert codec.decode(codec.encode((0.1,))) == (float(np.float32(0.1)),)
    assert codec.decode(codec.encode((-1e300,))) == (-math.inf,)


def test_decimals_round_half_up_to_their_scale() -> None:
    """Digits beyond the scale round half up as in Spark; digits beyond the precision are refused."""
    codec = RowCodec(pa.schema([("d", pa.decimal128(4, 2))]))
    assert codec.decode(codec.encode((Decimal("1.005"),))) == (Decimal("1.01"),)
    with pytest.raises(StateSchemaError, match="at most 4 digits"):
        codec.encode((Decimal("99.995"),))


#: Values after which code that is made for their types meets those that do not fit.
FINE: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1],
    pa.int8(): [1],
    pa.float64(): [1.5],
    pa.string(): ["a"],
    pa.binary(): [b"a"],
    pa.bool_(): [True],
    pa.date32(): [date(2020, 1, 1)],
    pa.timestamp("us", "UTC"): [datetime(2020, 1, 1), pd.Timestamp("2020-01-01")],
    pa.timestamp("us"): [datetime(2020, 1, 1)],
    pa.duration("us"): [timedelta(1)],
    pa.decimal128(4, 2): [Decimal("1.5")],
    pa.list_(pa.int32()): [[1, 2], [None]],
    pa.list_(pa.string()): [["a"]],
    MAP: [{"a": []}],
    pa.struct([("a", pa.int8())]): [(1,)],
}


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int64(), 2**63),
        (pa.int8(), -129),
        (pa.int64(), True),
        (pa.int64(), 1.0),
        (pa.float64(), "1"),
        (pa.float64(), False),
        (pa.float64(), 2**53 + 1),
        (pa.string(), b"a"),
        (pa.string(), date(2020, 1, 1)),
        (pa.string(), [1, 2]),
        (pa.binary(), 1),
        (pa.bool_(), 1),
        (pa.date32(), "2020-01-01"),
        (pa.timestamp("us", "UTC"), date(2020, 1, 1)),
        (pa.timestamp("us"), 5),
        (pa.duration("us"), 5),
        (pa.decimal128(4, 2), 1.5),
        (pa.list_(pa.int32()), "ab"),
        (pa.list_(pa.int32()), [1, "2"]),
        (pa.list_(pa.int32()), [1, 2**31]),
        (pa.list_(pa.string()), ["a", "\ud800"]),
        (pa.string(), "\ud800"),
        (pa.timestamp("us", "UTC"), pd.NaT),
        (MAP, [("a", [])]),
        (pa.struct([("a", pa.int8())]), (1, 2)),
    ],
)
def test_a_misfit_names_field_value_and_type(data_type: pa.DataType, value: Any) -> None:
    """A wrong type or range is a StateSchemaError that names the field and shows the value, on every attempt."""
    codec = RowCodec(pa.schema([("fine", pa.int64()), ("wrong", data_type)]))
    codec.encode((1, None))
    for fine in FINE.get(data_type, []):
        codec.encode((1, fine))
    for _ in range(2):
        with pytest.raises(StateSchemaError) as caught:
            codec.encode((1, value))
        assert "'wrong'" in str(caught.value)
        assert repr(value) in str(caught.value)
        assert "it takes" in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, "abcd", (1,), (1, 2.0, "a", True, 5)])
def test_a_row_of_wrong_width_is_an_error(value: Any) -> None:
    """The error lists the fields that are needed."""
    with pytest.raises(StateSchemaError, match=r"4 values \(n, x, s, b\)"):
        RowCodec(PLAIN).encode(value)


def test_none_in_a_field_that_is_not_nullable_is_an_error() -> None:
    """Nullability is enforced at the write."""
    codec = RowCodec(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    with pytest.raises(StateSchemaError, match="'n' got None"):
        codec.encode((None,))


def test_bytes_of_no_known_version_are_corrupt() -> None:
    """Garbage is reported, never decoded into something."""
    codec = RowCodec(PLAIN)
    for data in [b"", b"\x07\x90", codec.encode((1, 2.0, "a", True))[:-1], b"\x00\x93\x01\x02\x03"]:
        with pytest.raises(CorruptStateError):
            codec.decode(data)


def test_values_of_older_versions_are_adapted_by_name() -> None:
    """A dropped field disappears, a new one is None, and order does not matter."""
    first = pa.schema([("a", pa.int64()), ("t", pa.timestamp("us"))])
    second = pa.schema([("t", pa.timestamp("us")), ("b", pa.string())])
    third = pa.schema([("b", pa.string()), ("c", pa.duration("us")), ("t", pa.timestamp("us"))])
    moment = datetime(2020, 1, 1)
    written = [
        RowCodec(first).encode((1, moment)),
        RowCodec(second, [first]).encode((moment, "x")),
        RowCodec(third, [first, second]).encode(("y", timedelta(1), None)),
    ]
    codec = pickle.loads(pickle.dumps(RowCodec(third, [first, second])))
    assert [codec.decode(data) for data in written] == [
        (None, None, moment),
        ("x", None, moment),
        ("y", timedelta(1), None),
    ]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_range_is_checked_on_every_write(bits: int, width: int) -> None:
    """An int out of its field's range is refused, also after rows of the same types were taken."""
    types = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    codec = RowCodec(pa.schema([(f"f{place}", types[bits]) for place in range(width)]))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for fitting in (0, low, high):
        row = (*[1] * (width - 1), fitting)
        assert codec.decode(codec.encode(row)) == row
    for misfit in (low - 1, high + 1, 2**bits - 1, 2**64):
        with pytest.raises(StateSchemaError, match="it takes an int between"):
            codec.encode((*[1] * (width - 1), misfit))
    for wrong in ((1,) * (width + 1), (1,) * (width - 1)):
        with pytest.raises(StateSchemaError, match=f"a tuple of {width} values"):
            codec.encode(wrong)


@pytest.mark.parametrize("values", [{1: "x", 2: "y"}, {1, 2}, "ab", b"ab", None], ids=lambda v: type(v).__name__)
def test_what_is_no_row_is_refused_after_rows_were_taken(values: object) -> None:
    """Something else with as many elements is not taken for a tuple."""
    codec = RowCodec(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    codec.encode((1, 2))
    with pytest.raises(StateSchemaError, match="a tuple of 2 values"):
        codec.encode(values)


def test_long_values_come_back() -> None:
    """A value of any length is decoded, of the kind that is copied first and of the kind that is not."""
    codec = RowCodec(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    for length in (0, 4000, 4096, 5000, 1 << 20):
        assert codec.decode(codec.encode(("x" * length, 2**63 - 1))) == ("x" * length, 2**63 - 1)


class Named(tuple):
    """A struct that knows its fields."""

    names: tuple[str, ...]


def test_structs_come_back_as_the_class_that_is_asked_for() -> None:
    """At any depth, and after the schema has changed too; the value itself is a plain tuple."""

    def struct_class(names: Any) -> Any:
        return type("Struct", (Named,), {"names": tuple(names)})

    inner = pa.struct([("b", pa.int64())])
    schema = pa.schema([("s", pa.struct([("a", pa.list_(inner))])), ("m", pa.map_(inner, inner))])
    written = RowCodec(schema).encode((([(1,), None],), {(2,): {"b": 3}}))
    newer = pa.schema([*schema, ("n", pa.int64())])
    for codec in (RowCodec(schema, (), struct_class), RowCodec(newer, [schema], struct_class)):
        row = codec.decode(written)
        assert type(row) is tuple and row[:2] == (([(1,), None],), {(2,): (3,)})
        structs = [row[0], row[0][0][0], *row[1], *row[1].values()]
        assert [found.names for found in structs] == [("a",), ("b",), ("b",), ("b",)]


def test_rows_of_any_sequence() -> None:
    """What has an order is a row: iterators, numpy arrays; an object without any of a struct's fields is no struct."""
    codec = RowCodec(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    for row in (iter((1, 2)), np.array([1, 2]), range(1, 3)):
        assert codec.decode(codec.encode(row)) == (1, 2)
    with pytest.raises(StateSchemaError, match="a tuple of 1 values"):
        RowCodec(pa.schema([("s", pa.struct([("a", pa.int64())]))])).encode((Fields(b=1),))


class Fields:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def test_rows_that_are_looked_at_each_time_are_compiled_once() -> None:
    """A NaN in a column that has none is null, of rows whose types were met before, too."""
    codec = RowCodec(pa.schema([("d", pa.decimal128(10, 2)), ("n", pa.int64())]))
    for value, expected in ((Decimal("NaN"), None), (Decimal("1.5"), Decimal("1.50")), (Decimal("NaN"), None)):
        assert codec.decode(codec.encode((value, 1))) == (expected, 1)
        (plan,) = codec._plans._plans.values()
    codec.encode((Decimal("NaN"), 2))
    assert [plan] == list(codec._plans._plans.values())
