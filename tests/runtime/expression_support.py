"""Generated rows for expressions, nasty values among them, and what is compared of their values."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from mixedmode.runtime.scan.expressions.translations import COLUMNS
from mixedmode.runtime.scan.expressions.values import Batch, Value
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyspark.sql import SparkSession
from session_options import session_options

ROWS = 120
TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,4)": pa.decimal128(18, 4),
    "decimal(30,6)": pa.decimal128(30, 6),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TIMES = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999) | st.integers(-(10**15), 4 * 10**15)
_AT = [-1, 0, 1, 1_710_054_000_000_000, 1_710_057_599_999_999, 1_730_610_000_000_000, -86_400_000_001]
_TEXTS = ["", " ", "a", "ab", "aab", " a b ", "ä", "éb", "😀b", "a%b", "A", "0", "-17", "+5", "1.5", "1e3", " 7", "٣"]
_TEXTS += [
    "9223372036854775808",
    "2024-02-29",
    "2023-02-29",
    "2024-03-10 02:30:00",
    "2024-03-10T02:30:00.25Z",
    "2024-1-1",
    "\tx",
    "ß",
    "İ",
    "a\nb",
]
#: Values of a type: some at its edges, and any.
VALUES: dict[str, tuple[list[Any], st.SearchStrategy[Any]]] = {
    "boolean": ([True, False], st.booleans()),
    "tinyint": ([-128, 127, 0, -1], st.integers(-128, 127)),
    "smallint": ([-32768, 32767, 0, -1], st.integers(-32768, 32767)),
    "int": ([-(2**31), 2**31 - 1, 0, -1, 1, 2, 5, 7], st.integers(-(2**31), 2**31 - 1)),
    "bigint": ([-(2**63), 2**63 - 1, 0, -1, 1, 2**53 + 1, 10], st.integers(-(2**63), 2**63 - 1)),
    "float": ([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, 2.0**31], st.floats(width=32)),
    "double": ([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 2.0**63, 0.1, 1e300], st.floats()),
    "string": (_TEXTS, st.text(max_size=12)),
    "date": ([date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)], st.dates()),
    "timestamp": (_AT, _TIMES),
    "timestamp_ntz": (_AT, _TIMES),
}


def _decimals(precision: int, scale: int) -> tuple[list[Any], st.SearchStrategy[Any]]:
    most = 10**precision - 1
    numbers = st.integers(-most, most) | st.integers(-1000, 1000)
    exact = Context(prec=60)
    edges = [exact.scaleb(Decimal(one), -scale) for one in (most, -most, 0, 5)]
    return edges, numbers.map(lambda one: exact.scaleb(Decimal(one), -scale))


for _precision, _scale in ((9, 2), (18, 4), (30, 6)):
    VALUES[f"decimal({_precision},{_scale})"] = _decimals(_precision, _scale)


def fields() -> Iterator[tuple[str, str]]:
    """Names and types of the columns of the examples."""
    for one in re.split(r", *(?![0-9])", COLUMNS):
        name, data_type = one.split()
        yield name, data_type


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of values at the edges, of drawn ones, and of nulls, put together by chance."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    columns = {}
    for name, data_type in fields():
        edges, values = VALUES[data_type]
        pool = [*edges, *draw(st.lists(values, min_size=4, max_size=4)), *[None] * 4]
        columns[name] = pa.array([chance.choice(pool) for _ in range(ROWS)], TYPES[data_type])
    return pa.table(columns)


def taken(value: Value, rows: pa.RecordBatch, first: int = 0) -> list[int]:
    """The rows that are not left to Spark."""
    try:
        Batch(rows).of(value)
    except NotTakenError:
        if rows.num_rows == 1:
            return []
        half = rows.num_rows // 2
        return taken(value, rows.slice(0, half), first) + taken(value, rows.slice(half), first + half)
    return list(range(first, first + rows.num_rows))


def bits(array: pa.Array) -> list[Any]:
    """Values that are the same if and only if their bits are; NaN is one value."""
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_floating(array.type):
        return [one if one is None or math.isnan(one) else (one, math.copysign(1, one)) for one in array.to_pylist()]
    return array.to_pylist()


def session_settings(spark: SparkSession, **values: str) -> AbstractContextManager[None]:
    return session_options(spark, {name.replace("__", "."): value for name, value in values.items()})
