"""What tasks scan and aggregate by themselves is what Spark makes of the same files, to the bit, or it is not taken."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import mixedmode
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.errors import MixedModeError, PlanError
from mixedmode.runtime.catalyst.spark_plans import analyzed, frame_of
from mixedmode.runtime.jobs.columnar_pass import recognise
from mixedmode.runtime.jobs.shuffle import with_key_group
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.tasks.scan.partial_runs import Buckets, PartialRuns
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from scan_support import GROUPS, fields_of, merged, merged_rows, planned, scanned
from session_options import session_options

ROWS = 600
#: Values at the edges of their types; a column has them and few others, so that keys meet again.
EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "yes": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127, 0, 5]),
    "small": (pa.int16(), [-32768, 32767, 0, 7]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1, 0, 1]),
    "long": (pa.int64(), [-(2**50), 2**50, 0, 1, -1]),
    "huge": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "real": (pa.float64(), [float("nan"), float("inf"), -float("inf"), 1.5, -1.5, 5e-324, 0.0]),
    "single": (pa.float32(), [float("nan"), float("inf"), -2.5, 3.25, 0.0]),
    "day": (pa.date32(), [date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [-62_135_596_800_000_000, -1, 0, 1, 1_700_000_000_123_456, 3_599_999_999]),
    "wall": (pa.timestamp("us"), [-12_219_292_800_000_001, -3_600_000_001, 0, 1_700_000_000_000_000]),
    "text": (pa.string(), ["", "a", "ä", "é€😀", "abc\0d", "zz" * 20, "A", "a "]),
    "code": (pa.string(), ["abcd0123", "ABCD0123", "äé€a", "zzzzzzzz"]),
    "money": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("9999999.99"), Decimal("0.01")]),
    "more": (pa.decimal128(18, 6), [Decimal("-999999999999.999999"), Decimal("1.5"), Decimal("0")]),
    "most": (pa.decimal128(28, 10), [Decimal("999999999999999999.9999999999"), Decimal("-0.5")]),
}


def rows(seed: int, count: int) -> pa.Table:
    """Random rows of edges, nulls among them, and a nested column that nobody asks for."""
    chance = random.Random(seed)
    columns = {
        name: pa.array([None if chance.random() < 0.1 else chance.choice(edges) for _ in range(count)], data_type)
        for name, (data_type, edges) in EDGES.items()
    }
    columns["id"] = pa.array(np.random.default_rng(seed).integers(0, 200, count))
    return pa.table({**columns, "nested": pa.array([{"long": i, "list": [i]} for i in range(count)])})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with dictionaries and without, pages of either version, several row groups, and none."""
    folder = tmp_path_factory.mktemp("scanned")
    pq.write_table(rows(1, ROWS), folder / "a.parquet", row_group_size=100)
    pq.write_table(rows(2, ROWS), folder / "b.parquet", use_dictionary=False, compression="zstd")
    pq.write_table(rows(3, ROWS), folder / "c.parquet", data_page_version="2.0", store_decimal_as_integer=True)
    pq.write_table(rows(4, 0), folder / "d.parquet")
    # Columns in another order, dictionaries as Arrow's own type.
    other = rows(5, ROWS).select(list(reversed(rows(5, 0).column_names)))
    at = other.schema.get_field_index("text")
    pq.write_table(other.set_column(at, "text", other["text"].dictionary_encode()), folder / "e.parquet")
    return folder


def extremes(*names: str) -> list[Column]:
    """The least and the greatest of columns."""
    return [function(name).alias(f"{function.__name__}_{name}") for name in names for function in (F.min, F.max)]


