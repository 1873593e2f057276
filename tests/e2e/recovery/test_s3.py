"""Jobs with everything on an object store: a local S3, reached by Spark and by us with the same settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode.runtime.storage.filesystem import list_files, resolve
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from s3_server import S3Server
from s3_support import EVENTS, Place, started

LATE = "pipeline.late-data.path"


@pytest.fixture(scope="module")
def store(spark: SparkSession, s3: S3Server) -> Iterator[S3Server]:
    """The server, which the session knows."""
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    # Hadoop's default stream does not try again where an answer is cut off, nor do reads of several ranges at once: in
    # local mode a task has one attempt.
    settings = {
        **s3.hadoop,
        "fs.s3a.bucket.flaky-5.input.stream.type": "classic",
        "parquet.hadoop.vectored.io.enabled": "false",
    }
    for name, value in settings.items():
        conf.set(name, value)
    yield s3
    for name in settings:
        conf.unset(name)


def test_everything_of_a_job_lies_there(spark: SparkSession, store: S3Server) -> None:
    """History, live files, checkpoints, output, late rows and a savepoint: over a restart the output is that of a batch
    job.  A job with another parallelism and a function as sink goes on from the savepoint, where one request in twenty
    fails: it has every row once, too."""
    place = Place(spark, f"s3a://{store.make('plain')}/job")
    place.land(EVENTS[:80], folder="history")
    place.land(EVENTS[80:120])
    options = {"path": f"{place.root}/out", LATE: f"{place.root.replace('s3a:', 's3:')}/late"}
    query = started(place, place.job().writeStream, **options)
    place.land(EVENTS[120:160])
    query.processAllAvailable()
    saved = query.savepoint(f"{place.root}/savepoint")
    query.stop()
    given = place.rows()
    query = started(place, place.job().writeStream, **options)
    place.land(EVENTS[160:], support.flush_after(EVENTS))
    query.processAllAvailable()
    place.land([("late", 0, 1)])
    query.processAllAvailable()
    assert [(row.key, row.value) for row in query.lateRows.collect()] == [("late", 1)]
    query.stop()
    assert support.without_flush(place.rows()) == support.sessions_of(EVENTS)
    filesystem, path = resolve(place.root)
    left = {info.path.removeprefix(f"{path}/").partition("/")[0] for info in list_files(filesystem, path)}
    assert left == {"history", "landing", "checkpoints", "out", "late", "savepoint"}
    beside = [info.base_name for info in list_files(filesystem, f"{path}/out") if not info.path.endswith(".parquet")]
    assert beside == ["_mixedmode"], "who has written there"

    bucket = store.make("flaky-5")
    checkpoints = f"s3://{bucket}/checkpoints"
    query = started(
        place,
        place.job().writeStream.foreachBatch(lambda frame, _: given.extend(tuple(row) for row in frame.collect())),
        checkpointLocation=checkpoints,
        **{"execution.savepoint.path": saved, "pipeline.parallelism": 3},
    )
    support.finish(query)
    assert support.without_flush(sorted(given, key=repr)) == support.sessions_of(EVENTS)
    assert sum(store.failures(bucket).values()) > 5


def test_start_says_what_is_wrong(spark: SparkSession, store: S3Server) -> None:
    """An endpoint that does not answer, credentials that are refused, a bucket that is missing, jars that are: within
    seconds, with the name of the setting.  Settings of a single bucket go before the general ones."""
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    store.make("guarded")
    place = Place(spark, f"s3a://{store.make('right')}")
    place.land(EVENTS[:1])
    different = {
        "fs.s3a.bucket.guarded.access.key": "wrong",
        "fs.s3a.bucket.nowhere.endpoint": "http://127.0.0.1:9",
        "fs.nojar.impl": "org.example.NoJar",
    }
    live = spark.readStream.schema(support.ROW_SCHEMA).parquet(f"{place.root}/landing")
    writer = support.sessions(None, live).writeStream.option("path", f"{place.root}/out")

    def refusal(location: str) -> str:
        began = time.monotonic()
        error = str(support.refusal(lambda: writer.option("checkpointLocation", location).start()))
        assert time.monotonic() - began < 60
        assert f"checkpointLocation = {location!r}" in error
        return error

    for name, value in different.items():
        conf.set(name, value)
    try:
        assert "spark.hadoop.fs.s3a.access.key" in refusal("s3a://guarded/x")
        assert "http://127.0.0.1:9 does not answer" in (said := refusal("s3a://nowhere/x"))
        assert "spark.hadoop.fs.s3a.endpoint" in said
        assert "there is no bucket 'missing'" in refusal("s3://missing/x")
        conf.set("fs.s3.impl", "org.example.NoJar")
        assert "hadoop-aws" in (said := refusal("s3://right/x")) and "spark.jars" in said
    finally:
        for name in (*different, "fs.s3.impl"):
            conf.unset(name)


def test_rows_that_an_output_has(spark: SparkSession, store: S3Server) -> None:
    """A job with a new checkpointLocation refuses its own rows in a bucket, adds to those of others, and replaces all
    of them; its restart does not."""
    root = f"s3a://{store.make('existing')}"

    def writer(value: int, location: str, name: str = "totals", **options: str) -> Any:
        frame = spark.sql(f"select 'k{value}' as k, {value}L as n")
        made = mixedmode.read(history=frame).groupBy("k").agg(F.sum("n").alias("n")).writeStream.queryName(name)
        made.option("path", f"{root}/out").option("checkpointLocation", f"{root}/{location}")
        return made.option("execution.runtime-mode", "batch").option("pipeline.parallelism", 1).options(**options)

    def values() -> list[int]:
        return sorted(row.n for row in spark.read.parquet(f"{root}/out").collect())

    writer(1, "first").start().awaitTermination()
    error = support.refusal(writer(2, "second").start)
    assert error.code == "MIXEDMODE_OUTPUT_EXISTS" and f"'{root}/first'" in str(error)
    writer(3, "other", name="other").start().awaitTermination()
    assert values() == [1, 3]
    replaces = {"execution.sink.existing": "replace"}
    for _ in range(2):
        writer(4, "third", **replaces).start().awaitTermination()
        assert values() == [4]
    assert support.refusal(writer(5, "fourth").start).code == "MIXEDMODE_OUTPUT_EXISTS"
