"""A user's job with types, as ``mypy --strict`` and ``pyright``  are to find nothing in it.

Not run: ``make lint`` has mypy read it, ``test_types.py`` pyright.  A line with an ignore is one that has to be an
error: both tell an ignore that is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import mixedmode
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues


class Quiet(mixedmode.StatefulProcessor):
    """Tells customers who have been quiet for an hour."""

    def init(self, handle: mixedmode.ProcessorHandle) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "at long")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        last = max(int(row["ts"].timestamp()) for row in rows)
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(last * 1000 + 3_600_000)
        self.seen.update((last,))
        if self.handle.coordinator.isBacklog:
            self.handle.coordinator.send({"customer": key[0]})
            self.handle.coordinator.sned("x")  # type: ignore[attr-defined]  # pyright: ignore
        yield from ()

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        yield Row(customer=key[0], since=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        pass


class Counter(mixedmode.OperatorCoordinator):
    """Counts what the shards tell."""

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        self.context = context
        self.count = 0

    def handleEventFromSubtask(self, shard: int, event: Any) -> None:
        self.count += 1
        self.context.broadcast({"count": self.count})
        self.context.gateway(shard).send("thanks")


def merge(rows: DataFrame, number: int) -> None:
    rows.write.format("noop").mode("append").save()
    print(number)


def main(spark: SparkSession) -> None:
    orders = mixedmode.read(history=spark.read.parquet("lake"), live=spark.readStream.parquet("landing"))
    spending = (
        orders.withWatermark("ts", "1 hour")
        .where(F.col("amount") > 0)
        .groupBy("customer", F.window("ts", "7 days"))
        .agg(F.sum("amount").alias("spent"))
        .uid("spending")
    )
    query = (
        spending.writeStream.queryName("spending")
        .format("parquet")
        .option("path", "out")
        .option("checkpointLocation", "checkpoints")
        .trigger(processingTime="5 seconds")
        .start()
    )
    live: bool = query.wait_for("live", timeout=60)
    progress = query.lastProgress
    if live and progress is not None:
        rows: int = progress.numInputRows
        phase: str = progress.phase
        lag: int | None = progress.watermarkLagMs
        slowest: int = max(progress.durationMs.values())
        print(rows, phase, lag, slowest, progress.checkpoint)
        progress.numInputRow  # type: ignore[attr-defined]  # pyright: ignore  # noqa: B018
    path: str = query.savepoint("sp/1")
    failure: mixedmode.QueryError | None = query.exception()
    if failure is not None:
        code: str = failure.code
        print(code, path)
    query.explain()
    query.stopp()  # type: ignore[attr-defined]  # pyright: ignore
    query.stop()

    quiet = orders.withWatermark("ts", "1 hour").groupBy("customer")
    alerts = quiet.transformWithState(
        Quiet(), "customer string, since long", "append", "eventTime", coordinator=Counter()
    )
    alerts.dropDuplicates(["customer"]).writeStream.foreachBatch(merge).start()
    plan: mixedmode.ExecutionPlan = alerts.writeStream.plan()
    print(plan.model_dump_json())
    orders.groupBy("customer").agggg(F.sum("x"))  # type: ignore[attr-defined]  # pyright: ignore
    alerts.wher("x")  # type: ignore[operator]  # pyright: ignore
    alerts.writeStream.fromat("x")  # type: ignore[attr-defined]  # pyright: ignore
    mixedmode.raed()  # type: ignore[attr-defined]  # pyright: ignore
    try:
        reader: mixedmode.StateReader = mixedmode.state_reader("checkpoints", spark)
        found: DataFrame = reader.state("seen")
        found.where(F.col("at") > datetime.now().timestamp()).show()
    except (mixedmode.CheckpointError, mixedmode.OptionError) as error:
        print(error.code)