COMPUTED = (
    "sum(whole * 2L + tiny)",
    "count(1) FILTER (WHERE yes)",
    "sum(long) FILTER (WHERE text LIKE 'a%')",
    "count_if(whole > 0)",
    "max(coalesce(text, 'none'))",
    "sum(CASE WHEN yes THEN money ELSE 0 END)",
    "min(length(text))",
    "max(CAST(wall AS DATE))",
    "max(if(real > 0, real, null))",
    "min(DISTINCT whole)",
    "bool_or(yes)",
    "every(whole > 0)",
    "count(text, day, real)",
    "count(text, whole) FILTER (WHERE yes)",
)


def everything() -> list[Column]:
    """All aggregates, of all types that they are taken of."""
    return [
        F.count("*").alias("rows"),
        *[F.count(name).alias(f"count_{name}") for name in ("text", "real", "yes")],
        *[F.sum(name).alias(f"sum_{name}") for name in ("tiny", "small", "whole", "long", "money", "more", "most")],
        *[F.avg(name).alias(f"avg_{name}") for name in ("tiny", "whole", "money")],
        *extremes("tiny", "small", "whole", "long", "huge", "real", "single", "day", "at", "wall", "text"),
        *extremes("money", "more", "most"),
        *[F.count_distinct(name).alias(f"different_{name}") for name in ("text", "day", "at", "wall", "more", "yes")],
        *[F.sum_distinct(F.expr(sql)).alias(f"sum_of_{sql}") for sql in ("whole % 7", "tiny")],
        *[F.expr(sql).alias(f"computed{place}") for place, sql in enumerate(COMPUTED)],
    ]


def some() -> list[Column]:
    """One aggregate of each kind of buffer: what keys there are is nothing to the others."""
    least = [F.min("real"), F.max("text"), F.count_distinct("day"), F.sum_distinct(F.expr("whole % 7"))]
    return [F.count("*"), F.sum("money"), F.avg("tiny"), *least, F.expr("count(text, whole) FILTER (WHERE yes)")]


CASES: dict[str, Callable[[DataFrame], tuple[DataFrame, list[Any]]]] = {
    "few keys of each type": lambda f: (f, ["yes", "tiny", "text", "day"]),
    "numbers and times": lambda f: (f, ["small", "whole", "long", "at", "wall", "money", "more"]),
    "a key of its own name, filtered": lambda f: (
        f.select("*", F.col("id").alias("Käufer x"))
        .where("(long > 0 OR text = 'ä' OR day IS NULL) AND NOT (whole <= -5) AND at < timestamp'2020-01-01'")
        .where(F.col("yes") & (F.lit("B") < F.col("text"))),
        ["Käufer x"],
    ),
    "texts of one length": lambda f: (f.where("code IS NOT NULL"), ["code"]),
    "computed keys, one with the name of a column that is aggregated": lambda f: (
        f.where("id % 3 = 1 AND day BETWEEN '1900-01-01' AND '2100-01-01'").select(
            "*",
            F.expr("CASE WHEN whole > 0 THEN 'up' WHEN whole < 0 THEN 'down' END AS way"),
            F.year("day").alias("y"),
        ),
        ["way", "y", F.concat_ws("-", "code", "tiny").alias("long")],
    ),
    "windows of computed times": lambda f: (
        f.where("at >= timestamp'1970-01-01'").withColumn("later", F.expr("at + INTERVAL 90 MINUTES")),
        [F.window("later", "1 hour")],
    ),
    "windows": lambda f: (f, [F.window("at", "1 hour", startTime="7 minutes"), "yes"]),
    "windows that overlap": lambda f: (
        f.where("at BETWEEN timestamp'1900-01-01' AND timestamp'2100-01-01'"),
        [F.window("at", "1 hour", "20 minutes", "7 minutes"), "yes"],
    ),
    "windows of wall time that overlap, behind another key": lambda f: (
        f,
        ["tiny", F.window("wall", "1 day", "8 hours")],
    ),
    "windows of wall time": lambda f: (f, ["tiny", F.window("wall", "1 day")]),
}


