"""What waits at the live source is scanned as the files of a micro-batch, where these can be, and else by Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.catalyst.prepared.micro_batch import handed_over
from mixedmode.runtime.jobs import columnar_pass
from mixedmode.runtime.jobs.columnar_pass import ColumnarPass, ScannedRows, recognise
from mixedmode.runtime.jobs.shuffle import with_key_group
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scan_support import GROUPS, merged, planned, scanned

SCHEMA = "id long, long long, real double, text string, at timestamp"
#: Rows of a file.
ROWS = 40


def rows(first: int) -> pa.Table:
    """Numbers from ``first`` on, a dozen keys of each kind, nulls among the values."""
    numbers = range(first, first + ROWS)
    return pa.table(
        {
            "id": pa.array([number % 12 for number in numbers]),
            "long": pa.array([None if number % 5 == 0 else number for number in numbers], pa.int64()),
            "real": pa.array([number / 4 + 1 for number in numbers]),
            "text": pa.array([f"ä{number % 3}" for number in numbers]),
            "at": pa.array([number * 1_800_000_000 for number in numbers], pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files; a name that is not written in a URI as it is."""
    folder = tmp_path_factory.mktemp("waiting files")
    for number, name in enumerate(("a", "b %20 ü", "c")):
        pq.write_table(rows(number * ROWS), folder / f"{name}.parquet")
    return folder


def handed_to(stream: DataFrame, take: Callable[[DataFrame], None]) -> None:
    """Have Spark hand over what waits, batch by batch."""
    spark = stream.sparkSession

    def on_batch(batch: DataFrame, _: int) -> None:
        with handed_over(batch, spark):
            take(batch)

    stream.writeStream.foreachBatch(on_batch).trigger(availableNow=True).start().awaitTermination()


def totals() -> list[Any]:
    return [F.count("*").alias("n"), F.sum("long").alias("s"), F.max("real").alias("m"), F.max("at").alias("t")]


