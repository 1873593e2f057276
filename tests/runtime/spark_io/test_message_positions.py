"""Rows with the positions of their messages: each message is one, and filters only mark those that they drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka_broker import Broker
from mixedmode.runtime.spark_io.message_positions import KEPT_COLUMN, TIME_COLUMN, refusal, with_positions
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.kafka

VALUES = ["1", "", "0", "x", "-7", "40", "2147483648", "5", '{"a": 3}', "1"]
PLACES = [(at % 2, at // 2) for at in range(len(VALUES))]


@pytest.fixture
def messages(spark: SparkSession, kafka: Broker) -> DataFrame:
    topic = kafka.create("positions", 2)
    kafka.send(topic, [(partition, value) for (partition, _), value in zip(PLACES, VALUES, strict=True)])
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    return rows.select(F.col("value").cast("string").alias("text"), "timestamp")


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[DataFrame], list[Row]]]:
    """Gives the rows of a stream."""

    def rows_of(frame: DataFrame) -> list[Row]:
        writer = frame.writeStream.format("memory").queryName("positions").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        return spark.table("positions").collect()

    yield rows_of
    spark.catalog.dropTempView("positions")


def number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() and abs(int(text)) < 2**31 else None


def test_rows_that_filters_drop_are_marked(messages: DataFrame, run: Callable[[DataFrame], list[Row]]) -> None:
    """What is behind a filter would fail for rows that it drops: casts, quotients, other filters."""
    parsed = messages.where("text RLIKE '^-?[0-9]{1,9}$'").withColumn("n", F.expr("CAST(text AS INT)"))
    divided = parsed.where("n != 0").withWatermark("timestamp", "1 minute").withColumn("q", F.expr("120 DIV n"))
    rows = (
        divided.alias("r").where("r.q + 1 > 0").select("n", "q", F.lit(7).alias("seven"), (F.col("q") + 0).alias("p"))
    )
    assert refusal(rows) is None
    found = run(with_positions(rows, {}))
    assert found[0].__fields__ == ["n", "q", "seven", "p", "__partition", "__offset", TIME_COLUMN, KEPT_COLUMN]
    assert sorted((row["__partition"], row["__offset"]) for row in found) == sorted(PLACES)
    texts = dict(zip(PLACES, VALUES, strict=True))
    for row in found:
        n = number(texts[row["__partition"], row["__offset"]])
        kept = n is not None and n != 0 and int(120 / n) + 1 > 0
        assert row[KEPT_COLUMN] is kept, row
        if kept:
            assert (row.n, row.q, row.seven, row.p) == (n, int(120 / n), 7, int(120 / n))
        else:
            assert row.p is None
    assert sum(row[KEPT_COLUMN] for row in found) == 4


def test_without_filters_there_is_no_mark(messages: DataFrame, run: Callable[[DataFrame], list[Row]]) -> None:
    found = run(with_positions(messages.select("text", F.col("timestamp").alias("sent")), {}))
    assert sorted((row["__partition"], row["__offset"], row["text"]) for row in found) == sorted(
        (*place, value) for place, value in zip(PLACES, VALUES, strict=True)
    )
    assert found[0].__fields__ == ["text", "sent", "__partition", "__offset", TIME_COLUMN]
    assert [row[TIME_COLUMN] for row in found] == [round(row.sent.timestamp() * 1000) for row in found]


def test_conditions_that_run_python_are_refused(messages: DataFrame) -> None:
    is_long = F.udf(lambda text: len(text) > 3, "boolean")
    assert "a Python function in filter" in str(refusal(messages.where(is_long("text"))))
    assert "Generate" in str(refusal(messages.select(F.explode(F.split("text", "")))))
