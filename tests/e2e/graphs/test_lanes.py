"""Jobs whose stages read different sources: orders and payments, each added up, and both together by the hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import Event, World

ORDERS = support.stream_of(300, seed=5)
PAYMENTS = support.stream_of(240, seed=6, step_s=50)
#: Brings both watermarks past everything.
LATER = [(support.FLUSH_KEY, max(ORDERS[-1][1], PAYMENTS[-1][1]) + 40_000, 0)]
#: What plain Spark has given, by what it was asked for.
_EXPECTED: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}


class Shop:
    """The sources of a job: payments have other columns, another event time and a landing zone of their own."""

    def __init__(self, world: World) -> None:
        self.orders = world
        self.payments = World(world.spark, world.folder / "payments")

    def of(self, orders: DataFrame | None, live: bool, payments: DataFrame | None, lives: bool) -> tuple[Any, Any]:
        """What is read: the histories, and whether the landing zones are read, too."""
        return (
            mixedmode.read(history=orders, live={"orders": self.orders.live()} if live else None),
            mixedmode.read(
                history=None if payments is None else as_payments(payments),
                live={"payments": as_payments(self.payments.live())} if lives else None,
            ),
        )

    def land(self, query: Any, orders: list[Event] = [], payments: list[Event] = []) -> None:  # noqa: B006
        """More rows, in one micro-batch if both are given."""
        for zone, events in ((self.orders, orders), (self.payments, payments)):
            if events:
                zone.land(events)
        query.processAllAvailable()

    def expected(
        self, orders: list[Event] = ORDERS, payments: list[Event] = PAYMENTS, job: Callable[..., Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """By plain Spark, computed once for the same rows and job."""
        asked = (job or by_hour, tuple(orders), tuple(payments))
        if asked not in _EXPECTED:
            frames = [
                self.orders.spark.createDataFrame([(k, support.at(at), v) for k, at, v in events], support.ROW_SCHEMA)
                for events in (orders, payments)
            ]
            _EXPECTED[asked] = sorted(map(tuple, asked[0](frames[0], as_payments(frames[1])).collect()), key=repr)
        return _EXPECTED[asked]


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def as_payments(frame: DataFrame) -> DataFrame:
    return frame.select((F.col("value") * 100).alias("cents"), F.col("ts").alias("paid"), F.col("key").alias("who"))


def named(rows: Any, uid: str) -> Any:
    return rows if isinstance(rows, DataFrame) else rows.uid(uid)


def by_hour(orders: Any, payments: Any) -> Any:
    """The job, on our frames and on Spark's."""
    placed = orders.withWatermark("ts", "0 seconds").groupBy("key", F.window("ts", "5 minutes"))
    paid = payments.withWatermark("paid", "2 minutes").groupBy("who", F.window("paid", "10 minutes"))
    totals = [
        named(rows.agg(F.sum(column).alias("total")), uid).select(F.lit(uid).alias("kind"), "window", "total")
        for rows, column, uid in ((placed, "value", "placed"), (paid, "cents", "paid"))
    ]
    both = totals[0].union(totals[1]).groupBy("kind", F.window(F.window_time("window"), "1 hour"))
    hours = named(both.agg(F.sum("total").alias("total"), F.count("*").alias("parts")), "hours")
    return hours.select("kind", F.col("window.start").alias("hour"), "total", "parts")