CASES: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[], list[Any]]]] = {
    "all columns": (lambda rows: rows, lambda: ["id", "text"]),
    "columns under other names": (
        lambda rows: rows.select(F.col("text").alias("id"), F.col("id").alias("text"), "long", "real", "at"),
        lambda: ["id", "text"],
    ),
    "some rows, a window": (
        lambda rows: rows.where("long > 15 OR text = 'ä2'").select("*", F.col("id").alias("key")),
        lambda: ["key", F.window("at", "3 hours")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_files_of_a_micro_batch_give_its_rows(spark: SparkSession, folder: Path, tmp_path: Path, name: str) -> None:
    """Each micro-batch is scanned as the files that it names, all of them once, and the partial aggregates are those
    that Spark makes of its rows, behind what the stream has done to them and what is done to the batch."""
    change, keys = CASES[name]
    stream = change(spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(folder)))
    files: list[list[str]] = []

    def take(batch: DataFrame) -> None:
        batch = batch.where("long IS NULL OR long <> 33").drop("nothing")
        operator = planned(batch, keys(), *totals())
        files.append([unquote(uri).rpartition("/")[2] for uri in recognise(operator, batch, None, "arrow").uris])
        found = scanned(operator, batch, tmp_path / str(len(files)), 1 << 28)
        wanted = with_key_group(operator.prepare(batch, None), operator, GROUPS).toArrow()
        assert merged(operator, found) == merged(operator, wanted.select(found.column_names))

    handed_to(stream, take)
    assert sorted(itertools.chain(*files)) == sorted(path.name for path in folder.glob("*.parquet"))
    assert sorted(map(len, files)) == [1, 2]


#: What stands against it, and a part of what is said.
NOT_TAKEN: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "a watermark of Spark's": (lambda rows: rows.withWatermark("at", "1 hour"), "EventTimeWatermark"),
    "state of Spark's": (lambda rows: rows.dropDuplicates(["id", "long"]), "Deduplicate"),
    "a computed column": (lambda rows: rows.withColumn("long", F.xxhash64("long")), "xxhash64"),
    "where it is from": (lambda rows: rows.withColumn("text", F.col("_metadata.file_name")), "GetStructField"),
    "two streams": (lambda rows: rows.union(rows), "2 reads (LogicalRelation) that are not united last"),
    "a join": (lambda rows: rows.join(rows.sparkSession.range(5), "id"), "come from"),
    "now": (lambda rows: rows.where("at < now()"), "is a Now"),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_a_stream_does_that_is_not_known_to_be_the_same_is_sparks(
    spark: SparkSession, folder: Path, name: str
) -> None:
    """A plan with anything that is not on the list is not taken."""
    change, reason = NOT_TAKEN[name]
    said: list[str] = []

    def take(batch: DataFrame) -> None:
        try:  # what pytest raises would not come back from the JVM
            recognise(planned(batch, ["id", "text"], *totals()), batch, None, "arrow")
            said.append("taken")
        except NotTakenError as error:
            said.append(str(error))
        batch.write.format("noop").mode("overwrite").save()  # Spark minds if nobody asks its state

    handed_to(change(spark.readStream.schema(SCHEMA).parquet(str(folder))), take)
    assert said
    assert all(reason in one for one in said), said


def test_an_aggregate_that_is_not_taken_is_named_as_the_user_wrote_it(spark: SparkSession, folder: Path) -> None:
    """And not as the columns that it is computed from."""
    rows = spark.read.schema(SCHEMA).parquet(str(folder))
    with pytest.raises(NotTakenError, match=r"^first\(long\) is not count, sum, min or max"):
        recognise(planned(rows, ["id"], F.first("long"), event_time="at"), rows, None, "arrow")


def test_other_sources_and_rows_are_sparks(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Rows of other formats, of another RDD, and of a batch that is over."""
    over: list[DataFrame] = []

    def refuses(batch: DataFrame, reason: str) -> None:
        try:  # what pytest raises would not come back from the JVM
            recognise(planned(batch, ["id"], F.count("*")), batch, None, "arrow")
        except NotTakenError as error:
            if reason in str(error):
                return
        raise ValueError(f"{reason} is taken")

    def take(batch: DataFrame) -> None:
        over.append(batch)
        # A frame of this session that is an RDD, too.
        refuses(spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id long"), "LogicalRDD")

    handed_to(spark.readStream.schema(SCHEMA).parquet(str(folder)), take)
    refuses(over[0], "LogicalRDD")
    handed_to(
        spark.readStream.schema("id long").format("json").load(str(tmp_path_of(tmp_path, "j.json", b'{"id": 1}'))),
        lambda batch: refuses(batch, "JsonFileFormat"),
    )


def test_folders_of_a_micro_batch_stand_for_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Its partial aggregates by a column of the path are those that Spark makes, a part of a file at a time."""
    for day, number in (("1", 0), ("1", ROWS), ("2", 2 * ROWS), ("__HIVE_DEFAULT_PARTITION__", 3 * ROWS)):
        folder = tmp_path / "by day" / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(number), folder / f"{number}.parquet")
    same: list[bool] = []

    def take(batch: DataFrame) -> None:
        operator = planned(batch, ["day"], *totals())
        found = scanned(operator, batch, tmp_path / f"runs {len(same)}", 1 << 28)
        wanted = with_key_group(operator.prepare(batch, None), operator, GROUPS).toArrow()
        same.append(merged(operator, found) == merged(operator, wanted.select(found.column_names)))

    stream = spark.readStream.schema(f"{SCHEMA}, day int").option("maxFilesPerTrigger", 2)
    handed_to(stream.parquet(str(tmp_path / "by day")), take)
    assert same == [True, True]


def tmp_path_of(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[ScannedRows | None]:
    """What the passes of jobs have scanned."""
    seen: list[ScannedRows | None] = []
    scan = ColumnarPass.scanned

    def noted(*args: Any) -> ScannedRows | None:
        seen.append(scan(*args))
        return seen[-1]

    monkeypatch.setattr(columnar_pass.ColumnarPass, "scanned", noted)
    return seen


#: What is in a file that waits, besides good ones, and whether Spark has to read what waits.
WAITING: dict[str, tuple[dict[str, pa.Array], bool]] = {
    "nothing else": ({}, False),
    "a zero with a sign": ({"real": pa.array([-0.0] * ROWS)}, True),
    "another type": ({"long": pa.array(range(ROWS), pa.int32())}, True),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_hand_over_gives_what_spark_gives_of_all_rows(
    spark: SparkSession, folder: Path, tmp_path: Path, passes: list[ScannedRows | None], name: str
) -> None:
    """With what waits scanned nothing is left to Spark; where one of its files cannot be, Spark reads what waits, also
    if the engine is to be arrow, and the result is the same."""
    history = spark.read.schema(SCHEMA).parquet(str(folder))
    others, is_sparks = WAITING[name]
    waiting = tmp_path / "live"
    waiting.mkdir()
    pq.write_table(rows(500), waiting / "a.parquet")
    table = rows(700)
    for column, values in others.items():
        table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, waiting / "b.parquet")
    stream = spark.readStream.schema(SCHEMA).parquet(str(waiting))
    found: list[Any] = []
    query = (
        mixedmode.read(history=history, live=stream)
        .groupBy("id", "text")
        .agg(*totals())
        .writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
        .outputMode("update")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "job"))
        .option("execution.backlog.engine", "arrow")
        .start()
    )
    query.awaitTermination()
    every = history.union(spark.read.schema(SCHEMA).parquet(str(waiting)))
    assert sorted(found) == sorted(map(tuple, every.groupBy("id", "text").agg(*totals()).collect()))
    assert [one is not None and one.rest is not None for one in passes] == [is_sparks]
    assert not list((tmp_path / "job").glob("**/*.run"))


def test_a_file_that_is_named_twice_is_read_as_often_as_spark_does(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """A history of files, one of them named twice, is what Spark reads."""
    paths = [str(folder / "a.parquet"), str(folder / "c.parquet"), str(folder / "a.parquet")]
    frame = spark.read.schema(SCHEMA).parquet(*paths)
    operator = planned(frame, ["id"], *totals())
    found = scanned(operator, frame, tmp_path / "runs", 1 << 28)
    wanted = with_key_group(operator.prepare(frame, None), operator, GROUPS).toArrow()
    assert merged(operator, found) == merged(operator, wanted.select(found.column_names))
