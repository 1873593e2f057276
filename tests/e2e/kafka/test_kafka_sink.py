"""``format("kafka")``: each row of the output is a message once, whatever is tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pytest
import support
from failing import fail_at
from kafka_broker import Broker
from mixedmode.errors import CheckpointError
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.connectors.sinks import kafka as kafka_sinks
from mixedmode.runtime.connectors.sinks.kafka import few_messages, send_lanes
from mixedmode.runtime.connectors.sinks.kafka import sink as sink_module
from mixedmode.runtime.connectors.sinks.kafka.sink import KafkaSink
from mixedmode.runtime.connectors.sinks.spark_writer import SparkWriterSink
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.runtime.support import failpoints
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from support import World

MESSAGES = "topic string, key string, value string, partition int, headers array<struct<key:string,value:binary>>"


class Stage:
    """What tasks stage for a sink, and the sinks of drivers of one job.

    Args:
        spark: the session.
        folder: where rows are staged.
        brokers: their address.
        columns: of the output, as DDL.
        options: of the sinks.
    """

    def __init__(self, spark: SparkSession, folder: Path, brokers: str, columns: str, **options: str) -> None:
        self.spark, self.folder = spark, str(folder)
        self.options = {"kafka.bootstrap.servers": brokers, **options}
        self.schema = StructType.fromDDL(columns)
        self.job_id = folder.name

    def sink(self, branch: int = 0) -> KafkaSink:
        made = KafkaSink(self.schema, self.options)
        made.branch = branch
        made.open(self.spark, StagingFolder(fs.LocalFileSystem(), self.folder), self.job_id)
        return made

    def transaction(self, number: int, token: str, *shards: list[tuple[Any, ...]]) -> SinkTransaction:
        """Rows of one epoch, a file for each shard."""
        columns, files = arrow_schema(self.schema), []
        for shard, rows in enumerate(shards):
            name = f"e{number:08d}-s{shard:04d}-{token}"
            output = StagedOutput(fs.LocalFileSystem(), self.folder, name, columns, self.schema.json())
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), columns, strict=True)
            ]
            output.write(pa.RecordBatch.from_arrays(arrays, schema=columns))
            files += output.finish()
        return SinkTransaction(id=number, files=tuple(files), token=token)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has a point of the driver fail."""

    def at(point: str) -> None:
        fail_at(monkeypatch, f"{point}=raise" if point else "")

    return at


