"""How most of the jobs read a message: the value as text, as JSON, as columns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .job import Read

CLICK = "user_id string, product_price double, event_type string, timestamp timestamp"
INVOICE = (
    "InvoiceNumber string, CreatedTime string, StoreID string, TotalAmount double, TotalValue double,"
    " CustomerType string, CustomerCardNo string"
)
TAXI = "trip_id string, driver_id int, distance_km double, fare_amount double, timestamp string"


def from_kafka(frame: Any, schema: str) -> Any:
    """The columns of a Kafka topic's JSON values."""
    return frame.select(F.from_json(F.col("value").cast("string"), schema).alias("data")).select("data.*")


def taxis(read: Read) -> Any:
    """The rides of a socket, with their event time and a watermark of 1 min."""
    parsed = read("taxis").select(F.from_json(F.col("value"), TAXI).alias("json")).select("json.*")
    timed = parsed.withColumn("event_time", F.to_timestamp(F.col("timestamp")))
    return timed.withWatermark("event_time", "1 minute")
