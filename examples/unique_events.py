"""Events that are sent more than once, each taken once, and counted by minute: over a history, then over what comes.

Two keyed stages in one job.  A key of the first is remembered until the watermark has reached its event time, so the
state does not grow for ever; the second one's windows are written when the first has handed on all of their rows.

python examples/unique_events.py
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "id long, ts timestamp, source string"


def events(spark: SparkSession, first: int, last: int) -> DataFrame:
    """One event a second; every third of them comes twice, from two sources."""
    once = spark.range(first, last).selectExpr("id", "timestamp_seconds(1700000000 + id) AS ts", "'a' AS source")
    return once.union(once.where("id % 3 = 0").withColumn("source", F.lit("b")))


def main() -> int:
    """Run it over both, and compare what was written with one batch over everything; returns the exit code."""
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        history, landing = f"{folder}/history", f"{folder}/landing"
        events(spark, 0, 3_000).write.parquet(history)
        events(spark, 2_990, 4_000).write.parquet(landing)
        unique = (
            mixedmode.read(history=spark.read.parquet(history), live=spark.readStream.schema(SCHEMA).parquet(landing))
            .withWatermark("ts", "1 minute")
            .dropDuplicates(["id", "ts"])
            .uid("unique")
        )
        by_minute = unique.groupBy(F.window("ts", "1 minute")).agg(F.count("*").alias("events")).uid("by-minute")
        writer = by_minute.writeStream.option("path", f"{folder}/out").option(
            "checkpointLocation", f"{folder}/checkpoints"
        )
        writer.explain()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

        written = spark.read.parquet(f"{folder}/out")
        # The windows of the last minutes are open: what comes next may belong to them.
        ended = (
            spark.range(4_000)
            .selectExpr("timestamp_seconds(1700000000 + id) AS ts")
            .groupBy(F.window("ts", "1 minute"))
            .agg(F.count("*").alias("events"))
            .where("window.end <= timestamp_seconds(1700003999 - 60)")
        )
        equal = sorted(written.collect()) == sorted(ended.collect())
        print(f"{'EQUAL' if equal else 'NOT EQUAL'} to one batch over everything: {written.count()} windows")
        seen = mixedmode.state_reader(f"{folder}/checkpoints").state("seen", operator="unique").count()
        print(f"{seen} keys are remembered")
    spark.stop()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