@pytest.mark.parametrize("ansi", [pytest.param("true", marks=pytest.mark.slow), "false"])
def test_partials_are_sparks_to_the_bit(spark: SparkSession, folder: Path, tmp_path: Path, ansi: str) -> None:
    """Keys, key groups and buffers of all types at their edges are Spark's, in a zone with summer time, whatever memory
    there is; rows come in order."""
    with session_options(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": "Europe/Berlin"}):
        for number, (name, case) in enumerate(CASES.items()):
            frame, keys = case(spark.read.parquet(str(folder)))
            operator = planned(frame, keys, *(some() if number else everything()))
            wanted = with_key_group(operator.prepare(frame, None), operator, GROUPS).toArrow()
            for memory_bytes in (1 << 12, 1 << 28) if number == 0 else (1 << 28,):
                found = scanned(operator, frame, tmp_path / str(number), memory_bytes)
                groups = found["__kg"].to_pylist()
                assert groups == sorted(groups)
                assert merged(operator, found) == merged(operator, wanted.select(found.column_names)), name


def test_columns_of_paths_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """Partition columns of all types are keys, values and conditions, which leave out files, in whatever case."""
    frame = spark.range(60).selectExpr(
        "id",
        "CAST(id % 3 AS INT) AS n",
        "if(id % 4 = 0, null, concat('a b/', id % 2)) AS text",
        "date_add(date'2024-02-28', CAST(id % 2 AS INT)) AS day",
    )
    folder = tmp_path / "parts"
    frame.coalesce(1).write.partitionBy("n", "text", "day").parquet(str(folder))
    frame = spark.read.parquet(str(folder)).where("n < 2 AND n + id >= 0 AND day > '2024-02-28'")
    for number, keys in enumerate((["n"], ["Text", "DAY"], ["ID"])):
        operator = planned(frame, keys, F.count("*"), F.sum("n"), F.max("text"), F.min("day"))
        found = scanned(operator, frame, tmp_path / str(number), 1 << 28)
        wanted = with_key_group(operator.prepare(frame, None), operator, GROUPS).toArrow()
        assert merged(operator, found) == merged(operator, wanted.select(found.column_names))
        files = recognise(operator, frame, None, "arrow").uris
        assert files and all("day=2024-02-29" in uri and "n=2" not in uri for uri in files)


@pytest.mark.parametrize("keys", [1, 40, 5_000])
def test_sums_of_doubles_are_near(spark: SparkSession, tmp_path: Path, keys: int) -> None:
    """Sums, in any order, are within n * 2^-52 times the sum of absolute values of the exact sum; NaN, infinities and
    zeros are Spark's."""
    chance = np.random.default_rng(keys)
    special = [math.nan, math.inf, -math.inf, -0.0, None]
    numbers = [special[at] if at < 5 and keys > 1 else float(x) for at, x in enumerate(chance.normal(0, 1e9, 6_000))]
    ids = np.append(np.arange(6), chance.integers(6, 6 + keys, 5_994))
    folder = tmp_path / "doubles"
    folder.mkdir()
    pq.write_table(pa.table({"id": ids, "real": pa.array(numbers)}), folder / "a.parquet", row_group_size=1000)
    frame = spark.read.parquet(str(folder))
    operator = planned(frame, ["id"], F.sum("real"), F.avg(F.col("real").cast("float")), F.avg("id"))
    found = merged_rows(operator, scanned(operator, frame, tmp_path / "runs", 1 << 28))
    wanted = operator.prepare(frame, None).toArrow()
    (name,) = [name for name, sql in operator.partials.columns.items() if sql == "sum(real)"]
    ours, theirs = (
        dict(zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True)) for table in (found, wanted)
    )
    of_key: dict[int, list[float]] = {}
    for key, number in zip(ids.tolist(), numbers, strict=True):
        of_key.setdefault(key, []).append(number)
    for key, values in of_key.items():
        known = [value for value in values if value is not None]
        if not known or not all(map(math.isfinite, known)):
            assert repr(ours[key]) == repr(theirs[key])
        else:
            bound = len(known) * 2.0**-52 * math.fsum(map(abs, known))
            assert abs(ours[key] - math.fsum(known)) <= bound
            assert math.copysign(1, ours[key]) == math.copysign(1, theirs[key])
    with pytest.raises(NotTakenError, match=r"float-sums = spark"):
        recognise(operator, frame, None, "arrow", "spark")
    exact = planned(frame, ["id"], F.avg("id"))
    assert not recognise(exact, frame, None, "arrow", "spark").rounds_sums


