"""The example of the README, with data that it makes itself: orders per customer, first a year, then live.

python examples/quickstart.py
"""

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
folder = tempfile.mkdtemp(prefix="quickstart-")
orders = spark.range(100_000).selectExpr(
    "concat('customer-', id % 50) AS customer",
    "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, id * 5) AS ts",
    "cast(id % 90 AS double) AS amount",
)
orders.where("ts < '2025-12-01'").write.parquet(f"{folder}/lake")
december = orders.where("ts >= '2025-12-01'")
os.makedirs(f"{folder}/landing")

query = (
    mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake"),
        live=spark.readStream.schema(orders.schema).parquet(f"{folder}/landing"),
    )
    .withWatermark("ts", "1 hour")
    .groupBy("customer", F.window("ts", "7 days"))
    .agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))
    .uid("spending")
    .writeStream.format("parquet")
    .option("path", f"{folder}/spending")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .option("execution.backlog.final-watermark", "observed")
    .start()
)
query.explain()

if not query.wait_for("live", timeout=120):  # the history is done; from here on what lands is live
    sys.exit(f"not live after two minutes: {query.exception() or query.status}")
december.write.mode("append").parquet(f"{folder}/landing")
query.processAllAvailable()
for progress in query.recentProgress:
    print(progress.phase, progress.numInputRows, "rows in", progress.batchDuration, "ms")
query.stop()
spark.read.parquet(f"{folder}/spending").orderBy("window", "customer").show(5, truncate=False)
spark.stop()