def of_events(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Without the hours that only the last rows are in."""
    return [row for row in rows if row[1] < support.at(LATER[0][1] - 3600)]


def nothing_is_late(query: Any) -> bool:
    return not any(one["numRowsDroppedByWatermark"] for p in query.recentProgress for one in p["stateOperators"])


@pytest.mark.parametrize("mode", ["mixed", "batch"])
def test_bounded_sources_give_what_batch_gives(shop: Shop, mode: str) -> None:
    """History only: each stage reads the files of its own sources.  (Cut into epochs, in each stage's own event-time
    order: ``test_a_bounded_lane_ends_before_the_others``.)"""
    sources = shop.of(shop.orders.history(ORDERS), False, shop.payments.history(PAYMENTS), False)
    query = shop.orders.start(by_hour(*sources), {"execution.runtime-mode": mode})
    assert query.awaitTermination(300), query.status
    assert shop.orders.output() == shop.expected()
    assert nothing_is_late(query)
    read = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(read) == len(ORDERS) + len(PAYMENTS)
    assert len(read) == 1


@pytest.mark.slow
def test_a_job_of_two_lanes_goes_from_backlog_to_stream(shop: Shop) -> None:
    """Orders have a history, payments only what waits; then rows come to both, or to one alone, and the job starts
    again in between.  A micro-batch is one epoch of all stages, and nothing is late."""
    orders, payments = support.parts_of(ORDERS, 6), support.parts_of(PAYMENTS, 4)
    history = shop.orders.history(orders[0] + orders[1])
    shop.orders.land(orders[2])
    shop.payments.land(payments[0], payments[1])
    job = by_hour(*shop.of(history, True, None, True))
    query = shop.orders.start(job)
    query.processAllAvailable()
    assert query.wait_for("live", 300)
    assert len(query.recentProgress) == 1
    assert query.lastProgress["numInputRows"] == len(orders[0]) * 3 + len(payments[0]) * 2
    shop.land(query, orders=orders[3])
    shop.land(query, payments=payments[2])
    read = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert read[1:] == [len(orders[3]), len(payments[2])]
    assert [one["description"] for one in query.lastProgress["sources"]] == ["history", "orders", "payments"]
    seen = [one["eventTime"]["max"] for one in query.lastProgress["sources"][1:]]
    lasts = [support.at(part[-1][1]).strftime("%Y-%m-%dT%H:%M:%S.000Z") for part in (orders[3], payments[2])]
    assert seen == lasts
    assert nothing_is_late(query)
    query.stop()
    query = support.live(shop.orders.start(job))
    shop.land(query, orders=orders[4], payments=payments[3])
    shop.land(query, orders=orders[5])
    before = shop.orders.output()
    shop.land(query, orders=LATER)
    assert shop.orders.output() == before, "payments hold the hours back"
    shop.land(query, payments=LATER)
    assert nothing_is_late(query)
    query.stop()
    assert of_events(shop.orders.output()) == shop.expected()


@pytest.mark.slow
def test_the_stream_is_what_stock_gives(shop: Shop) -> None:
    """Live sources alone, with AvailableNow: the same hours as Spark's own stream of the same job."""
    shop.orders.land(*support.parts_of(ORDERS, 3), LATER)
    shop.payments.land(*support.parts_of(PAYMENTS, 3), LATER)
    query = shop.orders.start(by_hour(*shop.of(None, True, None, True)), availableNow=True)
    assert query.awaitTermination(300), query.status
    stock = by_hour(shop.orders.live(), as_payments(shop.payments.live()))
    writer = stock.writeStream.format("memory").queryName("stock_hours").trigger(availableNow=True)
    with support.one_partition(shop.orders.spark):
        writer.option("checkpointLocation", str(shop.orders.folder / "stock")).start().awaitTermination(300)
    found = sorted(map(tuple, shop.orders.spark.table("stock_hours").collect()), key=repr)
    assert of_events(shop.orders.output()) == of_events(found) == shop.expected()


@pytest.mark.slow
def test_a_failure_in_the_backlog_keeps_the_finished_shards_of_all_lanes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that follows computes no shard of either reader again; when files of one lane change, all of them."""
    failures = EpochFailures(monkeypatch, "epoch-between-stages")
    bounded = shop.payments.history(PAYMENTS[:200])
    shop.payments.land(PAYMENTS[200:])
    orders = shop.orders.history(ORDERS)
    for expected in ([], ["2 of 2 shards were finished"] * 2):
        query = shop.orders.start(by_hour(*shop.of(orders, True, bounded, True)))
        with pytest.raises(mixedmode.QueryError, match="failed at epoch-between-stages"):
            query.awaitTermination(300)
        assert support.details(query, "reused") == expected
    support.write(Path(shop.payments.folder / "history.parquet"), PAYMENTS[:199])
    bounded = shop.payments.history(PAYMENTS[:199])
    failures.point = None
    query = shop.orders.start(by_hour(*shop.of(orders, True, bounded, True)))
    query.processAllAvailable()
    assert support.details(query, "reused") == []
    shop.land(query, orders=LATER, payments=LATER)
    query.stop()
    assert of_events(shop.orders.output()) == shop.expected(payments=PAYMENTS[:199] + PAYMENTS[200:])


@pytest.mark.slow
def test_a_drain_and_a_savepoint_hold_all_lanes(shop: Shop) -> None:
    """A drain fires what is left in each; a job that begins with a savepoint goes on in each."""
    shop.payments.land(PAYMENTS[:120])
    query = shop.orders.start(by_hour(*shop.of(shop.orders.history(ORDERS[:150]), True, None, True)))
    query.processAllAvailable()
    savepoint = query.savepoint(str(shop.orders.folder / "sp"))
    known = shop.orders.output()
    query.stopWithSavepoint(str(shop.orders.folder / "drained"), drain=True)
    assert shop.orders.output() == shop.expected(ORDERS[:150], PAYMENTS[:120])

    again = World(shop.orders.spark, shop.orders.folder / "again")
    shop.orders.land(ORDERS[150:], LATER)
    shop.payments.land(PAYMENTS[120:], LATER)
    job = by_hour(*shop.of(None, True, None, True))
    query = again.start(job, {"execution.savepoint.path": savepoint, "pipeline.parallelism": 3})
    support.finish(query)
    assert of_events(sorted(known + again.output(), key=repr)) == shop.expected()


@pytest.mark.slow
def test_an_epoch_is_sorted_if_all_lanes_are_in_backlog(shop: Shop) -> None:
    """With both lanes in backlog all stages run sorted; one keeps the job isBacklog, yet they run as a stream (X10)."""
    now_s = int(time.time() - support.START.timestamp())
    options = {"execution.checkpointing.interval": "1 hour", "pipeline.backlog.watermark-lag-threshold": "3 hours"}
    query = support.live(shop.orders.start(by_hour(*shop.of(None, True, None, True)), options))
    for lagging in ({"orders", "payments"}, {"orders"}):
        rows = {name: [("x", now_s - 9 * 3600 if name in lagging else now_s, 1)] for name in ("orders", "payments")}
        shop.land(query, **rows)
        shop.land(query, **rows)
        assert query.lastProgress["isBacklog"]
        assert query.lastProgress["mode"] == ("backlog" if len(lagging) == 2 else "streaming")
        assert {one["description"] for one in query.lastProgress["sources"] if one["isBacklog"]} == lagging


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["mixed", "streaming"])
def test_a_bounded_lane_ends_before_the_others(shop: Shop, mode: str) -> None:
    """Payments have a history alone: their stage fires all and finishes at the switch, once, in mode ``mixed`` also
    over a restart and a stop with savepoint, and holds the hours back no more."""
    options = {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": 150}
    job = by_hour(*shop.of(shop.orders.history(ORDERS[:150]), True, shop.payments.history(PAYMENTS), False))
    query = support.live(shop.orders.start(job, options))
    read = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(read) == 150 + len(PAYMENTS) and len(read) == (3 if mode == "streaming" else 1)
    ended = [one.task for one in query.lifecycle.tasks if one.event == "endInput, finish"]
    assert ended == ["source history[0]", "stage paid[0]", "stage paid[1]"]
    shop.land(query, orders=ORDERS[150:200])
    if mode == "mixed":
        query.stopWithSavepoint(str(shop.orders.folder / "suspended"))
        query = support.live(shop.orders.start(job, options))
    shop.land(query, orders=ORDERS[200:])
    shop.land(query, orders=LATER)
    assert nothing_is_late(query)
    ended = [one.task for one in query.lifecycle.tasks if one.event == "endInput, finish"]
    assert len(ended) == (0 if mode == "mixed" else 3), "once"
    query.stop()
    assert of_events(shop.orders.output()) == shop.expected()


@pytest.mark.slow
def test_a_stage_may_read_what_others_read_and_more(shop: Shop) -> None:
    """Orders go to two stages, to one of them beside payments: each stage's watermark is of the inputs that it reads,
    with delays of its own."""
    orders, payments = shop.of(None, True, None, True)
    timed = orders.withWatermark("ts", "1 minute")
    placed = named(timed.groupBy(F.window("ts", "5 minutes")).agg(F.count("*").alias("n")), "placed")
    renamed = payments.select(F.col("who").alias("key"), F.col("paid").alias("ts"), F.col("cents").alias("value"))
    moved = timed.withWatermark("ts", "0 seconds").where("value >= 0").union(renamed.withWatermark("ts", "2 minutes"))
    events = named(moved.groupBy(F.window("ts", "10 minutes")).agg(F.count("*").alias("n")), "events")
    kinds = [rows.select(F.lit(name).alias("kind"), "window", "n") for name, rows in (("a", placed), ("b", events))]
    both = kinds[0].union(kinds[1]).groupBy("kind", F.window(F.window_time("window"), "1 hour"))
    job = named(both.agg(F.sum("n").alias("n")), "hours").select("kind", F.col("window.start").alias("hour"), "n")

    plan = job.writeStream.format("noop").plan()
    assert [stage.reads for stage in plan.stages] == [("orders",), ("orders", "payments"), ("placed", "events")]
    drawn = " ".join(plan.explain().split())
    assert "[placed] greatest ts seen - 1 min" in drawn
    assert "[events] greatest ts seen; the least of the live inputs' own (orders - 0, payments - 2 min;" in drawn

    query = shop.orders.start(job)
    shop.land(query, orders=ORDERS[:150], payments=PAYMENTS[:100])
    shop.land(query, orders=ORDERS[150:])
    shop.land(query, payments=PAYMENTS[100:])
    shop.land(query, orders=LATER, payments=LATER)
    assert nothing_is_late(query)
    query.stop()
    counted: dict[tuple[str, Any], int] = {}
    for kind, seconds in [*(("a", e[1]) for e in ORDERS), *(("b", e[1]) for e in [*ORDERS, *PAYMENTS])]:
        hour = support.at(seconds // 3600 * 3600)
        counted[kind, hour] = counted.get((kind, hour), 0) + 1
    assert of_events(shop.orders.output()) == sorted(((*key, n) for key, n in counted.items()), key=repr)


def beside(orders: Any, payments: Any) -> Any:
    """Orders of 5 minutes, added up, and single payments, together by the hour; on our frames and on Spark's."""
    placed = orders.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "5 minutes").alias("w"))
    sums = named(placed.agg(F.sum("value").alias("total")), "placed")
    ended = sums.select(F.lit("placed").alias("kind"), F.window_time("w").alias("at"), "total")
    paid = payments.withWatermark("paid", "2 minutes")
    single = paid.select(F.lit("paid").alias("kind"), F.col("paid").alias("at"), F.col("cents").alias("total"))
    hours = ended.union(single).groupBy("kind", F.window("at", "1 hour"))
    totals = named(hours.agg(F.sum("total").alias("total"), F.count("*").alias("parts")), "hours")
    return totals.select("kind", F.col("window.start").alias("hour"), "total", "parts")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "bounded"), [("mixed", False), ("streaming", True)])
