"""The first examples of Spark's own repository and guide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ..job import Job, Read, public_job
from ..making import socket, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS: list[Job] = []
_WORDS = ("owl dog cat", "dog dog", "cat owl", "owl", "fish cat cat")
LINES = socket(lambda n, second, random: random.choice(_WORDS))
AMOUNTS = topic(lambda n, second, random: {"user": f"u{n % 7}", "amount": random.randint(1, 90)})


@public_job(
    JOBS,
    "github.com/apache/spark: examples/src/main/python/sql/streaming/structured_network_wordcount.py",
    inputs={"lines": LINES},
    mode="complete",
    sink="console",
    replaced=("socket: files", "console: collected"),
)
def word_count(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split(frame.value)); key word; count."""
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"))
    return words.groupBy("word").count().writeStream.outputMode("complete").format("console")


@public_job(
    JOBS,
    "spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html: handling late data and watermarking",
    inputs={"lines": LINES},
    mode="update",
    sink="console",
    keys=("window", "word"),
    replaced=("socket: files", "console: collected"),
)
def words_per_sliding_window(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split); watermark 10 min; keys sliding window of 10 min by 5 min and word; count."""
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"), "timestamp")
    counts = (
        words.withWatermark("timestamp", "10 minutes")
        .groupBy(F.window(words.timestamp, "10 minutes", "5 minutes"), words.word)
        .count()
    )
    return counts.writeStream.outputMode("update").format("console")


@public_job(
    JOBS,
    "docs.databricks.com/structured-streaming/foreach.html: notebook that merges streaming aggregates in update mode",
    inputs={"amounts": AMOUNTS},
    mode="update",
    sink="foreachBatch",
    keys=("user",),
    replaced=("kafka: files", "MERGE into a Delta table: the same on a table in memory"),
)
def totals_to_merge(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; key user; sum; the function merges into a table."""
    values = read("amounts").select(F.from_json(F.col("value").cast("string"), "user string, amount int").alias("v"))
    totals = values.select("v.*").groupBy("user").agg(F.sum("amount").alias("total"))

    def upsert(batch: DataFrame, batch_id: int) -> None:
        read.store.merge(batch, ["user"])

    return totals.writeStream.foreachBatch(upsert).outputMode("update")
