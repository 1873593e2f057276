"""What follows a processor: TransformWithStateChainingSuite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import functions as F

from ..case import Read, case
from .processor_support import Steps, transformed

SUITE = "TransformWithStateChainingSuite"
EVENTS = {"in": "key string, seconds long"}
DAYS = [{"in": [("k1", 86_400)]}, {"in": [("k1", 31 * 86_400)]}, {"in": [("k1", 32 * 86_400)]}]
SCHEMA = "key string, at timestamp, n int"


class Least(Steps):
    """The least event time of a call, and the number of its rows."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        return [{"key": key[0], "at": min(row.time for row in rows), "n": len(rows)}]


class Number(Steps):
    """How many rows a call has."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        return [{"n": len(rows)}]


class Old(Steps):
    """Gives rows of 1970."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        import datetime

        return [{"key": key[0], "at": datetime.datetime(1970, 1, 1, 0, 0, 0, 1000), "n": len(rows)}]


def least(read: Read, event_time: str = "at", *, delay: str | None = "1 minute", processor: Steps | None = None) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds"))
    rows = rows if delay is None else rows.withWatermark("time", delay)
    mode = "eventTime" if delay is not None else "none"
    return transformed(
        rows, ["key"], processor or Least(), SCHEMA, output_mode="append", time_mode=mode, event_time=event_time
    )


@case(
    SUITE,
    "watermark is propagated correctly for next stateful operator after transformWithState",
    inputs=EVENTS,
    steps=DAYS,
)
def windows_behind_a_processor(read: Read) -> Any:
    return least(read).groupBy(F.window("at", "1 minute")).count()


@case(
    SUITE,
    "passing eventTime column to transformWithState fails if no watermark is defined",
    "ensure that query fails if there is no watermark when reading from a view",
    inputs=EVENTS,
    steps=DAYS,
    refused="watermark",
)
def event_time_without_watermark(read: Read) -> Any:
    return least(read, delay=None)


@case(
    SUITE,
    "missing eventTime column to transformWithState fails the query if another stateful operator is added",
    inputs=EVENTS,
    steps=DAYS,
    refused="watermark",
)
def windows_without_event_time(read: Read) -> Any:
    return least(read, "").groupBy(F.window("at", "1 minute")).count()


@case(SUITE, "chaining multiple transformWithState operators", inputs=EVENTS, steps=DAYS)
def two_processors(read: Read) -> Any:
    return transformed(least(read), ["key"], Number(), "n int", output_mode="append")


@case(
    SUITE,
    "dropDuplicateWithWatermark after transformWithState operator fails if watermark column is not provided",
    inputs=EVENTS,
    steps=DAYS,
    refused="watermark",
)
def deduplication_without_event_time(read: Read) -> Any:
    return least(read, "").dropDuplicatesWithinWatermark()


@case(
    SUITE,
    "dropDuplicateWithWatermark after transformWithState operator",
    inputs=EVENTS,
    steps=[{"in": [("k1", 86_400), ("k1", 86_400)]}],
)
def deduplication_behind_a_processor(read: Read) -> Any:
    return least(read).dropDuplicatesWithinWatermark()


@case(
    SUITE,
    "query fails if the output dataset does not contain specified eventTimeColumn",
    inputs=EVENTS,
    steps=DAYS,
    refused="missing",
)
def event_time_that_is_not_there(read: Read) -> Any:
    return least(read, "missing")


@case(
    SUITE,
    "query fails if the output dataset contains rows older than current watermark",
    inputs=EVENTS,
    steps=DAYS,
    refused="terminated with exception",
)
def rows_behind_the_watermark(read: Read) -> Any:
    return least(read, processor=Old())


@case(SUITE, "ensure that watermark delay is resolved from a view", inputs=EVENTS, steps=DAYS[:1])
def processor_behind_a_view(read: Read) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "1 minute")
    rows.createOrReplaceTempView("timed_events")
    rows = rows.sparkSession.table("timed_events")
    return transformed(rows, ["key"], Least(), SCHEMA, output_mode="append", time_mode="eventTime", event_time="at")