def test_a_stage_takes_rows_of_another_and_of_a_source(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: str, bounded: bool
) -> None:
    """Its watermark is the least of both; nothing of either is late, in the backlog and in the stream, over a restart,
    and over a failure in the backlog whose finished shards are taken over.  (A source that is a history alone, sorted:
    the last test here.)"""
    failures = EpochFailures(monkeypatch, "epoch-before-apply" if mode == "mixed" else None)
    options = {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": 150}
    history = [shop.orders.history(ORDERS if bounded else ORDERS[:100]), shop.payments.history(PAYMENTS[:100])]
    shop.payments.land(PAYMENTS[100:150])
    job = beside(*shop.of(history[0], not bounded, history[1], True))
    query = shop.orders.start(job, options)
    if failures.point is not None:
        with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
            query.awaitTermination(300)
        failures.point = None
        query = support.live(shop.orders.start(job, options))
        assert support.details(query, "reused") == ["2 of 2 shards were finished"] * 2
    support.live(query)
    for orders, payments in ((ORDERS[100:200], PAYMENTS[150:190]), (ORDERS[200:], []), ([], PAYMENTS[190:])):
        shop.land(query, orders=[] if bounded else orders, payments=payments)
        if not orders:
            assert nothing_is_late(query)
            query.stop()
            query = support.live(shop.orders.start(job, options))
    if not bounded:
        shop.land(query, orders=LATER)
        assert of_events(shop.orders.output()) != shop.expected(job=beside), "payments hold the hours back"
    shop.land(query, payments=LATER)
    assert nothing_is_late(query)
    query.stop()
    assert of_events(shop.orders.output()) == shop.expected(job=beside)


def test_what_lanes_cannot_be_is_refused(shop: Shop) -> None:
    """One name for two live inputs, or for a live input and a stage."""
    orders = mixedmode.read(live={"orders": shop.orders.live()})
    twice = mixedmode.read(live={"orders": as_payments(shop.payments.live())})
    with pytest.raises(mixedmode.PlanError, match="two live inputs are called 'orders'"):
        by_hour(orders, twice).writeStream.format("noop").plan()
    alike = mixedmode.read(live={"paid": as_payments(shop.payments.live())})
    with pytest.raises(mixedmode.PlanError, match="a keyed stage and a live input are both called 'paid'"):
        by_hour(orders, alike).writeStream.format("noop").plan()


@pytest.mark.slow
def test_a_history_beside_an_earlier_stages_rows_holds_nothing_back(shop: Shop) -> None:
    """Payments have a history alone and go into the stage behind that of the orders: none is late, and the hours go on
    with the orders."""
    job = beside(*shop.of(shop.orders.history(ORDERS[:200]), True, shop.payments.history(PAYMENTS), False))
    query = support.live(shop.orders.start(job))
    shop.land(query, orders=ORDERS[200:])
    shop.land(query, orders=LATER)
    shop.land(query, orders=[(support.FLUSH_KEY, LATER[0][1] + 40_000, 0)])
    assert nothing_is_late(query)
    query.stop()
    assert of_events(shop.orders.output()) == shop.expected(job=beside)