def test_event_time_is_sparks(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """The greatest event time of a key's rows is one of the columns."""
    frame = spark.read.parquet(str(folder))
    operator = planned(frame, ["id"], F.count("*"), event_time="at")
    found = scanned(operator, frame, tmp_path, 1 << 28)
    table = pa.table({"id": found["id"], "time": found["__max_ts"].cast(pa.int64())})
    told = table.group_by("id").aggregate([("time", "max")])
    seconds = operator.prepare(frame, None).selectExpr("id", "unix_micros(__max_ts) AS time")
    wanted = {row["id"]: row["time"] for row in seconds.collect()}
    assert dict(zip(told["id"].to_pylist(), told["time_max"].to_pylist(), strict=True)) == wanted


#: What stands against it, and a part of what is said.
NOT_TAKEN: dict[str, tuple[Callable[[DataFrame], tuple[DataFrame, list[Any], Column]], str]] = {
    "float key": (lambda f: (f, ["real"], F.count("*")), "key real has type double"),
    "computed float key": (lambda f: (f.withColumn("id", F.col("real") + 1), ["id"], F.count("*")), "type double"),
    "wide decimals": (lambda f: (f, ["id"], F.sum(F.col("most").cast("decimal(38,10)"))), "may overflow"),
    "first": (lambda f: (f, ["id"], F.first("long")), "not count, sum, min or max"),
    "distinct doubles": (lambda f: (f, ["id"], F.count_distinct("real")), "is of type double"),
    "set": (lambda f: (f, ["id"], F.collect_set("long")), "not count, sum, min or max"),
    "function": (lambda f: (f, ["id"], F.sum(F.hash("text"))), "is a Murmur3Hash"),
    "condition": (lambda f: (f.where("text RLIKE '(?i)a+'"), ["id"], F.count("*")), "a pattern with parts"),
    "rounded": (lambda f: (f, ["id"], F.sum(F.col("money") % 3)), "a remainder of decimals"),
    "constant of now": (lambda f: (f.where("at < now()"), ["id"], F.count("*")), "is a "),
    "limit": (lambda f: (f.limit(5), ["id"], F.count("*")), "Limit"),
    "structs": (lambda f: (f, ["id"], F.max(F.struct("long"))), "is a CreateNamedStruct"),
    "nested": (lambda f: (f, ["nested.long"], F.count("*")), "is a GetStructField"),
    "session": (lambda f: (f, ["id", F.session_window("at", "1 hour")], F.count("*")), "needs Spark's rows"),
    "sliding": (lambda f: (f, [F.window("at", "1 hour", "25 minutes")], F.count("*")), "needs Spark's rows"),
    "rows in memory": (lambda f: (f.sparkSession.range(3), ["id"], F.count("*")), "Range"),
}


def test_what_is_not_known_to_be_the_same_is_sparks(spark: SparkSession, folder: Path) -> None:
    """Plans, readers and settings that are not on the list are not taken, and the reason is named."""
    frame = spark.read.parquet(str(folder))
    for make, reason in NOT_TAKEN.values():
        rows, keys, column = make(frame)
        with pytest.raises(NotTakenError, match=reason):
            recognise(planned(rows, keys, column), rows, None, "arrow")
    operator = planned(frame, ["id"], F.count("*"))
    with pytest.raises(NotTakenError, match=r"(?i)mergeschema"):
        recognise(
            operator, spark.read.schema(frame.schema).option("mergeSchema", "true").parquet(str(folder)), None, "arrow"
        )
    with pytest.raises(NotTakenError, match="MiB"):
        recognise(operator, frame, None, "auto")
    for setting, value in (
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96AsTimestamp", "false"),
    ):
        with session_options(spark, {setting: value}), pytest.raises(NotTakenError, match=setting):
            recognise(operator, frame, None, "arrow")
        # Files that were named in another session are read as that one has it.
        other = spark.newSession()
        other.conf.set(setting, value)
        elsewhere = frame_of(spark, analyzed(other.read.parquet(str(folder))))
        with pytest.raises(NotTakenError, match=setting):
            recognise(planned(elsewhere, ["id"], F.count("*")), elsewhere, None, "arrow")


#: A row that is taken.
ROW = {
    "id": pa.array([1]),
    "long": pa.array([1]),
    "at": pa.array([0], pa.timestamp("us", "UTC")),
    "real": pa.array([1.5]),
}
#: What else is in a file, how it is written, and a part of what stands against it.
FILES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another type": ({"long": pa.array([1], pa.int32())}, {}, "asked for is bigint"),
    "no such column": ({"long": None}, {}, "has nothing for column long"),
    "another case": ({"long": None, "LONG": pa.array([1])}, {}, "has LONG for column long"),
    "twice": ({"Long": pa.array([2])}, {}, "has long, Long for column long"),
    "unsigned": ({"long": pa.array([1], pa.uint64())}, {}, "asked for is bigint"),
    "nested": ({"long": pa.array([{"x": 1}])}, {}, r"has long\.x for column long"),
    "overflow": ({"long": pa.array([-(2**63)])}, {}, "may leave"),
    "old times": ({}, {"use_deprecated_int96_timestamps": True}, "INT96"),
    "fine times": ({"at": pa.array([0], pa.timestamp("ns", "UTC"))}, {"version": "2.6"}, "asked for is timestamp"),
    "coarse times": ({"at": pa.array([0], pa.timestamp("ms", "UTC"))}, {}, "asked for is timestamp"),
    "wall time": ({"at": pa.array([0], pa.timestamp("us"))}, {}, "asked for is timestamp"),
    "negative zero": ({"real": pa.array([-0.0])}, {}, "negative zero"),
}


