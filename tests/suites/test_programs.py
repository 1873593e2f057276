"""Queries of test_streaming.py, test_streaming_listener.py and test_pandas_grouped_map_with_state.py of Spark that are
about how a program reads, writes and asks: stock and mixedmode do the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from .watched import WAYS, Landing, Watched, read, running

pytestmark = pytest.mark.slow


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """A table of three words."""
    name = f"words_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE TABLE {name} (value string) USING parquet")
    spark.sql(f"INSERT INTO {name} VALUES ('a'), ('b'), ('c')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def shown(spark: SparkSession, frame: Any, folder: Path, way: str) -> list[str]:
    """The rows of the memory table that a frame is written to."""
    name = f"shown_{uuid.uuid4().hex[:8]}"
    writer = frame.writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(folder / f"checkpoints-{way}")).start()
    query.processAllAvailable()
    query.stop()
    return sorted(row[0] for row in spark.table(name).collect())


def test_table_is_read_as_stock_reads_it(spark: SparkSession, folder: Path, table: str) -> None:
    found = [shown(spark, read(way, spark.readStream.table(table)), folder, way) for way in WAYS]
    assert found == [["a", "b", "c"]] * 2


def test_query_over_a_view_of_a_stream_gives_what_stock_gives(spark: SparkSession, folder: Path, table: str) -> None:
    found = []
    for way in WAYS:
        read(way, spark.readStream.table(table)).createOrReplaceTempView("test_view")
        over = spark.sql("SELECT concat('view_', value) AS vv FROM test_view")
        assert over.isStreaming
        found.append(shown(spark, over, folder, way))
    assert found == [["view_a", "view_b", "view_c"]] * 2


def test_files_are_written_where_options_say_in_the_partitions_of_stock(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "0.txt").write_text("this\nthat\n")
    found = []
    for way in WAYS:
        rows = read(way, spark.readStream.format("text").load(str(folder / "in"))).withColumn("id", F.lit(1))
        out, checkpoints = folder / f"out-{way}", folder / f"checkpoints-{way}"
        writer = rows.writeStream.option("checkpointLocation", str(checkpoints)).queryName(f"this_query_{way}")
        query = writer.format("parquet").partitionBy("id").outputMode("append").option("path", str(out)).start()
        try:
            assert query.name == f"this_query_{way}"
            assert query.isActive
            query.processAllAvailable()
        finally:
            query.stop()
        assert any(checkpoints.iterdir())
        parts = {path.parent.name for path in out.rglob("*.parquet")}
        found.append((parts, sorted(map(tuple, spark.read.parquet(str(out)).collect()))))
    assert found == [({"id=1"}, [("that", 1), ("this", 1)])] * 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"processingTime": "5 seconds", "continuous": "1 second"},
        {"processingTime": ""},
        {"processingTime": 5},
        {"once": False},
        {"availableNow": False},
        {"once": True, "availableNow": True},
        {"continuous": 5},
    ],
    ids=str,
)
def test_triggers_are_refused_as_in_stock(spark: SparkSession, table: str, given: dict[str, Any]) -> None:
    for way in WAYS:
        writer = read(way, spark.readStream.table(table)).writeStream
        with pytest.raises((TypeError, ValueError)):
            writer.trigger(**given)


def test_progress_has_the_parts_of_stocks_and_what_was_observed(spark: SparkSession, folder: Path, table: str) -> None:
    found = {}
    for way in WAYS:
        rows = read(way, spark.readStream.table(table)).observe("seen", F.count(F.lit(1)).alias("rc"))
        writer = rows.groupBy().count().writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(folder / f"checkpoints-{way}")).start()
        query.processAllAvailable()
        query.stop()
        found[way] = query.recentProgress
        assert sum(one["observedMetrics"]["seen"]["rc"] for one in found[way] if "seen" in one["observedMetrics"]) == 3
        assert sum(one["numInputRows"] for one in found[way]) == 3
    names = set(found["stock"][0])
    assert all(names <= set(one) for one in found["ours"])
    for part in ("stateOperators", "sources"):
        stock, ours = (set(found[way][0][part][0]) for way in WAYS)
        assert stock <= ours
    counted = [[one["sources"][0]["numInputRows"] for one in found[way] if one["numInputRows"]] for way in WAYS]
    assert counted == [[3], [3]]


def test_frame_can_be_written_twice(spark: SparkSession, folder: Path, table: str) -> None:
    for way in WAYS:
        rows = read(way, spark.readStream.table(table))
        for number in range(2):
            out = str(folder / f"out-{way}-{number}")
            writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{out}-checkpoints")
            query = writer.start(out)
            query.processAllAvailable()
            query.stop()
            assert sorted(row.value for row in spark.read.parquet(out).collect()) == ["a", "b", "c"]


def test_workers_that_die_fail_the_query_and_no_row_counts_twice_after_restarts(
    spark: SparkSession, folder: Path
) -> None:
    """The worker of every second call ends without a word; whoever starts the query again gets the right counts."""
    (folder / "in").mkdir()
    for number, words in enumerate(("hello\nthis", "this\nis", "hello\nhello")):
        (folder / "in" / f"{number}.txt").write_text(f"{words}\n")
    found = {}
    for way in WAYS:
        calls = folder / f"calls-{way}"
        calls.mkdir()

        def count(key: Any, frames: Any, state: Any, calls: str = str(calls)) -> Any:
            import os

            made = len(os.listdir(calls))
            with open(f"{calls}/{made}", "w"):
                pass
            if made % 4 == 1:
                os._exit(1)
            n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
            state.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        kept: dict[str, int] = {}

        def take(rows: Any, number: int, kept: dict[str, int] = kept) -> None:
            kept.update({row.key: row.n for row in rows.collect()})

        failures = 0
        for _ in range(20):
            live = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder / "in"))
            counts = (
                read(way, live)
                .groupBy("value")
                .applyInPandasWithState(count, "key string, n long", "n long", "update", GroupStateTimeout.NoTimeout)
            )
            writer = counts.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(folder / f"checkpoints-{way}")).start()
            try:
                query.awaitTermination(300)
            except Exception:
                failures += 1
            else:
                break
        assert failures
        found[way] = kept
    assert found["ours"] == found["stock"] == {"hello": 3, "this": 2, "is": 1}


@pytest.mark.suites
def test_task_that_fails_once_leaves_the_state_as_it_was(spark: SparkSession, folder: Path) -> None:
    """A query that is started again behind it counts the rows of that micro-batch once."""
    found = {}
    for way in WAYS:
        landing, failing = Landing(folder / way, folder / "tmp"), folder / f"failing-{way}"

        def count(key: Any, frames: Any, state: Any, failing: str = str(failing)) -> Any:
            import os

            if os.path.exists(failing):
                raise RuntimeError("expected failure")
            n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
            state.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def counts(way: str = way, landing: Landing = landing, count: Any = count) -> Any:
            live = spark.readStream.format("text").load(str(landing.folder))
            keyed = read(way, live).groupBy("value")
            no_timeout = GroupStateTimeout.NoTimeout
            return keyed.applyInPandasWithState(count, "key string, n long", "n long", "update", no_timeout)

        watched = Watched(folder, counts, mode="update")
        with running(watched):
            for _ in range(2):
                landing.text("a")
                watched.rows()
            failing.touch()
            landing.text("a")
            with pytest.raises(Exception, match="expected failure"):
                watched.rows()
        failing.unlink()
        with running(watched):
            found[way] = watched.rows()
    assert found["ours"] == found["stock"] == [("a", 1), ("a", 2), ("a", 3)]
