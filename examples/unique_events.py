"""Events that are sent more than once, each taken once: over a history, and then over what goes on coming.

A key is remembered until the watermark has reached its event time, so the state does not grow for ever.

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


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        history, landing = f"{folder}/history", f"{folder}/landing"
        events(spark, 0, 3_000).write.parquet(history)
        events(spark, 2_990, 4_000).write.parquet(landing)
        unique = (
            mixedmode.read(history=spark.read.parquet(history), live=spark.readStream.schema(SCHEMA).parquet(landing))
            .withWatermark("ts", "1 minute")
            .dropDuplicates(["id", "ts"])
        )
        writer = unique.writeStream.option("path", f"{folder}/out").option(
            "checkpointLocation", f"{folder}/checkpoints"
        )
        writer.explain()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = spark.read.parquet(f"{folder}/out")
        print(f"{rows.count()} rows, {rows.select('id').distinct().count()} ids")
        print(f"{mixedmode.state_reader(f'{folder}/checkpoints').state('seen').count()} keys are remembered")
    spark.stop()


if __name__ == "__main__":
    main()