def test_files_that_spark_would_read_in_another_way_are_sparks(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """Each file's own schema and values decide, though Spark was given one schema for all; a file that is cut off, too,
    is for Spark to complain of."""
    schema = "id long, long long, at timestamp, real double"
    frame = spark.read.schema(schema).parquet(str(folder))
    operator = planned(frame, ["id"], F.sum("long"), F.max("at"), F.max("real"))
    for number, (columns, how, reason) in enumerate(FILES.values()):
        at = tmp_path / str(number)
        at.mkdir()
        table = pa.table({name: column for name, column in {**ROW, **columns}.items() if column is not None})
        pq.write_table(table, at / "a.parquet", **how)
        with pytest.raises(NotTakenError, match=reason):
            scanned(operator, spark.read.schema(schema).parquet(str(at)), tmp_path / "runs", 1 << 28)
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "b.parquet").write_bytes((folder / "b.parquet").read_bytes()[:-100])
    with pytest.raises(NotTakenError, match="cannot be read"):
        recognise(operator, spark.read.schema(schema).parquet(str(cut)), None, "arrow")  # before anything runs
    pq.write_table(pa.table(ROW), cut / "a.parquet")
    with pytest.raises(NotTakenError, match="cannot be read"):
        scanned(operator, spark.read.schema(schema).parquet(str(cut)), tmp_path / "runs", 1 << 28)


