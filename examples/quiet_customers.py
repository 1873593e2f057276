"""A processor of your own: who has ordered nothing for 30 days, in a year of history and then live.

At the end the alerts are compared with one plain Spark batch.

python examples/quiet_customers.py
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.window import Window

QUIET = timedelta(days=30)


def alarm_ms(last: datetime) -> int:
    """When somebody whose last order is this has been quiet for long."""
    return int((last + QUIET).timestamp() * 1000)


class QuietCustomers(StatefulProcessor):
    """One row each time a customer has ordered nothing for 30 days.

    The timer alone says so: it fires between two orders, in the history as in the stream (``pipeline.timers``).
    """

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "last timestamp, orders long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        last, orders = self.seen.get() or (None, 0)
        if last is not None:
            self.handle.deleteTimer(alarm_ms(last))
        for row in rows:
            last, orders = row.ts, orders + 1
        self.seen.update((last, orders))
        self.handle.registerTimer(alarm_ms(last))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        last, orders = self.seen.get()
        yield Row(customer=key[0], since=last, orders=orders)


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
folder = tempfile.mkdtemp(prefix="quiet-customers-")
orders = spark.range(105_000).selectExpr(
    "concat('customer-', id % 50) AS customer", "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, id * 5) AS ts"
)
# Ten customers stay away in March, which is history, and in December, which comes live.
orders = orders.where("substr(customer, 10) < 40 OR month(ts) NOT IN (3, 12)")
orders.where("ts < '2025-12-01'").write.parquet(f"{folder}/lake")
os.makedirs(f"{folder}/landing")

query = (
    mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake"),
        live=spark.readStream.schema(orders.schema).parquet(f"{folder}/landing"),
    )
    .withWatermark("ts", "1 hour")
    .groupBy("customer")
    .transformWithState(QuietCustomers(), "customer string, since timestamp, orders long", "append", "eventTime")
    .uid("quiet-customers")
    .writeStream.format("parquet")
    .option("path", f"{folder}/alerts")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .start()
)
if not query.wait_for("live", timeout=300):
    sys.exit(f"not live after five minutes: {query.exception() or query.status}")
orders.where("ts >= '2025-12-01'").write.mode("append").parquet(f"{folder}/landing")
query.processAllAvailable()
query.processAllAvailable()  # the watermark of one epoch fires timers in the next
query.stop()

alerts = spark.read.parquet(f"{folder}/alerts")
alerts.groupBy(F.trunc("since", "month").alias("quiet since")).count().orderBy("quiet since").show()
by_customer = Window.partitionBy("customer").orderBy("ts")
until = F.coalesce(F.lead("ts").over(by_customer), F.lit("2026-01-01").cast("timestamp"))
expected = orders.select("customer", F.col("ts").alias("since"), until.alias("until"), F.row_number().over(by_customer))
expected = expected.where("until > since + INTERVAL 30 DAYS").drop("until")
equal = sorted(alerts.collect()) == sorted(expected.collect())
print("EQUAL" if equal else "DIFFERENT", "to one batch over everything:", alerts.count(), "alerts")
spark.stop()
sys.exit(0 if equal else 1)
