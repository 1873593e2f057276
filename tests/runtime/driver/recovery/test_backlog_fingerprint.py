"""Two runs share finished shards of a backlog only if what they stage is the same, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_broker import Broker
from mixedmode import kafka as topics
from mixedmode import read
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.runtime.driver.recovery import backlog_fingerprint as backlog_fingerprint_module
from mixedmode.runtime.driver.recovery.backlog_fingerprint import backlog_fingerprint
from mixedmode.runtime.driver.run.start_settings import with_settings_of_now
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options


def digest(writer: MixedStreamWriter) -> str | None:
    job = writer.described()
    return backlog_fingerprint(job, 2, 128)


@pytest.fixture(scope="module")
def writer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., MixedStreamWriter]:
    folder = str(tmp_path_factory.mktemp("job"))

    def make(alias: str = "total", format: str = "parquet", path: str = "out", **options: Any) -> MixedStreamWriter:
        keyed = read(history=spark.range(10)).groupBy((F.col("id") % 2).alias("k")).agg(F.sum("id").alias(alias))
        made = keyed.writeStream.format(format).option("checkpointLocation", f"{folder}/ck").options(**options)
        return made.option("path", f"{folder}/{path}") if format == "parquet" else made

    return make


def test_the_output_is_part_of_the_backlog(writer: Callable[..., MixedStreamWriter], tmp_path: Path) -> None:
    """An alias, another folder, a layout, another sink: staged rows would be missing, or under an old name."""
    same, again = digest(writer()), digest(writer())
    assert same is not None and same == again
    others = [
        writer(alias="sum"),
        writer(path="other"),
        writer().partitionBy("k"),
        writer(format="noop"),
        writer(format="noop").foreachBatch(lambda rows, number: None),
    ]
    digests = [digest(other) for other in others]
    assert None not in digests
    assert len({same, *digests}) == 1 + len(others)


def test_the_engine_is_part_of_the_backlog(
    writer: Callable[..., MixedStreamWriter], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of another engine, version of it, or order of sums, or under settings that change results, are others'."""
    found = [digest(writer())]
    found += [digest(writer(**{f"execution.backlog.{name}": "spark"})) for name in ("engine", "float-sums")]
    for module, name in (
        (backlog_fingerprint_module.pyarrow, "__version__"),
        (backlog_fingerprint_module, "TRANSLATION_VERSION"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, "another")
            found.append(digest(writer()))
    setting = "spark.sql.legacy.timeParserPolicy"
    with session_options(spark, {setting: "LEGACY"}):
        found.append(digest(writer()))
    assert None not in found and len(set(found)) == 6
    assert digest(writer()) == found[0]


def test_settings_count_as_the_job_is_planned(writer: Callable[..., MixedStreamWriter], spark: SparkSession) -> None:
    """Those of its start, whatever the session gets before somebody asks; others are another backlog."""
    name = "spark.sql.session.timeZone"
    made = writer()
    job = with_settings_of_now(made.described())
    known = backlog_fingerprint(job, 2, 128)
    with session_options(spark, {name: "Asia/Kolkata" if spark.conf.get(name) != "Asia/Kolkata" else "UTC"}):
        assert backlog_fingerprint(job, 2, 128) == known is not None
        assert backlog_fingerprint(with_settings_of_now(made.described()), 2, 128) not in (None, known)


def shared(rows: Any, static: DataFrame) -> Any:
    rows, hour = rows.withWatermark("ts", "0 seconds"), F.window("ts", "1 hour")
    joined = rows.join(static, "id").groupBy("id", hour).count().uid("joined")
    alone = rows.groupBy("id", hour).count().uid("alone")
    return joined.union(alone).groupBy("id", "window").agg(F.sum("count")).uid("both")


def between(rows: Any, static: DataFrame) -> Any:
    counted = rows.groupBy("id").count().uid("counted")
    return counted.join(static, "id").groupBy("id").agg(F.sum("count")).uid("sums")


def joined(rows: Any, static: DataFrame) -> Any:
    return rows.join(static.hint("broadcast"), "id").groupBy("id").count()


def behind(rows: Any, static: DataFrame) -> Any:
    return rows.groupBy("id").count().join(static, "id")


def queried(rows: Any, static: DataFrame) -> Any:
    static.createOrReplaceTempView("static_ids")
    return rows.where("id IN (SELECT id FROM static_ids)").groupBy("id").count()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "live"),
    [(shared, False), (shared, True), (between, False), (joined, True), (behind, True), (queried, False)],
)
def test_static_tables_are_part_of_the_backlog(
    spark: SparkSession, tmp_path: Path, job: Callable[[Any, DataFrame], Any], live: bool
) -> None:
    """Wherever they are joined or asked: their files count, as those of a history do, and what has landed does not."""
    digests = []
    for place in ("landing", "static"):
        (tmp_path / place).mkdir()
    for rows, place in enumerate(("static", "landing", "static")):
        pq.write_table(pa.table({"id": list(range(rows))}), tmp_path / place / "rows.parquet")
        static = spark.read.schema("id long").parquet(str(tmp_path / "static"))
        landing = spark.readStream.schema("id long, ts timestamp").parquet(str(tmp_path / "landing"))
        history = spark.range(10).withColumn("ts", F.timestamp_millis("id"))
        frame = job(read(live=landing) if live else read(history=history), static)
        digests.append(digest(frame.writeStream.outputMode("update").format("noop")))
    first, landed, changed = digests
    assert first is not None and first == landed != changed


def test_static_rows_that_are_not_files_cannot_be_told(spark: SparkSession, tmp_path: Path) -> None:
    """Joined to a stream or behind a stage, as in a history: there is no digest."""
    landing = spark.readStream.schema("id long, ts timestamp").parquet(str(tmp_path))
    static = spark.createDataFrame([(1,)], "id long")
    for job in (joined, behind):
        assert digest(job(read(live=landing), static).writeStream.outputMode("update").format("noop")) is None


@pytest.mark.slow
@pytest.mark.kafka
def test_messages_between_two_offsets_are_what_they_are(spark: SparkSession, kafka: Broker) -> None:
    """Two snapshots of a topic with the same ends are one backlog; with another end, topic or option they are not; one
    that goes on without what the topic has forgotten, or whose ends Spark finds out, is none that can be told."""
    topic, other = kafka.create("pinned", 2), kafka.create("other", 2)
    for name in (topic, other):
        kafka.send(name, [(number % 2, f"{number}") for number in range(6)])

    def of(history: DataFrame) -> str | None:
        keyed = read(history=history.selectExpr("CAST(value AS STRING) AS v")).groupBy("v").count()
        return digest(keyed.writeStream.format("noop").outputMode("update"))

    def snapshot(name: str = topic, **options: Any) -> str | None:
        return of(topics.snapshot(spark, kafka.bootstrap, name, options=options))

    first = snapshot()
    assert first is not None and first == snapshot()
    assert snapshot(failOnDataLoss=False) is None
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", topic)
    ends = f'{{"{topic}": {{"0": 3, "1": 3}}}}'
    assert of(reader.option("startingOffsets", "earliest").option("endingOffsets", ends).load()) is None
    found = [first, snapshot(other), snapshot(minPartitions=4)]
    kafka.send(topic, [(0, "more")])
    found.append(snapshot())
    assert None not in found and len(set(found)) == len(found)
