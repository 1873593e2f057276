"""The example of the README: what customers spend each week, eleven months of history first, then live rows."""

import os
import tempfile

import mixedmode
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[2]").getOrCreate()
folder = tempfile.mkdtemp()
orders = spark.range(100_000).selectExpr(
    "concat('customer-', id % 50) AS customer",
    "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, id * 5) AS ts",
    "id % 90 AS amount",
)
orders.where("ts < '2025-12-01'").write.parquet(f"{folder}/lake")
os.mkdir(f"{folder}/landing")

query = (
    mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake"),
        live=spark.readStream.schema(orders.schema).parquet(f"{folder}/landing"),
    )
    .withWatermark("ts", "1 hour")
    .groupBy("customer", F.window("ts", "7 days"))
    .agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))
    .writeStream.queryName("spending")
    .format("memory")
    .start()
)
query.wait_for("live", timeout=120)  # the history is processed, and its closed weeks are in the output
orders.where("ts >= '2025-12-01'").write.mode("append").parquet(f"{folder}/landing")
query.processAllAvailable()
for epoch in query.recentProgress:
    print(epoch.phase, epoch.numInputRows, "rows in", epoch.batchDuration, "ms")
query.stop()
spark.table("spending").orderBy("window", "customer").show(5, truncate=False)
spark.stop()
