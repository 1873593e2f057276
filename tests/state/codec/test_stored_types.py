"""Every type that state can hold has its place in the table of each codec."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from mixedmode.errors import StateSchemaError
from mixedmode.runtime.operators.columnar.record_codec import RecordCodec
from mixedmode.state.codec.byte_arrays import data_of, offsets_of
from mixedmode.state.codec.codec import RowCodec
from mixedmode.state.codec.message_columns import column_of
from mixedmode.state.codec.stored_types import StoredType, stored_type
from mixedmode.state.keys.keys import KeyCodec

TYPES = {
    StoredType.NULL: pa.null(),
    StoredType.BOOLEAN: pa.bool_(),
    StoredType.INTEGER: pa.int16(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
    StoredType.STRING: pa.string(),
    StoredType.BINARY: pa.binary(),
    StoredType.DECIMAL: pa.decimal128(20, 2),
    StoredType.DATE: pa.date32(),
    StoredType.TIMESTAMP: pa.timestamp("us", "UTC"),
    StoredType.TIMESTAMP_NTZ: pa.timestamp("us"),
    StoredType.DURATION: pa.duration("us"),
    StoredType.TIME: pa.time64("ns"),
    StoredType.LIST: pa.list_(pa.int64()),
    StoredType.MAP: pa.map_(pa.string(), pa.int64()),
    StoredType.STRUCT: pa.struct([("a", pa.int64())]),
}
BY_ROW_ONLY = {StoredType.NULL, StoredType.LIST, StoredType.MAP, StoredType.STRUCT}


@pytest.mark.parametrize("kind", StoredType)
def test_every_codec_has_every_type(kind: StoredType) -> None:
    """A null of each type comes back from a value, a key and a record; maps are no keys, nested values no columns."""
    data_type = TYPES[kind]
    schema = pa.schema([("v", data_type)])
    assert stored_type(data_type) is kind
    value = RowCodec(schema)
    assert value.decode(value.encode((None,))) == (None,)
    assert (column_of(data_type) is None) == (kind in BY_ROW_ONLY)
    record = RecordCodec(list(schema))
    encoded = record.encode([pa.nulls(1, data_type)])
    (back,) = record.decode(data_of(encoded), offsets_of(encoded))
    assert back.to_pylist() == [None]
    if kind is StoredType.MAP:
        with pytest.raises(StateSchemaError, match="maps have no order"):
            KeyCodec(schema)
    else:
        key = KeyCodec(schema)
        assert key.decode(key.encode((None,))) == (None,)


@pytest.mark.parametrize("data_type", [pa.uint8(), pa.float16(), pa.date64(), pa.decimal256(40, 1)])
def test_other_types_are_refused(data_type: pa.DataType) -> None:
    """A type that Spark does not have is refused, with the name of the column and the type."""
    assert stored_type(data_type) is None
    schema, words = pa.schema([("v", data_type)]), re.escape(f"'v' has type {data_type}")
    for codec in (RowCodec, KeyCodec):
        with pytest.raises(StateSchemaError, match=words):
            codec(schema)
