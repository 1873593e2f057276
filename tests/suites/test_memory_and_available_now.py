"""MemorySinkSuite and TriggerAvailableNowSuite of Spark: tables in memory, and runs that end by themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from session_options import session_options

from .watched import WAYS, Landing, read

pytestmark = pytest.mark.suites


def texts(spark: SparkSession, landing: Landing, **options: Any) -> Any:
    return spark.readStream.format("text").options(**options).load(str(landing.folder))


@pytest.mark.parametrize("mode", ["append", "complete", "update"])
def test_rows_are_in_a_table_of_the_querys_name(spark: SparkSession, folder: Path, mode: str) -> None:
    found = []
    for way in WAYS:
        landing, name, seen = Landing(folder / way, folder / "tmp"), f"mem_{uuid.uuid4().hex[:8]}", []
        rows = read(way, texts(spark, landing)).selectExpr("CAST(value AS INT) AS value")
        rows = rows.groupBy("value").count() if mode == "complete" else rows
        query = rows.writeStream.format("memory").outputMode(mode).queryName(name).start()
        try:
            for numbers in ("1\n2\n3", "4\n5\n6"):
                landing.text(numbers)
                query.processAllAvailable()
                seen.append(sorted(map(tuple, spark.table(name).collect())))
        finally:
            query.stop()
        found.append(seen)
    more = (1,) if mode == "complete" else ()
    assert found == [[[(n, *more) for n in range(1, last)] for last in (4, 7)]] * 2


def test_table_in_memory_needs_a_name(spark: SparkSession, folder: Path) -> None:
    for way in WAYS:
        writer = read(way, texts(spark, Landing(folder / way, folder / "tmp"))).writeStream.format("memory")
        with pytest.raises(Exception, match=r"(?i)queryName"):
            writer.start()


def test_table_in_memory_does_not_go_on_from_a_checkpoint(spark: SparkSession, folder: Path) -> None:
    for way in WAYS:
        landing, name = Landing(folder / way / "in", folder / "tmp"), f"mem_{uuid.uuid4().hex[:8]}"
        landing.text("1\n2\n3")
        writer = read(way, texts(spark, landing)).writeStream.format("memory").queryName(name)
        writer = writer.option("checkpointLocation", str(folder / way / "checkpoints"))
        query = writer.start()
        query.processAllAvailable()
        query.stop()
        with pytest.raises(Exception, match=r"(?i)from.* checkpoint"):
            writer.start()


class Simple(SimpleDataSourceStreamReader):
    """Numbers from 1 to what a file says, at once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[str]], dict[str, int]]:
        end = int(Path(self._path).read_text())
        return self.readBetweenOffsets(start, {"n": end}), {"n": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[str]]:
        return iter([(str(n),) for n in range(start["n"] + 1, end["n"] + 1)])


class Ranged(DataSourceStreamReader):
    """The same, read by tasks."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        return {"n": int(Path(self._path).read_text())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        first, last = partition.value
        return iter([(str(n),) for n in range(first + 1, last + 1)])


def _source(kind: str) -> type[DataSource]:
    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"numbers_{kind}"

        def schema(self) -> str:
            return "value string"

        def streamReader(self, schema: Any) -> Any:
            return Ranged(self.options["path"])

        def simpleStreamReader(self, schema: Any) -> Any:
            return Simple(self.options["path"])

    if kind == "simple":
        del Numbers.streamReader
    else:
        del Numbers.simpleStreamReader
    return Numbers


class Counting:
    """A source of the numbers from 1, up to where it has come.

    Args:
        spark: the session.
        kind: ``simple`` and ``ranged`` are written in Python; ``files`` knows where a run that ends by itself stops.
        folder: for its own.
    """

    def __init__(self, spark: SparkSession, kind: str, folder: Path) -> None:
        self._spark, self._kind, self._at, self._n = spark, kind, folder, 0
        self._landing = Landing(folder / "numbers", folder / "tmp")
        if kind != "files":
            spark.dataSource.register(_source(kind))

    def more(self, count: int) -> None:
        if self._kind == "files":
            self._landing.text("\n".join(str(self._n + n + 1) for n in range(count)))
        self._n += count
        (self._at / "n.txt").write_text(str(self._n))

    def frame(self) -> Any:
        if self._kind == "files":
            return texts(self._spark, self._landing)
        return self._spark.readStream.format(f"numbers_{self._kind}").option("path", str(self._at / "n.txt")).load()


WRAPPED = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@pytest.mark.parametrize("wrapped", ["true", "false"])
@pytest.mark.parametrize("kind", ["simple", "ranged", "files"])
def test_run_that_ends_by_itself_reads_what_is_there_of_several_sources(
    spark: SparkSession, folder: Path, kind: str, wrapped: str
) -> None:
    found = []
    for way in WAYS:
        at = folder / way
        at.mkdir()
        numbers, landing, seen = Counting(spark, kind, at), Landing(at / "in", at / "tmp"), []
        with session_options(spark, {WRAPPED: wrapped}):
            for first in (7, 10):
                numbers.more(3)
                for n in range(first, first + 3):
                    landing.text(str(n))
                frames = [read(way, one) for one in (texts(spark, landing, maxFilesPerTrigger=1), numbers.frame())]
                writer = frames[0].union(frames[1]).writeStream.format("parquet").trigger(availableNow=True)
                query = writer.option("checkpointLocation", str(at / "checkpoints")).start(str(at / "out"))
                assert query.awaitTermination(120)
                seen.append(sorted(int(row.value) for row in spark.read.parquet(str(at / "out")).collect()))
        found.append(seen)
    assert found == [[[1, 2, 3, 7, 8, 9], list(range(1, 13))]] * 2


@pytest.mark.parametrize("wrapped", ["true", "false"])
@pytest.mark.parametrize("kind", ["simple", "ranged", "files"])
def test_run_that_ends_by_itself_reads_what_is_there_of_one_source(
    spark: SparkSession, folder: Path, kind: str, wrapped: str
) -> None:
    """Each run has a table of its own, and reads everything."""
    found = []
    for way in WAYS:
        at = folder / way
        at.mkdir()
        numbers, seen = Counting(spark, kind, at), []
        with session_options(spark, {WRAPPED: wrapped}):
            for _ in range(2):
                numbers.more(3)
                name = f"mem_{uuid.uuid4().hex[:8]}"
                writer = read(way, numbers.frame()).writeStream.format("memory").queryName(name)
                query = writer.trigger(availableNow=True).start()
                assert query.awaitTermination(120)
                seen.append(sorted(int(row.value) for row in spark.table(name).collect()))
        found.append(seen)
    assert found == [[[1, 2, 3], list(range(1, 7))]] * 2
