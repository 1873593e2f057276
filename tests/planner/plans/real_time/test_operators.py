"""Keyed stages that run in Real-Time Mode, and the reasons why others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mixedmode import read
from mixedmode.planner.plans.real_time.operators import operator_refusal
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Last(StatefulProcessor):
    """Gives the last value of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=[row.v for row in rows][-1])


def processed(frame: Any, times: str = "none", initial: Any = None) -> Any:
    return frame.groupBy("k").transformWithState(Last(), "k string, n long", "update", times, initial)


def refusal(frame: Any) -> str | None:
    job: JobSpec = frame.writeStream.outputMode("update").format("noop").described()
    return operator_refusal(job.last_stage)


@pytest.mark.parametrize(
    "make",
    [
        processed,
        lambda rows: processed(rows, "eventTime"),
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.groupBy("k").agg(F.sum("v"), F.max("x")),
        lambda rows: rows.groupBy("k").agg(F.sum("v") + 1),
        lambda rows: rows.select("k", "v").dropDuplicates(["k"]),
    ],
)
def test_processors_aggregates_by_key_and_deduplications_run(live: DataFrame, make: Callable[[Any], Any]) -> None:
    assert refusal(make(read(live=live).withWatermark("ts", "1 hour"))) is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda rows: processed(rows, "processingTime"), "timeMode processingTime"),
        (lambda rows: rows.groupBy("k", F.window("ts", "1 hour")).count(), "over windows"),
        (lambda rows: rows.rollup("k").count(), "grouping sets"),
        (lambda rows: rows.groupBy().count(), "without keys"),
    ],
)
def test_others_are_refused(live: DataFrame, make: Callable[[Any], Any], reason: str) -> None:
    assert reason in str(refusal(make(read(live=live).withWatermark("ts", "1 hour"))))


def test_initial_state_is_refused(live: DataFrame, history: DataFrame) -> None:
    initial = history.select("k").groupBy("k")
    assert "initial state" in str(refusal(processed(read(live=live), initial=initial)))


def test_a_join_is_refused(live: DataFrame) -> None:
    left, right = read(live=live).select("k", "v"), read(live={"other": live}).selectExpr("k AS o")
    job = left.join(right, F.expr("k = o")).writeStream.format("noop").described()
    assert "(allowed: transformWithState, agg, dropDuplicates)" in str(operator_refusal(job.last_stage))
