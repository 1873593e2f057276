"""Buffers and records of aggregates against plain Python."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import AggregateOverflowError, CorruptStateError
from mixedmode.runtime.operators.aggregate import results
from mixedmode.runtime.operators.aggregate.buffers import (
    CountBuffer,
    DecimalSumBuffer,
    ExtremeBuffer,
    ExtremeByBuffer,
    ListBuffer,
    SetBuffer,
    SumBuffer,
    merge_buffers,
    reduce_segments,
)
from mixedmode.runtime.operators.aggregate.moments import MomentsBuffer
from mixedmode.runtime.operators.aggregate.results import Result
from mixedmode.runtime.operators.columnar.record_codec import RecordCodec, RecordListCodec

FIELDS = [
    pa.field("flag", pa.bool_()),
    pa.field("tiny", pa.int8()),
    pa.field("long", pa.int64()),
    pa.field("float", pa.float32()),
    pa.field("double", pa.float64()),
    pa.field("decimal", pa.decimal128(20, 3)),
    pa.field("date", pa.date32()),
    pa.field("instant", pa.timestamp("us", "UTC")),
    pa.field("wall", pa.timestamp("us")),
    pa.field("text", pa.string()),
    pa.field("bytes", pa.binary()),
    pa.field("ints", pa.list_(pa.int32())),
    pa.field("texts", pa.list_(pa.string())),
    pa.field("struct", pa.struct([("x", pa.float64()), ("nested", pa.list_(pa.struct([("y", pa.string())])))])),
    pa.field("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
]
TEXT = st.text(alphabet="aü\0", max_size=3)
LONG = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127),
    "long": LONG,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal": st.decimals(-(10**16), 10**16, places=3, allow_nan=False),
    "date": st.dates(),
    "instant": st.integers(-(2**55), 2**55),
    "wall": st.integers(-(2**55), 2**55),
    "text": TEXT,
    "bytes": st.binary(max_size=3),
    "ints": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "texts": st.lists(st.none() | TEXT, max_size=3),
    "struct": st.fixed_dictionaries(
        {
            "x": st.none() | st.floats(allow_nan=False),
            "nested": st.none() | st.lists(st.none() | st.fixed_dictionaries({"y": st.none() | TEXT}), max_size=2),
        }
    ),
    "map": st.dictionaries(TEXT, st.none() | st.lists(st.integers(0, 3), max_size=2), max_size=2).map(
        lambda entries: list(entries.items())
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), max_size=6)


def columns_of(rows: list[dict[str, Any]]) -> list[pa.Array]:
    return [pa.array([row[field.name] for row in rows], field.type) for field in FIELDS]


def joined(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    items = values.to_pylist()
    offsets = np.cumsum([0, *map(len, items)]).astype(np.int64)
    return np.frombuffer(b"".join(items), dtype=np.uint8), offsets


@given(ROWS, st.integers(0, 3))
def test_records_round_trip_for_every_type(rows: list[dict[str, Any]], skipped: int) -> None:
    """What is decoded is what was encoded: values, nulls at any depth and Arrow types; slices too."""
    columns = [column.slice(skipped) for column in columns_of(rows)]
    codec = RecordCodec(FIELDS)
    decoded = codec.decode(*joined(codec.encode(columns)))
    for column, back in zip(columns, decoded, strict=True):
        back.validate(full=True)
        assert back.type == column.type
        assert back.to_pylist() == column.to_pylist()


@given(st.lists(st.integers(0, 3), max_size=5), st.data(), st.booleans())
def test_lists_of_records_round_trip(lengths: list[int], data: st.DataObject, fixed: bool) -> None:
    """A cell of sessions gives back its sessions, whether records have one width or not."""
    count = sum(lengths)
    rows = data.draw(st.lists(st.tuples(st.none() | LONG, st.none() | TEXT), min_size=count, max_size=count))
    fields = [pa.field("n", pa.int64()), pa.field("t", pa.string())][: 1 if fixed else 2]
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
    codec = RecordListCodec(RecordCodec(fields))
    decoded, found = codec.decode(*joined(codec.encode(columns, np.array(lengths, dtype=np.int64))))
    assert found.tolist() == lengths
    assert [column.to_pylist() for column in decoded] == [column.to_pylist() for column in columns]


def test_a_damaged_record_is_an_error_and_never_a_value() -> None:
    """Too short, too long, or with lengths that do not add up."""
    fixed = RecordCodec([pa.field("n", pa.int64())])
    varying = RecordCodec([pa.field("t", pa.string())])
    data, _ = joined(varying.encode([pa.array(["abc"])]))
    for codec, damaged in ((fixed, b"\0" * 8), (fixed, b"\0" * 10), (varying, data[:-1]), (varying, b"\0")):
        raw = np.frombuffer(bytes(damaged), dtype=np.uint8)
        with pytest.raises(CorruptStateError, match="aggregate's state entry"):
            codec.decode(raw, np.array([0, len(raw)]))


NUMBERS = st.none() | st.floats() | st.sampled_from([math.nan, 0.0, -0.0, math.inf])


def rank(value: float) -> tuple[bool, float]:
    """Spark's order: NaN above everything."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_extremes_follow_sparks_order_of_floats(pairs: list[tuple[float | None, float | None]]) -> None:
    """Nulls do not count, NaN is the greatest value."""
    old, new = (pa.array([pair[i] for pair in pairs], pa.float64()) for i in (0, 1))
    for which, pick in (("min", min), ("max", max)):
        merged = ExtremeBuffer((0,), which).merge([old], [new])[0].to_pylist()  # type: ignore[arg-type]
        for pair, result in zip(pairs, merged, strict=True):
            known = [value for value in pair if value is not None]
            expected = pick(known, key=rank) if known else None
            assert (result is None) == (expected is None)
            assert result is None or rank(result) == rank(expected)  # type: ignore[arg-type]


