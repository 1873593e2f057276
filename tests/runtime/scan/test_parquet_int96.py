"""Times as INT96, as Spark writes them, are read as Spark reads them, or they are not taken."""

from __future__ import annotations

import itertools
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.jobs.columnar_pass import recognise
from mixedmode.runtime.jobs.shuffle import with_key_group
from mixedmode.runtime.scan.parquet_scan import FilePart, NotTakenError, ParquetScan, ScanColumn
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from scan_support import GROUPS, merged, planned, scanned
from session_options import session_options

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from flights.data import SCHEMA, prepare

_OPTION = "spark.sql.parquet"
_DAY = 86_400_000_000
#: µs of the first and the last moment of the years 1 to 9999, of the days on which calendars changed, and of 1900.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_GREGORIAN, _ALIKE = -12_219_292_800_000_000, -2_208_988_800_000_000
_MOMENTS = [_FIRST, _LAST, _GREGORIAN, _GREGORIAN - 10 * _DAY, _ALIKE, 0, _DAY, 1_364_691_600_000_000, 2**62 // 20]
_EDGES = [one + step for one in _MOMENTS for step in (-1, 0, 1, 999) if _FIRST <= one + step <= _LAST]
#: Of these, Spark's calendars agree on all.
_LATE = [one for one in _EDGES if one >= _ALIKE]

AT = ScanColumn("at", "timestamp", pa.timestamp("us", "UTC"))


def set_to(spark: SparkSession, **options: str) -> AbstractContextManager[None]:
    """Options of Spark's SQL, by the last part of their names."""
    names = {"timeZone": "spark.sql.session.timeZone"}
    return session_options(spark, {names.get(name, f"{_OPTION}.{name}"): value for name, value in options.items()})


def written(spark: SparkSession, folder: Path, micros: list[int | None], version: bytes | None = None) -> Path:
    """A file of Spark's with such times; ``version``: of another Spark."""
    table = pa.table({"id": list(range(len(micros))), "at": pa.array(micros, pa.int64())})
    frame = spark.createDataFrame(table).select("id", F.timestamp_micros("at").alias("at"))
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    assert pq.ParquetFile(path).schema.column(1).physical_type == "INT96"
    if version is not None:
        data, known = path.read_bytes(), spark.version.encode()
        assert len(version) == len(known) and data.count(known) == 1, "the version is in the footer, and nowhere else"
        path.write_bytes(data.replace(known, version))
        (folder / f".{path.name}.crc").unlink()
    return path


def ours(path: Path) -> list[int | None]:
    """The times of a file, by Arrow."""
    part = FilePart(str(path), 0, path.stat().st_size)
    found = [table["at"].cast(pa.int64()) for table in ParquetScan((AT,)).batches(fs.LocalFileSystem(), part)]
    return [value for column in found for value in column.to_pylist()]


def sparks(spark: SparkSession, path: Path) -> list[int | None]:
    """The same by Spark."""
    return [row[0] for row in spark.read.parquet(str(path)).selectExpr("unix_micros(at)").collect()]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.sampled_from(_EDGES) | st.integers(_FIRST, _LAST), min_size=1, max_size=500))
