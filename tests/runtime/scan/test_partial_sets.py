"""The different values of each key, for counts and sums of them; no Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.scan.partial_calls import PartialCall, Sums, aggregated, are_merged, is_element

VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int8(): st.integers(-2, 2),
    pa.int64(): st.sampled_from([0, -(2**63), 2**63 - 1]),
    pa.string(): st.sampled_from(["", "a", "a\0", "ä"]),
    pa.date32(): st.sampled_from([date(1, 1, 1), date(2024, 2, 29)]),
    pa.timestamp("us", "UTC"): st.sampled_from([0, -(2**63), 1]),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("-1.50")]),
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@given(data=st.data())
def test_sets_have_each_value_once_and_no_null(data_type: pa.DataType, data: st.DataObject) -> None:
    """Each key's different values come in the type that Spark gives them; a key without values has none."""
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.none() | VALUES[data_type]), min_size=1, max_size=20))
    listed = pa.list_(pa.field("element", data_type, nullable=False))
    calls = (PartialCall("n", "count_all", None, pa.int64()), PartialCall("set", "set", "value", listed))
    assert is_element(data_type) and not are_merged(calls)
    values = pa.array([value for _, value in rows], data_type)
    table = pa.table({"key": [key for key, _ in rows], "value": values})
    # In chunks, as it comes from several batches.
    found = aggregated(pa.concat_tables([table.slice(0, 3), table.slice(3)]), ["key"], calls, Sums())
    assert found.schema.field("set").type == listed
    wanted: dict[int, set[str]] = {}
    for key, value in zip(table["key"].to_pylist(), values, strict=True):
        wanted.setdefault(key, set()).update([repr(value)] if value.is_valid else [])
    sets = [[repr(value) for value in one] for one in found["set"]]
    assert [len(one) for one in sets] == [len(set(one)) for one in sets]
    assert dict(zip(found["key"].to_pylist(), map(set, sets), strict=True)) == wanted


@pytest.mark.parametrize("data_type", [pa.float64(), pa.float32(), pa.binary(), pa.list_(pa.int64())], ids=str)
def test_values_that_are_compared_in_another_way_are_not_put_into_sets(data_type: pa.DataType) -> None:
    """Zeros with and without a sign are one value for Spark, and so are all NaNs."""
    assert not is_element(data_type)
