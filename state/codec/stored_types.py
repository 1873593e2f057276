"""Names the types of values that state can hold: every codec has one table by these names.

A type that is added here is added to the tables of the codecs, too: state values by row (:mod:`.type_codecs`) and by
column (:mod:`.message_columns`), keys (:mod:`..keys.keys`) and the records of aggregates.
"""

from __future__ import annotations

from enum import Enum, auto

import pyarrow as pa


class StoredType(Enum):
    """A type of Spark's, whatever its size or precision."""

    NULL = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DOUBLE = auto()
    STRING = auto()
    BINARY = auto()
    DECIMAL = auto()
    DATE = auto()
    TIMESTAMP = auto()
    TIMESTAMP_NTZ = auto()
    DURATION = auto()
    TIME = auto()
    LIST = auto()
    MAP = auto()
    STRUCT = auto()


_BY_ID = {
    pa.lib.Type_NA: StoredType.NULL,
    pa.lib.Type_BOOL: StoredType.BOOLEAN,
    pa.lib.Type_INT8: StoredType.INTEGER,
    pa.lib.Type_INT16: StoredType.INTEGER,
    pa.lib.Type_INT32: StoredType.INTEGER,
    pa.lib.Type_INT64: StoredType.INTEGER,
    pa.lib.Type_FLOAT: StoredType.FLOAT,
    pa.lib.Type_DOUBLE: StoredType.DOUBLE,
    pa.lib.Type_STRING: StoredType.STRING,
    pa.lib.Type_LARGE_STRING: StoredType.STRING,
    pa.lib.Type_BINARY: StoredType.BINARY,
    pa.lib.Type_LARGE_BINARY: StoredType.BINARY,
    pa.lib.Type_DECIMAL128: StoredType.DECIMAL,
    pa.lib.Type_DATE32: StoredType.DATE,
    pa.lib.Type_TIMESTAMP: StoredType.TIMESTAMP,
    pa.lib.Type_DURATION: StoredType.DURATION,
    pa.lib.Type_TIME64: StoredType.TIME,
    pa.lib.Type_LIST: StoredType.LIST,
    pa.lib.Type_LARGE_LIST: StoredType.LIST,
    pa.lib.Type_MAP: StoredType.MAP,
    pa.lib.Type_STRUCT: StoredType.STRUCT,
}


def stored_type(data_type: pa.DataType) -> StoredType | None:
    """The name of an Arrow type; None: state cannot hold it."""
    found = _BY_ID.get(data_type.id)
    if found is StoredType.TIMESTAMP and data_type.tz is None:
        return StoredType.TIMESTAMP_NTZ
    return found
