"""Columns of Arrow in other forms."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mixedmode.runtime.support.arrow_columns import unpacked


@pytest.mark.parametrize(("start", "count"), [(0, 2), (1, 2), (0, 3), (3, 0)])
def test_structs_of_a_slice_are_unpacked_alone(start: int, count: int) -> None:
    """Rows beside the slice stay out; a null struct has null fields."""
    structs = pa.array([{"a": 1, "b": "x"}, None, {"a": 3, "b": None}])
    found = unpacked(structs.slice(start, count))
    rows = [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": None}][start : start + count]
    assert (found.num_rows, found.to_pylist()) == (count, rows)
    assert all(len(column) == count for column in found.columns)
