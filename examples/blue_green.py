"""Blue and green: a new version of a job beside the old one, from its savepoint, until readers switch over.

The old job, blue, runs on a year's history and live orders. Green has another output column and twice the shards, a
location and an output of its own, and begins with a savepoint of blue: it does not read the history again. Both see
the orders that come next. When green has caught up, readers switch over by one rename, and blue is stopped. What
readers see behind the switch is what one batch over everything gives, and nothing is there twice.
"""

import os
import sys
import tempfile
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the Python of this program

import mixedmode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

KEY = ["customer", "window"]

spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
folder = tempfile.mkdtemp()
orders = spark.range(20_000).selectExpr(
    "concat('customer-', id % 20) AS customer",
    "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, id * 25) AS ts",
    "id % 90 AS amount",
)
orders.where("ts < '2025-10-01'").write.parquet(f"{folder}/lake")
os.mkdir(f"{folder}/landing")


def land(since: str, until: str) -> None:
    """Orders of some days arrive."""
    orders.where(f"ts >= '{since}' AND ts < '{until}'").coalesce(1).write.mode("append").parquet(f"{folder}/landing")


def weeks(source: Any) -> Any:
    """What customers have spent in each week: the keyed stage is the same in both versions."""
    by_week = source.groupBy("customer", F.window("ts", "7 days"))
    return by_week.agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))


def job(color: str) -> Any:
    """A version of the job, with its own location and output."""
    source = mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake"),
        live=spark.readStream.schema(orders.schema).parquet(f"{folder}/landing"),
    ).withWatermark("ts", "1 hour")
    spent = weeks(source).uid("weeks")  # names the state: green finds it under this name
    if color == "green":
        spent = spent.withColumn("mean", F.expr("spent / orders"))
    writer = spent.writeStream.queryName(color).format("parquet").option("path", f"{folder}/{color}")
    return writer.option("checkpointLocation", f"{folder}/checkpoints-{color}")


def switch_readers(color: str) -> None:
    """Readers open what ``current`` points to; a rename changes it for all of them at once."""
    os.symlink(f"{folder}/{color}", f"{folder}/next")
    os.replace(f"{folder}/next", f"{folder}/current")


def seen() -> DataFrame:
    """What readers see: the current version's rows, and what only the old one has shown, before the savepoint."""
    current, blue = spark.read.parquet(f"{folder}/current"), spark.read.parquet(f"{folder}/blue")
    return current.unionByName(blue.join(current, KEY, "left_anti"), allowMissingColumns=True)


blue = job("blue").start()
blue.wait_for("live", timeout=120)
switch_readers("blue")
land("2025-10-01", "2025-10-20")
blue.processAllAvailable()

savepoint = blue.savepoint(f"{folder}/savepoint")  # blue goes on
green = job("green").option("execution.savepoint.path", savepoint).option("pipeline.parallelism", 4).start()
assert green.wait_for("live", timeout=120), green.exception()
land("2025-10-20", "2025-11-05")
blue.processAllAvailable()  # both see what comes
green.processAllAvailable()

switch_readers("green")
blue.stop()
land("2025-11-05", "2026-01-01")
green.processAllAvailable()
green.stop()

rows = seen().select(*KEY, "spent", "orders")
last = rows.agg(F.max("window.end")).first()[0]
expected = weeks(orders).where(F.col("window.end") <= F.lit(last)).select(*KEY, "spent", "orders")
assert rows.count() == rows.select(KEY).distinct().count() == expected.count()
assert rows.exceptAll(expected).isEmpty() and expected.exceptAll(rows).isEmpty()
print(f"EQUAL to one batch over everything: {rows.count()} weeks of customers, readers switched once")
spark.stop()