def test_extremes_order_nested_values_as_spark_does() -> None:
    """Structs and arrays compare field by field, a null before everything else."""
    data_type = pa.struct([("a", pa.int32()), ("b", pa.string())])
    old = pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "z"}, None], data_type)
    new = pa.array([{"a": 1, "b": None}, {"a": -9, "b": ""}, {"a": 0, "b": ""}], data_type)
    least = ExtremeBuffer((0,), "min").merge([old], [new])[0].to_pylist()
    assert least == [{"a": 1, "b": None}, {"a": None, "b": "z"}, {"a": 0, "b": ""}]


def test_of_equal_orders_the_earlier_row_stays_unless_ties_go_to_the_later() -> None:
    """That is how first and last by event time differ; max_by and min_by give the later one, as in Spark."""
    old, new = ([pa.array([value]), pa.array([5])] for value in ("old", "new"))
    for which in ("min", "max"):
        assert ExtremeByBuffer((0, 1), which).merge(old, new)[0].to_pylist() == ["old"]  # type: ignore[arg-type]
        later = ExtremeByBuffer((0, 1), which, ties=True)  # type: ignore[arg-type]
        assert later.merge(old, new)[0].to_pylist() == ["new"]


@given(st.lists(st.lists(st.none() | st.integers(-(2**40), 2**40), max_size=6), min_size=1, max_size=5))
def test_segments_reduce_to_what_python_computes(groups: list[list[int | None]]) -> None:
    """Any number of partial rows per key comes down to one, in order, with nulls as the neutral element."""
    groups = [group or [None] for group in groups]
    flat = [value for group in groups for value in group]
    starts = np.cumsum([0, *[len(group) for group in groups[:-1]]])
    columns = [
        pa.array([0 if value is None else 1 for value in flat], pa.int64()),
        pa.array(flat, pa.int64()),
        pa.array([[] if value is None else [value] for value in flat], pa.list_(pa.int64())),
        pa.array([None if value is None else [value % 3] for value in flat], pa.list_(pa.int64())),
    ]
    buffers = [CountBuffer((0,)), SumBuffer((1,), True, "sum(v)"), ListBuffer((2,)), SetBuffer((3,))]
    count, total, everything, different = (c.to_pylist() for c in reduce_segments(buffers, columns, starts))
    for i, group in enumerate(groups):
        known = [value for value in group if value is not None]
        assert count[i] == len(known)
        assert total[i] == (sum(known) if known else None)
        assert (everything[i] or []) == known
        assert (different[i] or []) == list(dict.fromkeys(value % 3 for value in known))


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=6), min_size=2, max_size=4))
def test_moments_merge_like_one_pass_over_all_values(parts: list[list[float]]) -> None:
    """Variance of parts that were merged equals the variance of all values, up to rounding."""
    buffer = MomentsBuffer((0, 1, 2))

    def partial(values: list[float]) -> list[pa.Array]:
        if not values:
            return [pa.array([0]), pa.array([None], pa.float64()), pa.array([None], pa.float64())]
        return [pa.array([len(values)]), pa.array([np.mean(values)]), pa.array([np.var(values) * len(values)])]

    merged = partial(parts[0])
    for part in parts[1:]:
        merged = buffer.merge(merged, partial(part))
    values = [value for part in parts for value in part]
    for kind, sample in (("var_samp", 1), ("var_pop", 0), ("stddev_samp", 1), ("stddev_pop", 0)):
        [result] = Result("r", kind, (0, 1, 2), pa.float64()).compute(merged).to_pylist()
        if len(values) <= sample:
            assert result is None
        else:
            expected = np.var(values, ddof=sample)
            expected = math.sqrt(expected) if kind.startswith("std") else expected
            assert result == pytest.approx(expected, rel=1e-6, abs=1e-3)


