"""Merged segments against plain Python."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.scan.partial_calls import PartialCall
from mixedmode.runtime.scan.segments import merged_segments

LONGS = st.integers(-(2**40), 2**40) | st.sampled_from([0, 2**62, -(2**62)])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): LONGS,
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(),
    pa.decimal128(20, 2): LONGS.map(lambda one: Decimal(one) / 100),
    pa.string(): st.text(max_size=3),
    pa.timestamp("us"): st.integers(-(2**40), 2**40),
    pa.date32(): st.integers(-1000, 1000),
}


def order(value: Any) -> Any:
    """Spark's order of doubles: NaN is the greatest."""
    if isinstance(value, float):
        return (math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@pytest.mark.parametrize("function", ["min", "max", "sum"])
@given(data=st.data())
def test_segments_are_merged_as_a_model_merges_them(data: st.DataObject, data_type: pa.DataType, function: Any) -> None:
    """Of values that may be null; a sum that leaves its type is not decided here."""
    if function == "sum" and not (pa.types.is_int64(data_type) or pa.types.is_float64(data_type)):
        function = "max"
    value = VALUES[data_type] | st.none()
    segments = data.draw(st.lists(st.lists(value, min_size=1, max_size=4), min_size=1, max_size=5))
    column = pa.array([one for segment in segments for one in segment], data_type)
    starts = np.cumsum([0, *map(len, segments)])[:-1]
    found = merged_segments(column, PartialCall("x", function, "x", data_type), starts)
    ends = [*starts[1:], len(column)]
    model = []
    for start, end in zip(starts, ends, strict=True):
        known = [one for one in column.slice(start, end - start).to_pylist() if one is not None]
        if function == "sum":
            model.append(sum(known) if known else None)
        else:
            model.append((min if function == "min" else max)(known, key=order, default=None))
    if found is None:
        assert function == "sum"
        assert max(abs(one or 0) for one in column.to_pylist()) * max(map(len, segments)) >= 2**63
        return
    assert found.type == data_type
    ours = found.to_pylist()
    if function == "sum" and pa.types.is_float64(data_type):
        for one, other in zip(ours, model, strict=True):
            assert one == other or math.isnan(one) == math.isnan(other) or one == pytest.approx(other)
    else:
        assert [repr(one) for one in ours] == [repr(one) for one in model]