def test_what_spark_writes_is_read_to_the_microsecond(
    spark: SparkSession, tmp_path: Path, micros: list[int | None]
) -> None:
    """All times of the years 1 to 9999, dictionary or not, are those that Spark was given and gives back."""
    path = written(spark, tmp_path / "at", micros)
    assert ours(path) == sparks(spark, path) == micros


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_settings_of_readers_and_writers_do_not_matter_or_decide(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    """Whatever calendar, zone and conversion readers ask for, a file is read as Spark reads it; where it may have times
    of the Julian calendar, by the writer's mark or by its version, it is read if all are of 1900 or later."""
    modes = ("LEGACY", "CORRECTED", "EXCEPTION")
    files = {}
    with set_to(spark, timeZone=zone, int96RebaseModeInWrite="CORRECTED"):
        files["late"] = written(spark, tmp_path / "late", _LATE)
        files["all"] = written(spark, tmp_path / "all", _EDGES)
        for version in (b"2.4.8", b"3.0.3", b"3.1.0"):
            files[f"late {version!r}"] = written(spark, tmp_path / f"late{version!r}", _LATE, version)
            files[f"all {version!r}"] = written(spark, tmp_path / f"all{version!r}", _EDGES, version)
    with set_to(spark, timeZone=zone, int96RebaseModeInWrite="LEGACY"):
        files["late marked"] = written(spark, tmp_path / "late-marked", _LATE)
        files["all marked"] = written(spark, tmp_path / "all-marked", _EDGES)
    refused = {"all b'2.4.8'", "all b'3.0.3'", "all marked"}
    for (name, path), mode, convert in itertools.product(files.items(), modes, ("true", "false")):
        with set_to(spark, timeZone=zone, int96RebaseModeInRead=mode, int96TimestampConversion=convert):
            if name in refused:
                with pytest.raises(NotTakenError, match="as INT96"):
                    ours(path)
                assert sparks(spark, path) != _EDGES, "the calendars differ"
            else:
                assert ours(path) == sparks(spark, path), (name, mode, convert)


@pytest.mark.parametrize("micros", [_FIRST - 1, _LAST + 1, -(2**63), 2**63 - 1, -2_000_000_000_000_000_000, -(10**18)])
def test_times_that_arrow_reads_in_another_way_are_sparks(spark: SparkSession, tmp_path: Path, micros: int) -> None:
    """Outside of the years 1 to 9999 nothing is taken, also where Arrow's microseconds are those of a year within."""
    path = written(spark, tmp_path / "at", [0, micros, None])
    assert sparks(spark, path) == [0, micros, None]
    with pytest.raises(NotTakenError, match="as INT96"):
        ours(path)


def test_others_than_sparks_are_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody knows what other writers have meant, even if their footer has what Spark has written before them; and
    times without a zone are not what Spark writes so."""
    path = tmp_path / "other.parquet"
    schema = pa.schema([("at", pa.timestamp("us"))], {"org.apache.spark.version": "4.1.0"})
    pq.write_table(pa.table([pa.array([0])], schema=schema), path, use_deprecated_int96_timestamps=True)
    with pytest.raises(NotTakenError, match="INT96"):
        ours(path)
    wall = ScanColumn("at", "timestamp_ntz", pa.timestamp("us"))
    with pytest.raises(NotTakenError, match="asked for is timestamp_ntz"):
        ParquetScan((wall,)).check(fs.LocalFileSystem(), str(written(spark, tmp_path / "at", [0])))


@pytest.mark.slow
def test_real_flights_that_spark_has_written_are_aggregated_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Times as keys, in windows, as the greatest, in conditions and as event time are Spark's, to the bit, and
    the plan says that the tasks read them; with such times of another writer it says that Spark does."""
    lake = prepare(tmp_path / "flights").lake
    spark.read.schema(SCHEMA).parquet(str(lake)).write.parquet(str(tmp_path / "int96"))
    (first, *_) = sorted((tmp_path / "int96").glob("*.parquet"))
    assert pq.ParquetFile(first).schema.column(0).physical_type == "INT96"
    measures = [F.count("*"), F.max("ts"), F.min("ts"), F.sum("distance"), F.min("tailnum"), F.max("dest")]
    with set_to(spark, timeZone="America/New_York"):
        frame = spark.read.parquet(str(tmp_path / "int96")).where("ts >= timestamp'2013-03-10 02:30:00'")
        for number, keys in enumerate((["ts"], [F.window("ts", "1 day", startTime="5 hours"), "origin"], ["carrier"])):
            operator = planned(frame, keys, *measures, event_time="ts")
            wanted = with_key_group(operator.prepare(frame, None), operator, GROUPS).toArrow()
            found = scanned(operator, frame, tmp_path / str(number), 1 << 28)
            assert merged(operator, found) == merged(operator, wanted.select(found.column_names))
    job = mixedmode.read(history=frame).groupBy("ts").agg(F.count("*")).writeStream.format("noop").outputMode("update")
    plan = job.option("checkpointLocation", str(tmp_path / "job")).option("execution.backlog.engine", "arrow").plan()
    assert plan.phases[0].details["engine"].startswith("arrow")
    shutil.rmtree(tmp_path / "int96")
    table = pq.read_table(sorted(lake.glob("*.parquet"))[0])
    (tmp_path / "int96").mkdir()
    pq.write_table(table, tmp_path / "int96" / "a.parquet", use_deprecated_int96_timestamps=True)
    other = spark.read.parquet(str(tmp_path / "int96"))
    with pytest.raises(NotTakenError, match="as INT96"):
        recognise(planned(other, ["ts"], F.count("*")), other, None, "arrow")
