"""A unit test of a processor: its rows, timers and state in this process, and its whole job once in Spark.

All tests but the last one need no Spark: they take milliseconds. Run it as any test, `pytest test_my_processor.py`, or:

python examples/test_my_processor.py
"""

import os
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from mixedmode.testing import Harness, run_job
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

SCHEMA = "customer string, ts timestamp, amount long"
RESULT = "customer string, orders long, total long"
PAUSE = timedelta(minutes=30)


# -- what is tested: it would be in a module of its own ----------------------------------------------------------------


class Visits(StatefulProcessor):
    """One row for each visit of a customer: it is over when nothing was ordered for 30 minutes."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.visit = handle.getValueState("visit", "until timestamp, orders long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            until, orders, total = self.visit.get() or (None, 0, 0)
            if row.amount < 0:
                raise ValueError(f"{key[0]} has ordered for {row.amount}")
            if until is not None:
                self.handle.deleteTimer(int(until.timestamp() * 1000))
            until = max(until or row.ts + PAUSE, row.ts + PAUSE)
            self.visit.update((until, orders + 1, total + row.amount))
            self.handle.registerTimer(int(until.timestamp() * 1000))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        _, orders, total = self.visit.get()
        self.visit.clear()
        yield Row(customer=key[0], orders=orders, total=total)


def visits(orders: Any) -> Any:
    """The job, up to ``writeStream``."""
    return (
        orders.withWatermark("ts", "10 minutes")
        .groupBy("customer")
        .transformWithState(Visits(), RESULT, "append", "eventTime")
    )


# -- the tests ---------------------------------------------------------------------------------------------------------


def at(minute: int) -> datetime:
    return datetime(2024, 5, 1, 12) + timedelta(minutes=minute)


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness(
        Visits(),
        key="customer",
        schema=SCHEMA,
        output=RESULT,
        time_mode="eventTime",
        event_time="ts",
        delay="10 minutes",
    ) as made:
        yield made


def test_a_visit_ends_after_a_pause(harness: Harness) -> None:
    """Orders within 30 minutes are one visit; its row comes when the watermark says that it is over."""
    assert harness.push([("ann", at(0), 5), ("ann", at(20), 7)]) == []
    assert harness.peek_value_state("visit", "ann") == (at(50), 2, 12)
    assert [timer.at_ms for timer in harness.timers("ann")] == [at(50).timestamp() * 1000]
    assert harness.set_watermark(at(50)) == [Row(customer="ann", orders=2, total=12)]
    assert harness.state("visit") == {}


def test_a_visit_straddles_the_switch(harness: Harness) -> None:
    """What the history has begun the stream goes on with."""
    assert harness.backlog([("ann", at(0), 5), ("bob", at(25), 1)]) == []
    assert harness.push([("ann", at(26), 7)]) == []
    assert harness.end() == [Row(customer="ann", orders=2, total=12), Row(customer="bob", orders=1, total=1)]


def test_an_error_is_the_processors_own(harness: Harness) -> None:
    """What a handler raises comes out as it was raised."""
    with pytest.raises(ValueError, match="ann has ordered for -1"):
        harness.push([("ann", at(0), -1)])


def test_results_do_not_depend_on_how_rows_come(harness: Harness) -> None:
    """As one backlog, as a stream, cut at random, up to 10 minutes late: the same visits."""
    rows = [(f"c{n % 7}", at(11 * n % 400), n) for n in range(100)]
    harness.assert_same_results(rows, cuts=5, out_of_order=True)


def test_the_whole_job() -> None:
    """The same in Spark: a history, two batches, and the end of the input."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    live = [[("ann", at(26), 7)], [("bob", at(100), 1)]]
    run = run_job(visits, schema=SCHEMA, history=[("ann", at(0), 5)], live=live, end=True, spark=spark)
    assert (run.history, run.live[0]) == ([], [])  # the visit straddles the switch, and is not over
    assert run.live[1] == [Row(customer="ann", orders=2, total=12)]
    assert run.end == [Row(customer="bob", orders=1, total=1)]
    run.close()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-c", os.devnull]))
