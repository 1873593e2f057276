"""Every type that a row can have, with values of it; shared by the tests of both directions."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

moments = st.datetimes(datetime(1, 1, 2), datetime(9998, 12, 30))
longs = st.integers(-(2**63), 2**63 - 1)

#: A type and values of it.
TYPES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "boolean": (BooleanType(), st.booleans()),
    "byte": (ByteType(), st.integers(-(2**7), 2**7 - 1)),
    "short": (ShortType(), st.integers(-(2**15), 2**15 - 1)),
    "int": (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (LongType(), longs),
    "float": (FloatType(), st.floats(width=32)),
    "double": (DoubleType(), st.floats()),
    "string": (StringType(), st.text(st.characters(codec="utf-8"))),
    "binary": (BinaryType(), st.binary()),
    "decimal": (DecimalType(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "date": (DateType(), st.dates(date(1, 1, 2))),
    "timestamp": (TimestampType(), moments),
    "timestamp_ntz": (TimestampNTZType(), moments),
    "interval": (DayTimeIntervalType(), st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000))),
    "array": (ArrayType(LongType()), st.lists(st.none() | longs, max_size=3)),
    "map": (MapType(StringType(), DoubleType()), st.dictionaries(st.text("ab", max_size=2), st.floats(), max_size=3)),
    "struct": (
        StructType([StructField("a", LongType()), StructField("b", ArrayType(DateType()))]),
        st.builds(lambda a, b: Row(a=a, b=b), st.none() | longs, st.lists(st.dates(date(1, 1, 2)), max_size=2)),
    ),
}


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN and types count."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and left == right
