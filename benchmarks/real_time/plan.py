"""The Spark session of a run, and the plan of its query: Kafka, a shuffle by key, and a marker row behind each row."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import maven_jars
import producer
from kafka_broker import Broker
from options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SHARDS, PARTITIONS, GROUPS = 2, 2, 128
#: What the functions behind the plan give; they send their rows themselves and give none.
SCHEMA = "key string, value string"
#: The bits of a key group in reverse, as state files are sorted.
_GROUP = f"cast(conv(reverse(lpad(conv(pmod(hash(k), {GROUPS}), 10, 2), 7, '0')), 2, 10) as int)"


def session(options: Options) -> SparkSession:
    """Spark in this process, with Real-Time Mode allowed for the plan, and its events written down."""
    from pyspark.sql import SparkSession

    folder = options.folder
    log = f"-Xlog:gc*,safepoint:file={folder}/gc.log:time,uptime,level,tags:filecount=0"
    builder = SparkSession.builder.master("local[8]").appName("real-time")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": f"{log} {options.jvm}",
        "spark.jars": ",".join(map(str, maven_jars.jars("connector"))),
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.warehouse.dir": f"{folder}/spark/warehouse",
        "spark.sql.shuffle.partitions": str(SHARDS),
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        # Offsets must be in Spark's log before the driver commits.
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        # A batch of two goes through the pipe as soon as it is there.
        "spark.buffer.size": "16",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
        # monotonically_increasing_id() in a streaming query.
        "spark.sql.streaming.unsupportedOperationCheck": "false",
        # No text of each plan for a UI that is off, no check behind each rule.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "0",
        "spark.sql.lightweightPlanChangeValidation": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/spark-events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def rows(spark: SparkSession, bootstrap: str, topic: str, *, live: bool = True) -> DataFrame:
    """Rows by shard as one packed column: ``partition|offset|group|key|value``, or the marker, which is empty.

    A marker behind each row lets its Arrow batch of two go.  The first row of a task brings one ahead of it, too, so
    that each batch is the marker of the row before and the row.
    """
    from pyspark.sql import functions as F

    reader = spark.readStream if live else spark.read
    read = reader.format("kafka").options(
        **{
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            # The broker is asked 200 times a second for each partition, and not once for each row.
            "kafka.fetch.max.wait.ms": "5",
            "kafka.fetch.min.bytes": "100000",
        }
    )
    columns = "cast(key as string) k", "cast(value as string) v", "partition p", "offset o"
    shuffled = read.load().selectExpr(*columns).repartition(SHARDS, "k").withColumn("g", F.expr(_GROUP))
    packed = shuffled.select(F.expr("concat_ws('|', p, o, g, k, v) r"))
    counted = packed.withColumn("i", F.expr("monotonically_increasing_id() & 8589934591L"))
    return counted.select(F.explode(F.expr("if(i = 0, array('', r, ''), array(r, ''))")).alias("r"))


def warm_up(spark: SparkSession, broker: Broker, options: Options) -> None:
    """Run the same shape of query until the JVM has compiled what it plans with, as it has behind a backlog."""

    def read_only(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.record_batch({"key": pa.array([], pa.string()), "value": pa.array([], pa.string())})

    topic = broker.create("w", PARTITIONS)
    feed = producer.start(broker.bootstrap, topic, 1000, options.warm_up_s, options.keys)
    live = rows(spark, broker.bootstrap, topic).mapInArrow(read_only, SCHEMA).writeStream.format("noop")
    place = f"file://{options.folder}/spark-log-warm"
    query = live.outputMode("update").option("checkpointLocation", place).trigger(realTime="5 seconds").start()
    until, batches = time.time() + options.warm_up_s, 0
    while time.time() < until and query.isActive:
        none = rows(spark, broker.bootstrap, topic, live=False).where("false").mapInArrow(read_only, SCHEMA)
        none.write.format("noop").mode("overwrite").save()
        batches += 1
    epochs = len(query.recentProgress)
    query.stop()
    feed.kill()
    feed.wait()
    print(f"warmed by {epochs} epochs and {batches} batches", flush=True)