def test_messages_are_what_sparks_writer_sends(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    """The topic of the row, keys in the partitions that Spark's client gives them, partitions and headers as said, and
    no value; a key's messages in the order in which they were staged."""
    ours, sparks = kafka.create("ours", 5), kafka.create("sparks", 5)
    stage = Stage(spark, tmp_path, kafka.bootstrap, MESSAGES)
    keyed = [(f"k{n}", f"v{n}", None, None) for n in range(40)]
    rows = [*keyed, ("k1", "later", None, None), (None, "placed", 3, [("h", b"1"), ("i", None)]), ("k2", None, 4, [])]
    stage.sink().commit(stage.transaction(1, "a", [(ours, *row) for row in rows]))
    frame = spark.createDataFrame([(sparks, *row) for row in rows], stage.schema)
    frame.coalesce(1).write.format("kafka").options(**stage.options).save()
    found, expected = kafka.committed(ours), kafka.committed(sparks)
    assert sorted(found, key=repr) == sorted(expected, key=repr) and len(found) == len(rows)
    assert [value for key, value, _ in found if key == b"k1"] == [b"v1", b"later"]
    reader = spark.read.format("kafka").options(**stage.options, subscribe=ours, includeHeaders="true").load()
    (headers,) = reader.where("CAST(value AS STRING) = 'placed'").select("headers").collect()[0]
    assert [(one.key, one.value) for one in headers] == [("h", b"1"), ("i", None)]
    with pytest.raises(CheckpointError, match="column topic is null"):
        stage.sink().commit(stage.transaction(2, "b", [(None, "k", "v", None, None)]))


def test_messages_of_sparks_own_client_are_the_same_if_the_driver_reads_them(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At-least-once: few rows are read on the driver, more by tasks; nulls, bytes, partitions, order of a key."""
    few, many = kafka.create("few", 3), kafka.create("many", 3)
    stage = Stage(spark, tmp_path, kafka.bootstrap, "topic string, key string, value binary, partition int")
    keyed = [(f"ß{n}", b"\xff%d" % n, None) for n in range(20)]
    for number, (topic, most) in enumerate([(few, 100), (many, 0)], start=1):
        monkeypatch.setattr(few_messages, "_MOST_ROWS", most)
        rows = [(topic, *row) for row in [*keyed, ("ß1", b"later", None), (None, b"placed", 2), ("k", None, 1)]]
        sink = SparkWriterSink(stage.schema, "kafka", options=stage.options)
        sink.open(spark, StagingFolder(fs.LocalFileSystem(), stage.folder), stage.job_id)
        sink.commit(stage.transaction(number, "a", rows[:7], rows[7:]))
    found = kafka.committed(few)
    assert sorted(found, key=repr) == sorted(kafka.committed(many), key=repr) and len(found) == 23
    assert [value for key, value, _ in found if key == "ß1".encode()] == [b"\xff1", b"later"]


def test_a_checkpoint_is_sent_once_and_a_newer_drivers_only(
    spark: SparkSession, kafka: Broker, tmp_path: Path, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed again, in several lanes and transactions, nothing is sent twice; other rows under the id of a
    checkpoint that has been sent are; a driver that others have taken over from sends nothing any more; and where the
    brokers may have forgotten how far a checkpoint was sent, it is refused."""
    monkeypatch.setattr(send_lanes, "ROWS_PER_LANE", 10)
    monkeypatch.setattr(sink_module, "ROWS_PER_TRANSACTION", 8)
    topic = kafka.create("once", 2)
    stage = Stage(spark, tmp_path, kafka.bootstrap, "value string", topic=topic)

    def values() -> list[str]:
        return sorted(value.decode() for _, value, _ in kafka.committed(topic))

    rows = [[(f"{shard}-{n}",) for n in range(20)] for shard in range(3)]
    flat = sorted(value for shard in rows for (value,) in shard)
    first = stage.transaction(7, "a", *rows)
    failing("sink-after-function")
    with pytest.raises(failpoints.InjectedFailure):
        stage.sink().commit(first)
    failing("")
    assert values() == flat
    late = stage.sink()
    late.now_ms = lambda: sink_module.time.time_ns() // 1_000_000 + 8 * 24 * 3_600_000
    with pytest.raises(CheckpointError, match=r"192 hours ago.*168 hours.*at-least-once"):
        late.commit(first)
    stage.sink().commit(first)
    assert values() == flat
    # The job was put back to an older checkpoint, and comes to other rows under the same id.
    zombie, other = stage.sink(), stage.transaction(7, "b", *rows)
    (tmp_path / "sending-00000007").unlink()
    (tmp_path / "delivered-00000007").unlink()
    zombie.commit(other)
    assert values() == sorted(2 * flat)
    newer = stage.sink(branch=2)
    newer.fence()
    with pytest.raises(CheckpointError, match="taken this job over"):
        zombie.commit(stage.transaction(8, "c", *rows))
    newer.commit(stage.transaction(9, "d", [("newer",)]))
    assert values() == sorted([*2 * flat, "newer"])


def test_updates_of_several_epochs(world: World, kafka: Broker) -> None:
    """In update mode a checkpoint sends the last row of each key; what a table of the newest message by key holds in
    the end is what a batch gives. ``explain()`` says what is guaranteed."""
    topic = kafka.create("totals", 2)
    events = support.stream_of(200, seed=11)
    frame = mixedmode.read(history=world.history(events[:100]), live=world.live(maxFilesPerTrigger="1"))
    totals = frame.groupBy("key").agg(F.sum("value").alias("total"), F.count("*").alias("rows"))
    messages = totals.select("key", F.to_json(F.struct("total", "rows")).alias("value"))
    writer = messages.writeStream.outputMode("update").format("kafka").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap).option("pipeline.parallelism", 2)
    writer = writer.option("execution.checkpointing.interval", "1 hour")
    writer = writer.option("checkpointLocation", str(world.checkpoints))
    assert "exactly-once for readers with isolation.level=read_committed" in writer.plan().explain()
    query = writer.start()
    world.queries.append(query)
    support.live(query)
    at_the_switch = len(kafka.committed(topic))
    world.land(*[events[start : start + 20] for start in range(100, 200, 20)])
    support.finish(query)
    keys = {key for key, _, _ in events}
    sent = kafka.committed(topic)
    assert at_the_switch == len(keys), "one epoch"
    assert len(sent) - at_the_switch == len({key for key, _, _ in events[100:]}), "five epochs, one row for each key"
    newest = {key.decode(): json.loads(value) for key, value, _ in sent if key is not None}
    expected = {
        key: {
            "total": sum(value for of, _, value in events if of == key),
            "rows": sum(of == key for of, _, _ in events),
        }
        for key in keys
    }
    assert newest == expected


def test_the_whole_result_is_sent_with_each_checkpoint(world: World, kafka: Broker) -> None:
    """Mode complete, as in stock: every group each time, those that nothing has changed, too; by Spark's writer, which
    gives at-least-once, also in order and cut short."""
    events, topics = support.stream_of(60, seed=12), [kafka.create(name, 1) for name in ("whole", "top")]
    keys = sorted({key for key, _, _ in events})

    def start(topic: str, **options: str) -> None:
        frame = world.read(events[:30])
        totals = frame.groupBy("key").agg(F.sum("value").cast("string").alias("value"))
        messages = totals.orderBy("key").limit(3) if options else totals
        writer = messages.writeStream.outputMode("complete").format("kafka").option("topic", topic).options(**options)
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap)
        query = writer.option("checkpointLocation", str(world.folder / topic)).trigger(availableNow=True).start()
        world.queries.append(query)
        assert query.awaitTermination(300)

    def sums(some: list[support.Event]) -> list[tuple[bytes, bytes]]:
        return [
            (key.encode(), str(sum(value for of, _, value in some if of == key)).encode())
            for key in keys
            if any(of == key for of, _, _ in some)
        ]

    def sent(topic: str) -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value, _ in kafka.committed(topic)]

    start(topics[0])
    assert sorted(sent(topics[0])) == sums(events[:30])
    world.land(events[30:])
    start(topics[0])
    assert sorted(sent(topics[0])[len(sums(events[:30])) :]) == sums(events)
    start(topics[1], **{"execution.sink.delivery-guarantee": "at-least-once"})
    assert sent(topics[1])[-3:] == sums(events)[:3]


