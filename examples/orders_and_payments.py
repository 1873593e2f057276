"""Two inputs, one processor: an order waits for its payment, and an alert says when none has come within three days.

Orders have a year of history, payments another one, and both go on live.  At the end the outcomes are compared with
one plain Spark batch.

python examples/orders_and_payments.py
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

PATIENCE = timedelta(days=3)


def to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


class PaymentOfOrder(StatefulProcessor):
    """What becomes of each order; which of the two inputs is ahead makes no difference."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.order = handle.getValueState("order", "due timestamp, euros long")
        self.payment = handle.getValueState("payment", "paid timestamp")

    def handleInputRows(self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for order in left:
            self.order.update((order.ts + PATIENCE, order.euros))
            self.handle.registerTimer(to_ms(order.ts + PATIENCE))
        for payment in right:
            self.payment.update((payment.paid,))
            self.handle.registerTimer(to_ms(payment.paid + PATIENCE))  # by then its order has come, if there is one
        due, euros = self.order.get() or (None, None)
        (paid,) = self.payment.get() or (None,)
        if due and paid and paid < due:
            for state, timer in ((self.order, due), (self.payment, paid + PATIENCE)):
                state.clear()
                self.handle.deleteTimer(to_ms(timer))
            yield Row(id=key[0], outcome="paid", euros=euros)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        due, euros = self.order.get() or (None, None)
        (paid,) = self.payment.get() or (None,)
        now_ms = expiredTimerInfo.getExpiryTimeInMs()
        if due and to_ms(due) == now_ms:
            self.order.clear()
            yield Row(id=key[0], outcome="no payment", euros=euros)
        if paid and to_ms(paid + PATIENCE) == now_ms:
            self.payment.clear()


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
folder = tempfile.mkdtemp(prefix="orders-and-payments-")
orders = spark.range(10_000).selectExpr(
    "id", "timestamp '2025-01-01' + make_interval(0, 0, 0, 0, 0, id * 52) AS ts", "1 + id % 90 AS euros"
)
# Payments come at once or within two days, some after four days, and for every fiftieth order never.
payments = orders.where("id % 50 > 0").selectExpr(
    "id AS order_id",
    "ts + make_interval(0, 0, 0, IF(id % 20 = 0, 4, id % 3)) AS paid",
    "concat('bank-', id % 7) AS bank",
)


def read(name: str, rows: DataFrame, time: str) -> Any:
    """All up to December as history, and a landing zone."""
    rows.where(f"{time} < '2025-12-01'").write.parquet(f"{folder}/lake/{name}")
    os.makedirs(f"{folder}/landing/{name}")
    return mixedmode.read(
        history=spark.read.parquet(f"{folder}/lake/{name}"),
        live={name: spark.readStream.schema(rows.schema).parquet(f"{folder}/landing/{name}")},
    ).withWatermark(time, "1 hour")


query = (
    read("orders", orders, "ts")
    .groupBy("id")
    .cogroup(read("payments", payments, "paid").groupBy("order_id"))
    .transformWithState(PaymentOfOrder(), "id long, outcome string, euros long", "append", "eventTime")
    .uid("payments-of-orders")
    .writeStream.format("parquet")
    .option("path", f"{folder}/outcomes")
    .option("checkpointLocation", f"{folder}/checkpoints")
    .start()
)
if not query.wait_for("live", timeout=300):
    sys.exit(f"not live after five minutes: {query.exception() or query.status}")
# The last order brings the watermark past the days of patience of all others.
last = spark.sql("SELECT -1L AS id, timestamp '2027-01-01' AS ts, 0L AS euros")
orders.where("ts >= '2025-12-01'").union(last).write.mode("append").parquet(f"{folder}/landing/orders")
late = payments.where("paid >= '2025-12-01'")
late.union(last.selectExpr("-2L", "ts", "''")).write.mode("append").parquet(f"{folder}/landing/payments")
query.processAllAvailable()
query.processAllAvailable()  # the watermark of one epoch fires timers in the next
query.stop()

outcomes = spark.read.parquet(f"{folder}/outcomes")
outcomes.groupBy("outcome").agg(F.count("*").alias("orders"), F.sum("euros").alias("euros")).orderBy("outcome").show()
in_time = payments.withColumnRenamed("order_id", "id").join(orders, "id").where("paid < ts + INTERVAL 3 DAYS")
expected = orders.join(in_time.select("id", F.lit("paid").alias("outcome")), "id", "left").select(
    "id", F.coalesce("outcome", F.lit("no payment")), "euros"
)
equal = sorted(outcomes.collect()) == sorted(expected.collect())
print("EQUAL" if equal else "DIFFERENT", "to one batch over everything:", outcomes.count(), "orders")
spark.stop()
sys.exit(0 if equal else 1)