AMOUNTS = st.none() | st.decimals(-(10**36) + 1, 10**36 - 1, places=2, allow_nan=False)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5))
def test_decimal_sums_are_exact_or_overflow(pairs: list[tuple[Decimal | None, Decimal | None]]) -> None:
    """Sums use all 38 digits; beyond them ANSI mode raises and the other mode gives null for good."""
    data_type = pa.decimal128(38, 2)
    old, new = (
        [
            pa.array([pair[i] for pair in pairs], data_type),
            pa.array([int(pair[i] is not None) for pair in pairs], pa.int64()),
        ]
        for i in (0, 1)
    )
    exact = [sum(int(Fraction(value) * 100) for value in pair if value is not None) for pair in pairs]
    limit = 10**38
    merged = DecimalSumBuffer((0, 1), False, "sum(v)").merge(old, new)
    for pair, total, result in zip(pairs, exact, merged[0].to_pylist(), strict=True):
        if pair == (None, None) or abs(total) >= limit:
            assert result is None
        else:
            assert int(Fraction(result) * 100) == total
    if any(abs(total) >= limit for total in exact):
        with pytest.raises(AggregateOverflowError, match=r"sum\(v\) overflows decimal128\(38, 2\)"):
            DecimalSumBuffer((0, 1), True, "sum(v)").merge(old, new)
    again = DecimalSumBuffer((0, 1), False, "sum(v)").merge(
        merged, [pa.array([Decimal(0)] * len(pairs), data_type), new[1]]
    )
    for total, result in zip(exact, again[0].to_pylist(), strict=True):
        assert abs(total) < limit or result is None


def test_decimal_means_round_half_up_away_from_zero() -> None:
    """As Spark's division does."""
    total = pa.array([Decimal("1.00"), Decimal("-0.01"), Decimal("0.01"), None, Decimal(2)], pa.decimal128(20, 2))
    count = pa.array([3, 2, 8, 0, None], pa.int64())
    values = Result("r", "decimal_mean", (0, 1), pa.decimal128(14, 3)).compute([total, count]).to_pylist()
    assert values == [Decimal("0.333"), Decimal("-0.005"), Decimal("0.001"), None, None]


@given(st.lists(st.lists(st.floats(allow_nan=True), max_size=4), min_size=1, max_size=4))
def test_sets_hold_one_nan_and_one_zero(groups: list[list[float]]) -> None:
    """Values that Spark groups together are one element."""
    lists = pa.array([[*group, math.nan, -0.0, 0.0] for group in groups], pa.list_(pa.float64()))
    merged = SetBuffer((0,)).merge([lists], [lists])[0].to_pylist()
    for group, found in zip(groups, merged, strict=True):
        expected = {"nan" if math.isnan(value) else value + 0.0 for value in [*group, math.nan, 0.0]}
        assert len(found) == len(expected)
        assert {"nan" if math.isnan(value) else value + 0.0 for value in found} == expected


def test_a_row_of_nulls_is_neutral_for_every_buffer() -> None:
    """It stands for a key that has no state yet, or no rows."""
    buffers = [CountBuffer((0,)), SumBuffer((1,), True, "s"), MomentsBuffer((2, 3, 4)), ListBuffer((5,))]
    row = [pa.array([3]), pa.array([7]), pa.array([2]), pa.array([math.inf]), pa.array([1.5]), pa.array([[1, 2]])]
    nothing = [pa.nulls(1, column.type) for column in row]
    for old, new in ((row, nothing), (nothing, row)):
        assert [c.to_pylist() for c in merge_buffers(buffers, old, new)] == [c.to_pylist() for c in row]


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-(10**17), 10**17) | st.integers(-500, 500),
            st.none() | st.integers(0, 9) | st.integers(0, 10**12),
        ),
        min_size=1,
        max_size=20,
    ),
    scale=st.sampled_from([2, 6]),
)
def test_decimal_means_are_the_same_in_64_bits(rows: list[tuple[int | None, int | None]], scale: int) -> None:
    """By numpy, where the digits of the result leave room, they are what wide decimals give, nulls and all."""
    sums = [None if total is None else Decimal(total).scaleb(-2) for total, _ in rows]
    columns = [pa.array(sums, pa.decimal128(20, 2)), pa.array([count for _, count in rows], pa.int64())]
    result = Result("r", "decimal_mean", (0, 1), pa.decimal128(30, scale))
    found = result.compute(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "_mean_of_longs", lambda *_: None)
        assert found.equals(result.compute(columns))


def test_a_set_of_spark_s_that_has_values_twice_counts_them_once() -> None:
    """As its hash aggregation leaves structs and arrays when it goes over to sorting, from some hundred keys on."""
    pair, other = {"0": 1, "1": "a"}, {"0": 1, "1": "b"}
    structs = pa.array([[pair, other, pair], [], None], pa.list_(pa.struct([("0", pa.int32()), ("1", pa.string())])))
    arrays = pa.array([[[1], [2, None], [1]], [[]], None], pa.list_(pa.list_(pa.int32())))
    for found, sizes in ((structs, [2, 0, 0]), (arrays, [2, 1, 0])):
        assert Result("n", "size", (0,), pa.int64()).compute([found]).to_pylist() == sizes
