"""The options of Spark's Parquet writer that files of ours follow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode import OptionError
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.connectors.parquet_form import ParquetForm
from pyarrow import fs
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

TIMES = StructType([StructField("ts", TimestampType())])
LOCAL_TIMES = ArrayType(StructType([StructField("t", TimestampNTZType())]))
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def form(options: dict[str, str], a: DataType | None = None, session: str | None = None) -> ParquetForm:
    schema = StructType([StructField("n", IntegerType()), StructField("a", a or TimestampType())])
    return ParquetForm.of(options, schema).in_session(session)


@pytest.mark.parametrize(
    ("options", "session", "codec"),
    [
        ({}, None, "snappy"),
        ({}, "zstd", "zstd"),
        ({}, "lzo", "snappy"),
        ({"Compression": "GZIP"}, "zstd", "gzip"),
        ({"compression": "uncompressed"}, "zstd", "none"),
        ({"parquet.compression": "zstd", "spark.sql.parquet.compression.codec": "gzip"}, None, "zstd"),
        ({"spark.sql.parquet.compression.codec": "lz4_raw"}, "zstd", "lz4"),
    ],
)
def test_codec_is_that_of_the_writer_and_else_that_of_the_session(
    options: dict[str, str], session: str | None, codec: str
) -> None:
    """In the order in which Spark looks for it."""
    assert form(options, session=session) == ParquetForm(codec)


@pytest.mark.parametrize(
    ("options", "a", "message"),
    [
        ({"compression": "lzo"}, None, r"^option compression = 'lzo' is not allowed for parquet; allowed: none, "),
        ({TIMESTAMPS: "NANOS"}, None, rf"^option {TIMESTAMPS} = 'NANOS' is not allowed; allowed: TIMESTAMP_MICROS"),
        ({"maxRecordsPerFile": "many"}, None, "^option maxRecordsPerFile = 'many' is not allowed; allowed: whole"),
        ({TIMESTAMPS: "int96"}, LOCAL_TIMES, "is not supported beside column a, "),
    ],
)
def test_values_that_cannot_be_written_are_refused(options: dict[str, str], a: DataType | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        form(options, a)


@pytest.mark.parametrize(
    ("timestamps", "kind", "unit", "micros"),
    [
        ("TIMESTAMP_MICROS", "INT64", "us", 1_234_567),
        ("TIMESTAMP_MILLIS", "INT64", "ms", 1_234_000),
        ("INT96", "INT96", "ns", 1_234_567),
    ],
)
def test_timestamps_are_held_as_the_writer_was_told(
    tmp_path: Path, timestamps: str, kind: str, unit: str, micros: int
) -> None:
    """Whole or, of milliseconds, cut off, as Spark does."""
    place = OutputPlace(fs.LocalFileSystem(), str(tmp_path), form=form({TIMESTAMPS: timestamps, "compression": "zstd"}))
    output = place.open("e1", TIMES)
    output.write(pa.RecordBatch.from_arrays([pa.array([1_234_567], pa.timestamp("us", "UTC"))], ["ts"]))
    [file] = output.finish()
    path = tmp_path / file.name
    column = pq.read_metadata(path).row_group(0).column(0)
    assert (column.physical_type, column.compression) == (kind, "ZSTD")
    found = pq.read_table(path).column(0)
    assert found.type.unit == unit
    assert found.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == [micros]


@pytest.mark.parametrize(("most", "files"), [("3", [3, 3, 3, 1]), ("5", [5, 5]), ("10", [10]), ("0", [10])])
@pytest.mark.parametrize("size", [1, 4, 10])
def test_files_have_no_more_rows_than_the_writer_was_told(
    tmp_path: Path, most: str, files: list[int], size: int
) -> None:
    """In their order, however they come."""
    place = OutputPlace(fs.LocalFileSystem(), str(tmp_path), form=form({"maxrecordsperfile": most}))
    output = place.open("e1", TIMES)
    times = pa.array(range(10), pa.timestamp("us", "UTC"))
    for start in range(0, 10, size):
        output.write(pa.RecordBatch.from_arrays([times.slice(start, size)], ["ts"]))
    staged = output.finish()
    assert [file.rows for file in staged] == files
    found = [pq.read_table(tmp_path / file.name).column(0).cast(pa.int64()).to_pylist() for file in staged]
    assert [n for rows in found for n in rows] == list(range(10))
    assert len(list(tmp_path.iterdir())) == len(files)
