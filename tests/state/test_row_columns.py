"""Values of many keys as columns are what rows of them are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import StateSchemaError
from mixedmode.state.codec import RowCodec
from mixedmode.state.row_columns import RowColumns
from test_keys import VALUES


@given(st.data())
def test_columns_of_values_are_the_same_bytes_as_rows(data: st.DataObject) -> None:
    """For every type that has such a form, nulls and values of older schemas included."""
    flat = [one for one in VALUES if not pa.types.is_nested(one)]
    types = data.draw(st.lists(st.sampled_from(flat), min_size=1, max_size=3))
    schema = pa.schema([(f"c{i}", data_type) for i, data_type in enumerate(types)])
    a_row = st.tuples(*[st.none() | VALUES[data_type] for data_type in types])
    codec = RowCodec(schema)
    stored = [codec.encode(row) for row in data.draw(st.lists(a_row, max_size=4))]
    columns = RowColumns(codec, "state")
    found = columns.decode([*stored, None])
    assert found.is_null().to_pylist() == [*[False] * len(stored), True]
    parts = [found.slice(0, len(stored)).field(i) for i in range(len(types))]
    assert columns.encode(parts) == stored
    older = RowCodec(pa.schema([*schema, ("new", pa.int64())]), [schema])
    decoded = RowColumns(older, "state").decode(stored)
    assert decoded.field("new").null_count == len(stored)
    assert columns.encode([decoded.field(i) for i in range(len(types))]) == stored


def test_values_with_lists_inside_have_no_columns() -> None:
    """The error names the field, and says what to do."""
    codec = RowCodec(pa.schema([("tags", pa.list_(pa.string()))]))
    with pytest.raises(StateSchemaError, match=r"(?s)'tags' of state 'seen' is list.*handleInputRows"):
        RowColumns(codec, "seen")