def test_what_start_says(world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing client, options that are not to be had, guarantees that a format does not give, and topics that are not
    there are errors of ``start()``, with what to do."""
    frame = mixedmode.read(history=world.history([("a", 1, 1)]), live=None).groupBy("key").count()
    messages = frame.selectExpr("key", "CAST(count AS STRING) AS value")
    there = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": kafka.create("there", 1)}

    def refused(format: str, **options: str) -> str:
        writer = messages.writeStream.format(format).options(**options)
        return str(support.refusal(writer.option("checkpointLocation", str(world.checkpoints)).start))

    assert "sink.delivery-guarantee" in refused("kafka", **there, **{"sink.delivery-guarantee": "sometimes"})
    assert "csv gives at-least-once" in refused("csv", path="out", **{"sink.delivery-guarantee": "exactly-once"})
    assert "kafka.max.block.ms = '1'" in refused("kafka", **there, **{"kafka.max.block.ms": "1"})
    assert "does not know the option tpic = 't'" in refused("kafka", **there, tpic="t")
    ordered = messages.orderBy("key").writeStream.format("kafka").options(**there).outputMode("complete")
    ordered = ordered.option("checkpointLocation", str(world.checkpoints))
    assert "orderBy and limit do not go with format kafka, exactly-once" in str(support.refusal(ordered.start))
    assert "has no path" in refused("kafka", **there, path="out")
    assert "execution.sink.transactional" in refused("kafka", **there, **{"execution.sink.transactional": "true"})
    assert "'not-there' is not known" in refused("kafka", **{**there, "topic": "not-there"})
    monkeypatch.setattr(kafka_sinks.guarantee, "find_spec", lambda name: None)
    assert "pip install 'mixedmode[kafka]'" in refused("kafka", **there)