def test_the_same_input_is_not_analyzed_again(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start has asked who reads; the pass asks again, and gets what was found.  Under another setting it is asked
    anew, and so it is for another operator and another input.  A job that is started again is known by its plan."""
    frame = spark.read.parquet(str(folder))
    operator, other, again = (planned(frame, ["id"], F.sum("long")) for _ in range(3))
    found = recognise(operator, frame, None, "arrow")
    assert recognise(again, frame, None, "arrow") == found

    def asked(*_: Any) -> DataFrame:
        raise AssertionError("asked")

    for one in (operator, other, again):
        monkeypatch.setattr(one, "prepare_scan", asked)
    for one in (operator, again):
        assert recognise(one, spark.read.parquet(str(folder)), None, "arrow") == found
    for one, rows_of in ((other, frame), (operator, frame.where("long > 0"))):
        with pytest.raises(AssertionError, match="asked"):
            recognise(one, rows_of, None, "arrow")
    with (
        session_options(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}),
        pytest.raises(AssertionError, match="asked"),
    ):
        recognise(operator, frame, None, "arrow")


def test_runs_with_a_wrong_bit_are_refused(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A run that was altered, cut off or removed is an error that names it, never fewer rows."""
    frame = spark.read.parquet(str(folder))
    operator = planned(frame, ["id"], F.count("*"))
    found = recognise(operator, frame, None, "arrow")
    scanned(operator, frame, tmp_path, 1 << 28)
    path = next(iter(sorted(tmp_path.glob("*.run"))))
    whole = path.read_bytes()
    schema = pa.schema([pa.field("__kg", pa.int32()), *fields_of(operator, found)])
    runs = PartialRuns(
        fs.LocalFileSystem(),
        (str(path),),
        schema,
        Buckets(1, GROUPS),
        ("id",),
        found.partials.calls,
        1 << 28,
        None,
        None,
    )
    altered = bytearray(whole)
    altered[700] ^= 1
    for content in (bytes(altered), whole[:-1], whole[: len(whole) // 2], b""):
        path.write_bytes(content)
        with pytest.raises(MixedModeError, match=path.name):
            list(runs.of_shard(0))
    path.unlink()
    with pytest.raises(MixedModeError, match=path.name):
        list(runs.of_shard(0))


def test_a_job_gives_the_same_with_either_engine(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """The output of a job is Spark's batch result with both engines; ``explain()`` says which; what waits at the live
    source meets the scanned rows; where ``arrow`` cannot be had the start says why."""
    frame = spark.read.parquet(str(folder)).select("id", "long", "at")
    live = tmp_path / "live"
    live.mkdir()
    pq.write_table(rows(9, ROWS).select(["id", "long", "at"]), live / "a.parquet")
    every = frame.union(spark.read.parquet(str(live)))

    def aggregated(rows: Any) -> Any:
        return rows.groupBy("id").agg(F.count("*").alias("n"), F.sum("long").alias("s"), F.max("at").alias("m"))

    wanted = sorted(map(tuple, aggregated(every).collect()))
    for engine in ("arrow", "spark"):
        found: list[Any] = []
        stream = spark.readStream.schema(frame.schema).parquet(str(live))
        writer = (
            aggregated(mixedmode.read(history=frame, live=stream))
            .writeStream.foreachBatch(lambda rows, _, found=found: found.extend(map(tuple, rows.collect())))
            .outputMode("update")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / engine))
            .option("execution.backlog.engine", engine)
        )
        assert writer.plan().phases[0].details["engine"].startswith(engine)
        writer.start().awaitTermination()
        assert sorted(found) == wanted
        assert not list(tmp_path.glob(f"{engine}/**/*.run"))
    refused = mixedmode.read(history=spark.read.parquet(str(folder))).groupBy("id").agg(F.sum("real"))
    writer = refused.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(tmp_path / "no"))
    writer = writer.option("execution.backlog.float-sums", "spark")
    with pytest.raises(PlanError, match=r"execution\.backlog\.engine = arrow cannot be had: sum"):
        writer.option("execution.backlog.engine", "arrow").plan()
