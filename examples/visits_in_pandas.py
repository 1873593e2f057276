"""A function with state on pandas frames: visits to a shop, closed by a timeout, in a history and then live.

It is written for ``applyInPandasWithState`` and runs as it is.  At the end the visits are compared with one plain Spark
batch.

python examples/visits_in_pandas.py
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

GAP_MS = 30 * 60 * 1000


def visits(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One row for each visit: it is over when its visitor has clicked nothing for half an hour."""
    if state.hasTimedOut:
        start, clicks = state.get
        state.remove()
        yield pd.DataFrame({"visitor": [key[0]], "start": [pd.Timestamp(start)], "clicks": [clicks]})
        return
    start, clicks = state.getOption or (None, 0)
    latest = pd.Timestamp(0)
    for frame in frames:
        start = frame["ts"].min().to_pydatetime() if start is None else start
        clicks, latest = clicks + len(frame), max(latest, frame["ts"].max())
    state.update((start, clicks))
    state.setTimeoutTimestamp(int(latest.timestamp() * 1000) + GAP_MS)


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
folder = tempfile.mkdtemp(prefix="visits-")
clicks = spark.range(12_000).selectExpr(
    "concat('visitor-', id % 20) AS visitor",
    "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, 7 * (id DIV 20)) AS ts",
    "pmod(hash(id), 3) = 0 AS there",
)
clicks = clicks.where("there").drop("there")
clicks.where("ts < '2025-01-03'").write.parquet(f"{folder}/lake")
os.makedirs(f"{folder}/landing")

query = (
    mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake"),
        live=spark.readStream.schema(clicks.schema).parquet(f"{folder}/landing"),
    )
    .withWatermark("ts", "0 minutes")  # clicks come in order: a timeout is due as soon as a later one is there
    .groupBy("visitor")
    .applyInPandasWithState(
        visits,
        outputStructType="visitor string, start timestamp, clicks long",
        stateStructType="start timestamp, clicks long",
        outputMode="append",
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
    )
    .uid("visits")
    .writeStream.format("parquet")
    .option("path", f"{folder}/visits")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .start()
)
if not query.wait_for("live", timeout=300):
    sys.exit(f"not live after five minutes: {query.exception() or query.status}")
clicks.where("ts >= '2025-01-03'").coalesce(1).write.mode("append").parquet(f"{folder}/landing")
query.processAllAvailable()
query.processAllAvailable()  # the watermark of one epoch fires timeouts in the next
query.stop()

found = spark.read.parquet(f"{folder}/visits")
found.groupBy(F.to_date("start").alias("day")).agg(F.count("*").alias("visits"), F.avg("clicks")).orderBy("day").show()
batch = clicks.groupBy("visitor", F.session_window("ts", "30 minutes").alias("visit")).count()
# Not by where(): Spark would ask each click before it puts them together to visits.
latest = clicks.agg(F.max("ts")).head()[0]
over = [row for row in batch.collect() if row.visit.end <= latest]
equal = sorted(map(tuple, found.collect())) == sorted((row.visitor, row.visit.start, row["count"]) for row in over)
print("EQUAL" if equal else "DIFFERENT", "to one batch over everything:", found.count(), "visits")
spark.stop()
sys.exit(0 if equal else 1)
