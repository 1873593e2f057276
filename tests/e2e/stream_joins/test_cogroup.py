"""One processor over two inputs, on Spark: orders wait for their payments, each with sources of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import Event, World

support.by_value(__name__)

PATIENCE_S = 300
RESULT = "id string, outcome string, value long, cents long"


def as_payments(frame: DataFrame) -> DataFrame:
    return frame.select((F.col("value") * 100).alias("cents"), F.col("ts").alias("paid"), F.col("key").alias("order"))


def shop() -> tuple[list[Event], list[Event]]:
    """Orders, one of a key, and payments for most of them: in time, too late, or before the order; in order of time."""
    chance, now_s, orders, payments = random.Random(11), 1000, [], []
    for number in range(240):
        now_s += chance.randrange(40)
        key = None if number == 120 else f"o{number}"
        orders.append((key, now_s, number))
        if number % 4:
            payments.append((key, now_s + chance.randrange(-20, 500), number))
    return orders, sorted(payments, key=lambda event: event[1])


ORDERS, PAYMENTS = shop()
#: Bring both watermarks past everything.
LAST_S = max(ORDERS[-1][1], PAYMENTS[-1][1]) + 1000
LATER = {"orders": [(support.FLUSH_KEY, LAST_S, 1)], "payments": [("other", LAST_S, 1)]}


class Payment(StatefulProcessor):
    """Whether an order is paid in time; a timer tells that it is not."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._order = handle.getValueState("order", "due long, value long")
        self._payment = handle.getValueState("payment", "at long, cents long")

    def handleInputRows(
        self, key: Any, left: Iterator[Any], right: Iterator[Any], timerValues: Any
    ) -> Iterator[tuple[Any, ...]]:
        for row in right:
            self._payment.update((_ms(row.paid), row.cents))
        for row in left:
            self._order.update((_ms(row.ts) + PATIENCE_S * 1000, row.value))
            self._handle.registerTimer(_ms(row.ts) + PATIENCE_S * 1000)
        order, payment = self._order.get(), self._payment.get()
        if order is not None and payment is not None and payment[0] < order[0]:
            self._handle.deleteTimer(order[0])
            self._order.clear()
            yield key[0], "paid", order[1], payment[1]

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        (_, value) = self._order.get()
        self._order.clear()
        yield key[0], "unpaid", value, None


def _ms(time: Any) -> int:
    return support.at_ms((time - support.at(0)).total_seconds())


def outcomes(key: Any, orders: Any, payments: Any) -> Any:
    """The same of all rows of a key, for Spark's own cogroup."""
    import pandas as pd

    rows = []
    for order in orders.itertuples():
        paid = payments[payments.paid < order.ts + pd.Timedelta(seconds=PATIENCE_S)]
        rows.append((key[0], "paid" if len(paid) else "unpaid", order.value, paid.cents.max() if len(paid) else None))
    return pd.DataFrame(rows, columns=["id", "outcome", "value", "cents"])


class Shop:
    """The sources of the job; each side has a landing zone."""

    def __init__(self, world: World) -> None:
        self.zones = {"orders": world, "payments": World(world.spark, world.folder / "payments")}
        self.world = world

    def job(self, history: DataFrame | None) -> Any:
        orders = mixedmode.read(history=history, live={"orders": self.world.live()}).withWatermark("ts", "1 second")
        live = {"payments": as_payments(self.zones["payments"].live())}
        payments = mixedmode.read(live=live).withWatermark("paid", "2 minutes")
        both = orders.groupBy("key").cogroup(payments.groupBy("order"))
        return both.transformWithState(Payment(), RESULT, "append", "eventTime").uid("payments-of-orders")

    def land(self, query: Any, **events: list[Event]) -> None:
        for name, some in events.items():
            self.zones[name].land(some)
        query.processAllAvailable()

    def expected(self) -> list[tuple[Any, ...]]:
        """By Spark's cogroup, on all rows."""
        spark = self.world.spark
        orders, payments = (
            spark.createDataFrame([(key, support.at(at), value) for key, at, value in events], support.ROW_SCHEMA)
            for events in (ORDERS, PAYMENTS)
        )
        both = orders.groupBy("key").cogroup(as_payments(payments).groupBy("order"))
        return sorted(map(tuple, both.applyInPandas(outcomes, RESULT).collect()), key=repr)


def test_two_inputs_over_the_switch(world: World) -> None:
    """One side has a history, both have rows that wait and rows that come later: what Spark's own cogroup gives."""
    shop = Shop(world)
    world.land(ORDERS[100:130])
    shop.zones["payments"].land(PAYMENTS[:60])
    query = support.live(world.start(shop.job(world.history(ORDERS[:100]))))
    assert query.lastProgress["numInputRows"] == 190
    shop.land(query, orders=ORDERS[130:], payments=PAYMENTS[60:])
    shop.land(query, **LATER)
    query.stop()
    assert sorted(world.output(), key=repr) == shop.expected()


@pytest.mark.slow
def test_two_inputs_go_from_backlog_to_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One side has a history, both have rows that wait and rows that come later; a failure in the backlog whose
    finished shards are taken over, a restart and a savepoint with other shards lie between.  It gives what Spark's own
    cogroup gives of all rows.  Late rows are told by side, and the state is read as of any processor."""
    shop, failures = Shop(world), EpochFailures(monkeypatch, "epoch-before-apply")
    options = {"pipeline.late-data.path": str(world.folder / "late")}
    job = shop.job(world.history(ORDERS[:100]))
    world.land(ORDERS[100:130])
    shop.zones["payments"].land(PAYMENTS[:60])
    query = world.start(job, options)
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
        query.awaitTermination(300)
    failures.point = None
    query = support.live(world.start(job, options))
    assert support.details(query, "reused") == ["2 of 2 shards were finished"]
    assert query.lastProgress["numInputRows"] == 190
    shop.land(query, orders=ORDERS[130:150], payments=PAYMENTS[60:110])
    query.stop()
    query = support.live(world.start(job, options))
    shop.land(query, orders=ORDERS[150:200])
    savepoint = query.savepoint(str(world.folder / "savepoint"))
    query.stop()
    known = world.output()

    waiting = {row.key.key for row in mixedmode.state_reader(savepoint, world.spark).state("order").collect()}
    assert waiting and waiting.isdisjoint({row[0] for row in known})

    world.out = world.folder / "out-again"
    world.checkpoints = world.folder / "checkpoints-again"
    query = world.start(shop.job(None), {**options, "execution.savepoint.path": savepoint, "pipeline.parallelism": 3})
    shop.land(query, payments=PAYMENTS[110:])
    shop.land(query, orders=ORDERS[200:])
    shop.land(query, **LATER)
    query.processAllAvailable()
    assert sorted(known + world.output(), key=repr) == shop.expected()
    shop.land(query, orders=[("late", 2000, 7)], payments=[("late", 2100, 8), ("new", LAST_S, 9)])
    query.stop()
    late = [(row.side, row.left and row.left.value, row.right and row.right.cents) for row in query.lateRows.collect()]
    assert sorted(late) == [("left", 7, None), ("right", None, 800)]
