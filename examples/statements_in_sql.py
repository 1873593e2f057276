"""A job in SQL: orders meet their payments, and a second statement counts what was paid in each hour.

The statements read temporary views, as they would over ``spark.readStream``: only the lines that read have changed.  At
the end the result is compared with the same statements over plain tables.

python examples/statements_in_sql.py
"""

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import DataFrame, SparkSession

PAID = """
    CREATE OR REPLACE TEMP VIEW paid AS
    SELECT o.id, o.ts, o.euros, b.country
    FROM orders o
    JOIN payments p ON o.id = p.order_id AND p.paid BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR
    JOIN banks b ON b.bank = p.bank
"""
HOURS = """
    SELECT window(ts, '1 hour').start AS hour, country, count(*) AS orders, sum(euros) AS euros
    FROM paid
    WHERE euros >= :least
    GROUP BY window(ts, '1 hour'), country
    HAVING orders > 1
"""

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
folder = tempfile.mkdtemp(prefix="statements-in-sql-")
start = "timestamp '2025-01-01'"
tables: dict[str, DataFrame] = {
    "orders": spark.range(9_000).selectExpr(
        "id", f"{start} + make_interval(0, 0, 0, 0, 0, id * 4) AS ts", "1 + id % 90 AS euros"
    ),
    "payments": spark.range(9_000).selectExpr(
        "id AS order_id",
        f"{start} + make_interval(0, 0, 0, 0, 0, id * 4 + 9) AS paid",
        "concat('bank-', id % 3) AS bank",
    ),
}
times = {"orders": "ts", "payments": "paid"}
spark.createDataFrame([("bank-0", "AT"), ("bank-1", "FR")], "bank string, country string").createOrReplaceTempView(
    "banks"
)

for name, rows in tables.items():
    rows.where(f"{times[name]} < {start} + INTERVAL 20 DAYS").write.parquet(f"{folder}/lake/{name}")
    os.mkdir(f"{folder}/{name}")
    frame = mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake/{name}"),
        live=spark.readStream.schema(rows.schema).parquet(f"{folder}/{name}"),
    )
    frame.withWatermark(times[name], "1 minute").createOrReplaceTempView(name)

spark.sql(PAID)
query = (
    spark.sql(HOURS, {"least": 10})
    .writeStream.format("parquet")
    .option("path", f"{folder}/hours")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .start()
)
query.wait_for("live", timeout=300)
for name, rows in tables.items():
    rows.where(f"{times[name]} >= {start} + INTERVAL 20 DAYS").write.mode("append").parquet(f"{folder}/{name}")
query.processAllAvailable()
query.stop()

for name, rows in tables.items():
    rows.createOrReplaceTempView(name)
spark.sql(PAID)
expected = spark.sql(HOURS, {"least": 10})
found = spark.read.parquet(f"{folder}/hours")
found.orderBy("hour", "country").show(4)
# The last hour is open for as long as the stream may bring rows of it.
closed = expected.where(f"hour < {start} + INTERVAL 24 DAYS")
left_out, too_many = closed.exceptAll(found).count(), found.exceptAll(expected).count()
print(
    f"EQUAL to the same statements over tables: {found.count()} rows"
    if not left_out + too_many
    else f"DIFFERENT: {left_out} rows are missing, {too_many} are too many"
)
spark.stop()
sys.exit(1 if left_out + too_many else 0)
