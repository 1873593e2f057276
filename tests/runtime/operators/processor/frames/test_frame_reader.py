"""pandas frames are those that PySpark's own pandas functions get for the same rows."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.processor.frames.frame_reader import FrameReader
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from row_support import TYPES

conversion = pytest.importorskip("pyspark.sql.conversion")
ZONE = "America/New_York"
#: What fits into a pandas timestamp, which counts nanoseconds.
pandas_moments = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
PANDAS_TYPES = {
    **TYPES,
    "timestamp": (TimestampType(), pandas_moments),
    "timestamp_ntz": (TimestampNTZType(), pandas_moments),
    "timestamps": (ArrayType(TimestampType()), st.lists(st.none() | pandas_moments, max_size=2)),
    "window": (
        StructType([StructField("start", TimestampType()), StructField("end", TimestampType())]),
        st.builds(lambda start: Row(start=start, end=start), pandas_moments),
    ),
}


def batch_of(schema: StructType, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    table = LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema))
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))


def as_pyspark(batch: pa.RecordBatch, zone: str, **options: Any) -> pd.DataFrame:
    """What ``applyInPandas`` gets for the rows of a batch."""
    if not hasattr(conversion, "ArrowBatchTransformer"):
        pytest.skip("this version of PySpark has the conversion elsewhere")
    columns = [
        column.cast(pa.timestamp("us", zone)) if pa.types.is_timestamp(column.type) and column.type.tz else column
        for column in batch.columns
    ]
    zoned = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    return pd.concat(conversion.ArrowBatchTransformer.to_pandas(zoned, timezone=zone, **options), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", PANDAS_TYPES)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_slice_is_what_pyspark_makes_of_its_rows(name: str, data: st.DataObject) -> None:
    """Values and dtype, with nulls and without, whatever the other rows of the batch are."""
    data_type, values = PANDAS_TYPES[name]
    schema = StructType([StructField("n", IntegerType()), StructField("value", data_type)])
    rows = data.draw(st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | values), min_size=1, max_size=6))
    batch = batch_of(schema, rows)
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    found = FrameReader(schema, FrameSettings(ZONE)).view(batch).frame(start, stop)
    pd.testing.assert_frame_equal(found, as_pyspark(batch.slice(start, stop - start), ZONE))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_integers_of_extension_dtypes_and_zones_follow_the_session(zone: str) -> None:
    schema = StructType([StructField("n", LongType()), StructField("at", TimestampType())])
    batch = batch_of(schema, [(1, datetime(2024, 3, 10, 12)), (None, None), (2**62, datetime(2024, 11, 3, 6))])
    found = FrameReader(schema, FrameSettings(zone, int_extension_dtypes=True)).view(batch).frame(0, 3)
    pd.testing.assert_frame_equal(found, as_pyspark(batch, zone, prefer_int_ext_dtype=True))
    assert str(found["n"].dtype) == "Int64" and found["n"][2] == 2**62


def test_frames_of_a_batch_are_their_owners() -> None:
    """A handler may write into its frame, add columns and keep it: no other frame changes, pandas does not warn."""
    schema = StructType([StructField("n", LongType()), StructField("s", StringType()), StructField("b", BooleanType())])
    view = FrameReader(schema, FrameSettings("UTC")).view(batch_of(schema, [(i, f"s{i}", True) for i in range(6)]))
    first = view.frame(0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first["more"] = first["n"] * 2
        first.loc[2, "n"] = -1
        first["s"] = "x"
        del first["b"]
    second = view.frame(3, 6)
    assert second.to_dict("list") == {"n": [3, 4, 5], "s": ["s3", "s4", "s5"], "b": [True] * 3}
    assert first.to_dict("list") == {"n": [0, 1, -1], "s": ["x"] * 3, "more": [0, 2, 4]}
    assert list(second.index) == [0, 1, 2]


def test_a_time_that_pandas_cannot_hold_is_told_with_its_column() -> None:
    schema = StructType([StructField("at", TimestampType())])
    with pytest.raises(OverflowError, match=r"column at: .*timestamps of pandas go from 1677 to 2262"):
        FrameReader(schema, FrameSettings("UTC")).view(batch_of(schema, [(datetime(2300, 1, 1),)])).frame(0, 1)


def test_many_ways_of_having_nulls_and_no_columns_at_all() -> None:
    """More patterns of nulls than conversions are kept for; rows without columns are counted."""
    names = ["a", "b", "c", "d"]
    schema = StructType([StructField(name, LongType()) for name in names])
    rows = [tuple(None if row >> bit & 1 else row for bit in range(4)) for row in range(16)]
    batch = batch_of(schema, rows)
    view = FrameReader(schema, FrameSettings("UTC")).view(batch)
    for row in range(16):
        found = view.frame(row, row + 1)
        assert [str(dtype) for dtype in found.dtypes] == [
            "float64" if row >> bit & 1 else "int64" for bit in range(4)
        ], rows[row]
        pd.testing.assert_frame_equal(found, as_pyspark(batch.slice(row, 1), "UTC"))
    assert FrameReader(StructType([]), FrameSettings("UTC")).view(batch).frame(2, 5).shape == (3, 0)
