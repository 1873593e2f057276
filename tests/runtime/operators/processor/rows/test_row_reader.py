"""Rows that a processor gets are what PySpark itself would make of them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.processor.rows.row_reader import RowReader
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import (
    DateType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)
from row_support import TYPES, same


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_reads_as_pyspark_does(name: str) -> None:
    """For every type, the reader's rows equal those of PySpark's own converter, nulls included."""
    data_type, values = TYPES[name]
    schema = StructType([StructField("n", IntegerType()), StructField("v", data_type)])

    @given(st.lists(st.none() | values, min_size=1, max_size=6))
    def check(column: list[Any]) -> None:
        table = LocalDataToArrowConversion.convert(list(enumerate(column)), schema, False)
        expected = ArrowTableToRowsConversion.convert(table, schema)
        rows = list(RowReader(schema).rows(table.cast(arrow_schema(schema)).combine_chunks().to_batches()[0]))
        assert all(same(row, other) for row, other in zip(rows, expected, strict=True))

    check()


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This process lives in the zone of the parameter."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC"], indirect=True)
def test_timestamps_are_local_time_in_any_zone(zone: str) -> None:
    """Whole columns, also over the hours in which a zone's offset changes, become what PySpark makes of each value."""
    year_us, minute_us = 366 * 86_400_000_000, 60_000_000
    changes = np.arange(1_679_000_000_000_000, 1_679_000_000_000_000 + year_us, 17 * minute_us)
    sparse = np.arange(-2_400_000_000_000_000, 4_000_000_000_000_000, 977 * year_us // 8000)
    micros = pa.array([None, *changes.tolist(), *sparse.tolist()], pa.int64())
    column = micros.cast(pa.timestamp("us", "UTC"))
    schema = StructType([StructField("ts", TimestampType())])
    table = pa.table({"ts": column})
    rows = list(RowReader(schema).rows(table.to_batches()[0]))
    assert rows == ArrowTableToRowsConversion.convert(table, schema)


def test_dates_beyond_the_year_9999_are_refused() -> None:
    """A date that Python cannot hold is an error, not a number in the date's place."""
    batch = pa.RecordBatch.from_pydict({"d": pa.array([4_000_000], pa.int32()).cast(pa.date32())})
    with pytest.raises(OverflowError, match="years 1 to 9999"):
        next(RowReader(StructType([StructField("d", DateType())])).rows(batch))


def rows_of(**columns: list[Any]) -> list[Row]:
    batch = pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return list(RowReader(StructType([StructField(name, LongType()) for name in columns])).rows(batch))


def test_rows_behave_like_pyspark_rows() -> None:
    """A row has fields by attribute, by name and by position, and equals, prints and pickles as a plain Row."""
    (row,) = rows_of(key=[1], total=[2])
    assert (row.key, row["total"], row[1], row[-1]) == (1, 2, 2, 2)
    assert row.asDict() == {"key": 1, "total": 2}
    assert "total" in row and "other" not in row
    assert row == Row(key=1, total=2)
    assert repr(row) == repr(Row(key=1, total=2))
    assert pickle.loads(pickle.dumps(row)) == row


def test_unknown_field_fails_as_in_pyspark() -> None:
    """A field that is not there raises what PySpark's Row raises."""
    (row,) = rows_of(key=[1])
    with pytest.raises(AttributeError):
        _ = row.other
    with pytest.raises(ValueError, match="other"):
        row["other"]


def test_field_named_like_a_method_keeps_the_method() -> None:
    """Columns called ``count`` or ``asDict`` are reached by name; the methods stay methods, as in PySpark."""
    (row,) = rows_of(count=[7], asDict=[8])
    assert (row["count"], row["asDict"]) == (7, 8)
    assert row.count(7) == 1
    assert row.asDict() == {"count": 7, "asDict": 8}


def test_rows_can_be_sliced_as_in_pyspark() -> None:
    """A slice of a row is a tuple; a position beyond the last is an IndexError."""
    (row,) = rows_of(a=[1], b=[2], c=[3])
    assert row[1:] == (2, 3)
    with pytest.raises(IndexError):
        row[3]


def test_columns_are_found_by_name() -> None:
    """The order of the batch's columns, and columns that the schema does not name, do not matter."""
    batch = pa.RecordBatch.from_pydict({"extra": [0], "b": [2], "a": [1]})
    schema = StructType([StructField("a", LongType()), StructField("b", LongType())])
    assert list(RowReader(schema).rows(batch)) == [Row(a=1, b=2)]


def test_schema_without_columns_keeps_the_number_of_rows() -> None:
    """Rows without a field are still rows."""
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3]})
    assert list(RowReader(StructType([])).rows(batch)) == [(), (), ()]
