"""Arrow types and schemas of Spark's, as its Python workers see them."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

#: Types whose columns numpy turns into Python numbers.
NUMBERS = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)


#: How to_arrow_type is told to make UTC timestamps: until Spark 4.2 that is what it does by itself.
_UTC_TIMESTAMPS: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type; timestamps are ``timestamp('us', 'UTC')``."""
    return to_arrow_type(data_type, **_UTC_TIMESTAMPS)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, every field nullable as rows cross process borders."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])
