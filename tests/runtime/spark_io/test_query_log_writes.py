"""The log of a query that is written without other processes: whole wherever its writer is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mixedmode.runtime.catalyst.spark_expressions import class_name
from mixedmode.runtime.checkpoints.spark_log import crc_file
from mixedmode.runtime.jvm.gateway import java_class
from mixedmode.runtime.spark_io.query_log_writes import OPTION, started, without_processes
from pyspark.sql import DataFrame, SparkSession
from session_options import session_options


class Queries:
    """A query over a landing folder, a file each micro-batch, that can be run again and again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.landing, self.log = folder / "in", folder / "log"
        self.landing.mkdir()
        self.taken: dict[int, list[int]] = {}
        #: Where the last run has written its log.
        self.files: Any = None

    def land(self, value: int) -> None:
        part = self.folder / f"{value}.part"
        part.write_text(f'{{"value": {value}}}\n')
        os.utime(part, (value, value))  # Spark takes files in the order of their times
        part.rename(self.landing / f"{value}.json")

    def run(self, log: Path | None = None) -> dict[int, list[int]]:
        """By micro-batch the values that it was given; all that waits is taken."""
        self.taken = {}
        folder = (log or self.log).as_uri()
        rows = self.spark.readStream.schema("value long").option("maxFilesPerTrigger", 1).json(str(self.landing))
        writer = rows.writeStream.foreachBatch(self._take).option("checkpointLocation", folder)
        query = started(writer.trigger(availableNow=True), [self.spark], folder)
        execution: Any = query._jsq.streamingQuery()
        for log_of in (execution.offsetLog(), execution.commitLog()):
            manager = log_of.fileManager()
            assert "FileSystemBased" in manager.getClass().getSimpleName()
            field = manager.getClass().getDeclaredField("fs")
            field.setAccessible(True)
            self.files = field.get(manager)
            assert class_name(self.files) == "LocalFilesWithoutModes"
        query.awaitTermination()
        return self.taken

    def _take(self, batch: DataFrame, number: int) -> None:
        self.taken[number] = sorted(row[0] for row in batch.collect())


@pytest.fixture(autouse=True)
def _a_users_session(spark: SparkSession) -> Iterator[None]:
    """The option is not set, as in a user's session."""
    of_tests = spark.conf.get(OPTION)
    spark.conf.unset(OPTION)
    yield
    spark.conf.set(OPTION, of_tests)


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Iterator[Queries]:
    yield Queries(spark, tmp_path)
    assert spark.conf.get(OPTION, None) is None


def _steps(whole: bytes, checksum: bytes) -> list[Callable[[Path, str], Any]]:
    """What is on the disk between two steps of writing a file of the log, in order; the last one is done.

    With a checksum file as an older version, and Spark itself, write it: with all steps of a write without one.
    """

    def partly(bytes_written: int, checksum_written: int | None) -> Callable[[Path, str], Any]:
        def leave(folder: Path, name: str) -> None:
            (folder / f".{name}.1f.tmp").write_bytes(whole[:bytes_written])
            if checksum_written is not None:
                (folder / f"..{name}.1f.tmp.crc").write_bytes(checksum[:checksum_written])

        return leave

    def renamed(folder: Path, name: str) -> None:
        (folder / name).write_bytes(whole)
        (folder / f"..{name}.1f.tmp.crc").write_bytes(checksum)

    def done(folder: Path, name: str) -> None:
        (folder / name).write_bytes(whole)
        (folder / f".{name}.crc").write_bytes(checksum)

    sizes = [(0, None), (0, 0), (len(whole) // 2, 4), (len(whole), len(checksum))]
    return [*(partly(*size) for size in sizes), renamed, done]


#: What Spark writes of a micro-batch, in this order: its files, that it begins, that it is done.
PARTS = ("sources/0", "offsets", "commits")


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_query_goes_on_from_every_step_of_writing_its_log(queries: Queries, part: str) -> None:
    """A file of the log is there or it is not: a micro-batch without a commit is given again, and with the same rows
    if its offsets are there."""
    for value in (1, 2):
        queries.land(value)
    assert queries.run() == {0: [1], 1: [2]}
    name = queries.log / part / "1"
    steps = _steps(name.read_bytes(), crc_file(name.read_bytes()))
    queries.land(3)
    for number, leave in enumerate(steps):
        log = queries.folder / f"log-{number}"
        shutil.copytree(queries.log, log)
        for one in PARTS[PARTS.index(part) :]:
            for file in (log / one).glob("*1*"):
                file.unlink()
        leave(log / part, "1")
        is_there = number >= len(steps) - 2
        taken = queries.run(log)
        if part == "commits" and is_there:
            assert taken == {2: [3]}, number
        elif part == "commits" or (part == "offsets" and is_there):
            assert taken == {1: [2], 2: [3]}, number
        else:
            assert min(taken) == 1 and sorted(value for values in taken.values() for value in values) == [2, 3], number
        assert queries.run(log) == {}, number


def test_a_micro_batch_writes_three_files(queries: Queries) -> None:
    """What its source has read, that it begins, that it is done; none costs a process, as nobody sets its mode."""
    for value in range(1, 9):
        queries.land(value)
    assert len(queries.run()) == 8
    files = [path.relative_to(queries.log).as_posix() for path in queries.log.rglob("*") if path.is_file()]
    last = [name for name in files if "7" in name.rpartition("/")[2].split(".")]
    assert sorted(last) == ["commits/7", "offsets/7", "sources/0/7"]
    mode = (queries.log / "commits" / "7").stat().st_mode
    path = java_class(queries.spark, "org.apache.hadoop.fs.Path")((queries.log / "commits" / "7").as_uri())
    queries.files.setPermission(path, java_class(queries.spark, "org.apache.hadoop.fs.permission.FsPermission")("000"))
    assert (queries.log / "commits" / "7").stat().st_mode == mode


def test_what_the_user_has_set_stays(spark: SparkSession) -> None:
    """Queries that start at the same time set the option once; elsewhere than on a local disk it is left alone."""
    with without_processes(spark, "file:///a"):
        ours = spark.conf.get(OPTION)
        with without_processes(spark, "/b"):
            assert spark.conf.get(OPTION) == ours
        assert spark.conf.get(OPTION) == ours
    assert spark.conf.get(OPTION, None) is None
    with without_processes(spark, "s3a://bucket/a"):
        assert spark.conf.get(OPTION, None) is None
    with session_options(spark, {OPTION: "of.the.User"}):
        with without_processes(spark, "file:///a"):
            assert spark.conf.get(OPTION) == "of.the.User"
        assert spark.conf.get(OPTION) == "of.the.User"
