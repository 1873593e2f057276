"""Datasets as messages of a topic, and the ways of running a job over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mixedmode
from dataset import Dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from ways import MIXED, PLAIN, STOCK_TEN, Way
from workload import Job

# The tests' broker and the jars that it takes.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
import maven_jars
from kafka_broker import Broker, Use

PARTITIONS = 4
OBSERVED = "mixed, observed"


def connector() -> Sequence[Path]:
    """The jars of Spark's connector."""
    return maven_jars.jars("connector")


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker for a while."""
    use = Use(folder, maven_jars.jars("broker"))
    try:
        yield Broker(use.bootstrap)
    finally:
        use.close()


def text_of(seconds: int, value: float) -> str:
    """What a message holds beside its key: ten digits for the second, then the value, as :func:`fill` writes them."""
    return f"{seconds}{value}"


def fill(spark: SparkSession, bootstrap: str, topic: str, data: Dataset) -> None:
    """Send the rows of a dataset."""
    rows = spark.read.schema(data.shape.ddl).parquet(*data.files)
    messages = rows.selectExpr(
        "CAST(key AS STRING) AS key",
        "concat(unix_seconds(ts), value) AS value",
        f"CAST(pmod(key, {PARTITIONS}) AS INT) AS partition",
    )
    messages.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def rows_of(messages: DataFrame) -> DataFrame:
    """The rows that messages hold."""
    text = F.col("value").cast("string")
    return messages.select(
        F.col("key").cast("string").cast("long").alias("key"),
        F.timestamp_seconds(F.substring(text, 1, 10).cast("long")).alias("ts"),
        F.substring(text, F.lit(11), F.length(text)).cast("double").alias("value"),
    )


@dataclass(frozen=True)
class TopicWays:
    """Spark's plain batch over a topic, ours with state and checkpoint, and a stock stream, all to ``noop``.

    Args:
        spark: the session.
        job: what is done to the rows.
        bootstrap: the broker.
        topic: the messages.
        rows: how many they are.
        stock_limit_s: after which stock is stopped, in seconds.
        output_mode: of the streams.
        is_timeless: it has no event times.
    """

    spark: SparkSession
    job: Job
    bootstrap: str
    topic: str
    rows: int
    stock_limit_s: float
    output_mode: str = "update"
    is_timeless: bool = False

    def of(self, *names: str) -> dict[str, Way]:
        """Some ways by name, in that order."""
        ways: dict[str, Callable[[Path], None]] = {
            PLAIN: self.plain,
            # An aggregate in update mode is never under max; without event times there is nothing to observe, either.
            MIXED: lambda folder: self._mixed(folder, None if self.is_timeless else "max"),
            OBSERVED: lambda folder: self._mixed(folder, "observed"),
            STOCK_TEN: self.stock_ten,
        }
        return {name: ways[name] for name in names}

    def plain(self, folder: Path) -> None:
        """Spark's batch over all messages; no state, no checkpoint."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        rows = rows_of(reader.option("subscribe", self.topic).load())
        self.job(rows).write.format("noop").mode("overwrite").save()

    def _mixed(self, folder: Path, final_watermark: str | None) -> None:
        """The topic alone is the backlog: one sorted pass, state migrated, checkpoint complete."""
        rows = mixedmode.kafka.read(self.spark, self.bootstrap, self.topic, parse=rows_of)
        writer = self._writer(self.job(rows), folder)
        if final_watermark is not None:
            writer = writer.option("execution.backlog.final-watermark", final_watermark)
        query = writer.start()
        try:
            assert query.wait_for("live", 900), query.exception()
        finally:
            query.stop()
        (backlog,) = [one for one in query.recentProgress if one.phase == "backlog"]
        assert backlog.numInputRows > 0

    def stock_ten(self, folder: Path) -> None:
        """Structured Streaming with its RocksDB state store, ten micro-batches.

        It is stopped after ``stock_limit_s`` seconds: the time that it took is a lower bound then.
        """
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        rows = rows_of(reader.option("maxOffsetsPerTrigger", -(-self.rows // 10)).load())
        query = self._writer(self.job(rows), folder).trigger(availableNow=True).start()
        if query.awaitTermination(self.stock_limit_s):
            assert len(query.recentProgress) >= 10
        else:
            query.stop()

    def _writer(self, keyed: Any, folder: Path) -> Any:
        writer = keyed.writeStream.format("noop").outputMode(self.output_mode)
        return writer.option("checkpointLocation", str(folder / "checkpoints"))
