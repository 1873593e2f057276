"""Two stages on a cluster: visits of customers (a processor), and how many end in each hour (an aggregate).

    spark-submit --master spark://HOST:7077 --conf spark.shuffle.reduceLocality.enabled=false examples/cluster/visits.py

``LAKE`` (history, Parquet), ``LANDING`` (live, Parquet), ``OUTPUT`` and ``LOCATION`` (checkpointLocation) are folders
that the driver and all executors see, or URIs.  Each epoch is printed as a line of JSON.  SIGTERM ends it with a
checkpoint; the next start goes on from there, as it does after a crash.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import mixedmode
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

SCHEMA = "customer string, ts timestamp, amount long"
#: Nobody who comes back within this time has left.
PAUSE_MS = 30 * 60 * 1000


class Visits(StatefulProcessor):
    """A row for each visit: when it ended, and what was spent."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "ends_ms long, spent long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        ends_ms, spent = self._open.get() or (None, 0)
        if ends_ms is not None:
            self._handle.deleteTimer(ends_ms)
        for row in rows:
            ends_ms = int(row.ts.timestamp() * 1000) + PAUSE_MS
            spent += row.amount
        self._open.update((ends_ms, spent))
        self._handle.registerTimer(ends_ms)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        ends_ms, spent = self._open.get()
        self._open.clear()
        yield Row(customer=key[0], ends_ms=ends_ms, spent=spent)


class Printed(mixedmode.RunListener):
    """Prints what becomes of each epoch."""

    def onEpochApplied(self, event: Any) -> None:
        restored = {stage.uid: stage.restored_shards for stage in event.stages}
        told = {"epoch": event.epoch, "phase": event.phase, "rows": event.input_rows, "late": event.late_rows}
        print(json.dumps({**told, "restored": restored}), flush=True)


def main() -> None:
    """Run until somebody ends it."""
    spark = SparkSession.builder.appName("visits").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    mixedmode.add_listener(Printed())
    visits = (
        mixedmode.read(
            history=spark.read.schema(SCHEMA).parquet(os.environ["LAKE"]),
            live=spark.readStream.schema(SCHEMA).parquet(os.environ["LANDING"]),
        )
        .withWatermark("ts", "10 minutes")
        .groupBy("customer")
        .transformWithState(Visits(), "customer string, ends_ms long, spent long", "append", "eventTime")
        .uid("visits")
    )
    query = (
        visits.withColumn("ends", F.timestamp_millis("ends_ms"))
        .withWatermark("ends", "0 seconds")
        .groupBy(F.window("ends", "1 hour"))
        .agg(F.count("*").alias("visits"), F.sum("spent").alias("spent"))
        .uid("hours")
        .writeStream.queryName("visits")
        .format("parquet")
        .option("path", os.environ["OUTPUT"])
        .option("checkpointLocation", os.environ["LOCATION"])
        .start()
    )
    query.awaitTermination()
    spark.stop()
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main()
