"""Partitions are folders with the names that Spark gives them, and their files lack the partition columns."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.errors import OptionError, OutputSchemaError
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.connectors import partitioned_output
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.connectors.partition_paths import PartitionPaths, escaped, session_zone
from mixedmode.runtime.connectors.sinks.parquet import partition_paths
from mixedmode.runtime.connectors.staged_output import partition_values
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from session_options import session_options

SCHEMA = (
    StructType()
    .add("n", "integer")
    .add("s", "string")
    .add("d", "date")
    .add("b", "boolean")
    .add("l", "long")
    .add("m", "decimal(10,3)")
    .add("t", "timestamp")
    .add("w", "timestamp_ntz")
    .add("a b/c", "string")
)
MOMENT = datetime(2024, 1, 31, 23, 4, 5, 120000)
ROWS: list[tuple[Any, ...]] = [
    (1, "plain", date(2024, 1, 31), True, 7, Decimal("1.500"), MOMENT, MOMENT, "x"),
    (2, None, None, None, None, None, None, None, None),
    (3, "", date(1, 2, 3), False, -(2**63), Decimal("-0.001"), datetime(1970, 1, 1), datetime(1970, 1, 1), ""),
    (4, "a/b=c:d%e#'\"*?\\{[]}^ é\n", date(9999, 12, 31), True, 0, Decimal(0), MOMENT, MOMENT, " "),
]
BY = ["s", "d", "b", "l", "m", "t", "w", "a b/c"]


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = arrow_schema(SCHEMA)
    zoned = [[*row[:6], row[6] and row[6].replace(tzinfo=timezone.utc), *row[7:]] for row in rows]
    columns = [pa.array(values, field.type) for values, field in zip(zip(*zoned, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def paths(*names: str) -> PartitionPaths:
    places = [SCHEMA.fieldNames().index(name) for name in names]
    return PartitionPaths(tuple(places), names, tuple(SCHEMA.fields[place].dataType for place in places), "UTC")


def test_folders_are_named_as_spark_names_them(spark: SparkSession, tmp_path: Path) -> None:
    """Every type, in the session's time zone; null, empty strings, and characters that a path cannot have."""
    for zone in ("UTC", "America/New_York", "+05:30"):
        with session_options(spark, {"spark.sql.session.timeZone": zone}):
            mine = partition_paths(spark, SCHEMA, BY)
            frame = spark.createDataFrame(pa.Table.from_batches([batch(ROWS)]), SCHEMA)
            out = tmp_path / escaped(zone)
            frame.coalesce(1).write.partitionBy(*BY).parquet(str(out))
        assert mine is not None
        found, codes = mine.folders(batch(ROWS))
        theirs = {str(path.parent.relative_to(out)) for path in out.rglob("*.parquet")}
        assert {found[place] for place in codes} == theirs
    jvm: Any = spark._jvm
    every = "".join(map(chr, [*range(1, 0x180), 0x20AC]))
    assert escaped(every) == jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName(every)


def test_files_of_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows stay in their order, the columns are not in the files, and what their values are can be read back."""
    monkeypatch.setattr(partitioned_output, "_OPEN", 2)  # of three partitions one is closed, and opened once more
    output = OutputPlace(fs.LocalFileSystem(), str(tmp_path), paths("d", "s")).open("e00000001-x", SCHEMA)
    for rows in (ROWS[:3], [ROWS[1], ROWS[0]], [ROWS[0]]):
        output.write(batch(rows))
    files = output.finish()
    assert sum(file.rows for file in files) == 6
    default = "__HIVE_DEFAULT_PARTITION__"
    held: dict[str, list[int]] = {}
    for file in files:
        table = pq.ParquetFile(tmp_path / file.name).read()
        assert table.column_names == ["n", "b", "l", "m", "t", "w", "a b/c"]
        held.setdefault(file.folder, []).extend(table.column("n").to_pylist())
        values = {name: column.to_pylist() for name, column in partition_values(table.schema).items()}
        row = next(row for row in ROWS if row[0] == table.column("n")[0].as_py())
        assert values == {"d": [row[2]], "s": [row[1]]}
    assert held == {
        "d=2024-01-31/s=plain": [1, 1, 1],
        f"d={default}/s={default}": [2, 2],
        f"d=0001-02-03/s={default}": [3],
    }


@pytest.mark.parametrize(
    ("kind", "value", "zone"),
    [("date", 2_932_897, "UTC"), ("timestamp", 253_402_299_000_000_000, "Europe/Paris")],
    ids=["a date", "a moment near the end of 9999"],
)
def test_a_date_that_python_does_not_have(kind: str, value: int, zone: str) -> None:
    """The error names the partition column, the value and the years that are allowed."""
    schema = StructType().add("p", kind)
    column = pa.array([value], pa.int32() if kind == "date" else pa.int64()).cast(arrow_schema(schema)[0].type)
    named = PartitionPaths((0,), ("p",), (schema[0].dataType,), zone)
    with pytest.raises(OutputSchemaError, match=f"column 'p' has the value {value} .*years 1 to 9999"):
        named.folders(pa.RecordBatch.from_arrays([column], names=["p"]))


def test_an_attempt_that_fails_leaves_no_open_files(tmp_path: Path) -> None:
    """They are removed."""
    output = OutputPlace(fs.LocalFileSystem(), str(tmp_path), paths("s")).open("e00000001-x", SCHEMA)
    output.write(batch(ROWS))
    output.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "hours"), [("UTC", 0), ("Z", 0), ("+02:00", 2), ("GMT-8", -8), ("Asia/Tokyo", 9)])
def test_time_zones_of_sessions(name: str, hours: int) -> None:
    """Spark takes names and offsets."""
    offset = session_zone(name).utcoffset(MOMENT)
    assert offset is not None
    assert offset.total_seconds() == hours * 3600
    with pytest.raises(OptionError, match=r"timeZone = 'Moon/Base' is not known to Python"):
        session_zone("Moon/Base")
