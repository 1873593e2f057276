"""A job in a process of its own: ``python driver_realtime.py <folder> <brokers> <kind> <trigger> <interval> <life> …``.

Behind the life come options of the job, ``name=value``, and perhaps ``master=…``.  It reads the topic
that the folder's file ``source`` names, and sends to that of ``target``.  Lives:

- ``<from>-<to>``: it is sent these values, commits them, and stops.  With several of these, ``<from>-<to>,…``, it has
  committed each before it is sent the next.
- ``twice:<from>-<to>``: it does so twice in one application: the first time with what the topic has.
- ``die:<from>-<to>``: it kills itself when all of them have come out, and everybody can see so; what they see is in
  the folder's file ``seen.json``.
- ``fail:<from>-<to>,<from>-<to>``: it commits the first ones, and fails on the others, as a worker dies as soon as the
  folder's file ``killed`` is gone; each is sent when the one before has come out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka_support
import support
from kafka_broker import Broker
from mixedmode import RunListener, add_listener, read
from mixedmode.events import RealTimeProgressed, RunEvent, to_json
from mixedmode.planner.cli.report import write_report
from mixedmode.planner.cli.status import facts_of
from mixedmode.runtime.driver.realtime import phase
from mixedmode.runtime.metrics.status import status_of
from mixedmode.runtime.metrics.watch.displays import as_html, progress_line
from mixedmode.runtime.tasks.realtime.change_segments import SegmentPolicy
from pyspark import cloudpickle
from pyspark.sql import functions as F

WAIT_S = 240
#: As few slots as may be: for two source partitions, two shards, and one to spare.
MASTER = "local[5]"
#: Applications have these, for Real-Time Mode; epochs of tests are shorter than users may have them.
SETTINGS = {
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
}


class Counting(kafka_support.Numbered):
    """Hands on its rows as messages, numbered by key."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for name, value, number in super().handleInputRows(key, rows, timerValues):
            yield name, f"{value},{number}"


class Sessions(kafka_support.Numbered):
    """Counts the rows of a key, and gives the number when none has come for a minute."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._handle = handle
        self._end = handle.getValueState("end", "ms long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        last = max(int(row.ts.timestamp() * 1000) for row in rows)
        end = last + 60_000
        if self._end.exists():
            before = self._end.get()[0]
            end = max(end, before)
            self._handle.deleteTimer(before)
        self._handle.registerTimer(end)
        self._end.update((end,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        self._end.clear()
        yield key[0], str(expiredTimerInfo.getExpiryTimeInMs())


def processor(rows: Any) -> Any:
    """Each row is a message; a filter, here of none, is part of what shards count."""
    return (
        rows.where("value >= 0")
        .groupBy("key")
        .transformWithState(Counting(), "key string, value string", "update", "none")
    )


def sessions(rows: Any) -> Any:
    """A message for each time that a key is silent."""
    timed = rows.withWatermark("ts", "10 seconds").groupBy("key")
    return timed.transformWithState(Sessions(), "key string, value string", "update", "eventTime")


def deduplication(rows: Any) -> Any:
    """The first row of each key and value."""
    return rows.select("key", F.col("text").alias("value")).dropDuplicates(["key", "value"])


def counts(rows: Any) -> Any:
    """Counts, sums and averages of some rows of each key, as JSON."""
    some = rows.where("value % 7 != 3").withColumn("price", F.expr("CAST(value / 8 AS DECIMAL(12, 3))"))
    totals = some.groupBy("key").agg(
        F.count("*").alias("n"),
        F.sum("price").alias("sum"),
        F.avg(F.length(F.reverse("text")) + F.col("value")).alias("mean"),
        (F.max("value") - F.min("value")).alias("span"),
        F.max("ts").alias("last"),
    )
    fields = F.struct("n", "sum", "mean", "last", F.col("span").cast("string").alias("span"))
    return totals.where("span > 0").select("key", F.to_json(fields).alias("value"))


KINDS = {
    "counts": counts,
    "deduplication": deduplication,
    "processor": processor,
    "sessions": sessions,
}


def job(
    spark: Any, brokers: str, source: str, target: str, checkpoints: str, kind: str, options: dict[str, str]
) -> Any:
    """The writer of a job of a kind, from one topic to another."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    messages = kafka_support.without_positions(stream.option("startingOffsets", "earliest").load())
    rows = read(live=messages.withColumn("text", F.format_string("%06d", F.col("value"))))
    writer = KINDS[kind](rows).writeStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    writer = writer.option("topic", target).option("checkpointLocation", checkpoints)
    for name, value in {"pipeline.parallelism": "2", **options}.items():
        writer = writer.option(name, value)
    return writer.outputMode("update").queryName(kind)


class Seen(RunListener):
    """What a listener is told of an epoch that runs, and what others see of it."""

    def __init__(self) -> None:
        self.events: list[RealTimeProgressed] = []

    def onEvent(self, event: RunEvent) -> None:
        if isinstance(event, RealTimeProgressed):
            self.events.append(event)

    def of(self, query: Any, location: str, rows: int) -> dict[str, Any]:
        """All of it, as soon as everybody has heard of all rows."""
        until = time.monotonic() + WAIT_S
        while True:
            status, outside = query.status.get("realTime"), status_of(location)
            facts = facts_of(outside, [])["realTime"]
            told = [0 if one is None else one["rows"] for one in (status, facts)]
            if min(told) >= rows and any(event.rows >= rows for event in self.events):
                break
            assert query.isActive and time.monotonic() < until, (told, self.events, query.exception())
            time.sleep(0.05)
        assert outside.run is not None
        page = Path(location).parent / "report.html"
        write_report(location, page, None)
        return {
            "status": status,
            "outside": facts,
            "events": [to_json(event) for event in self.events],
            "line": progress_line(outside.run, outside.at_ms),
            "watch": as_html(outside.run, outside.at_ms),
            "report": page.read_text(),
        }


def session(master: str) -> Any:
    """Spark."""
    cloudpickle.register_pickle_by_value(kafka_support)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return support.driver_session(master, SETTINGS)


def main(folder: Path, brokers: str, kind: str, trigger: str, interval: str, life: str, *told: str) -> None:
    phase.SEGMENTS = SegmentPolicy(keys=1, follow_every_s=0)  # many of them, with few rows
    options = dict(one.split("=", 1) for one in told)
    broker = Broker(brokers)
    source, target = ((folder / name).read_text() for name in ("source", "target"))
    spark = session(options.pop("master", MASTER))
    what, _, values = life.rpartition(":")
    bursts = [range(*map(int, part.split("-"))) for part in values.split(",")]
    if what == "fail":  # the others one by one: an epoch has several portions
        bursts[1:] = [range(value, value + 1) for value in bursts[1]]
    writer = job(spark, brokers, source, target, str(folder / "checkpoints"), kind, options)
    described = writer.trigger(**{trigger: interval})
    if what == "twice":
        query = described.start()
        support.finish(query)
    seen = Seen()
    add_listener(seen)
    query = described.start()
    assert query.wait_for("live", WAIT_S), query.exception()
    before = sum(broker.ends(target).values())
    until = time.monotonic() + WAIT_S
    sent = 0
    for number, burst in enumerate(bursts):
        if number and not what:
            query.processAllAvailable()
        kafka_support.send(broker, source, burst)
        sent += len(burst)
        if what == "fail" and not number:
            query.processAllAvailable()  # and what the life before has left undone
            before = sum(broker.ends(target).values()) - sent
            (folder / "killed").unlink()
        while what == "fail" and query.isActive and sum(broker.ends(target).values()) < before + sent:
            assert time.monotonic() < until
            time.sleep(0.01)
    if what == "die":
        while sum(broker.ends(target).values()) < before + sent:
            assert query.isActive and time.monotonic() < until, query.exception()
            time.sleep(0.05)
        (folder / "seen.json").write_text(json.dumps(seen.of(query, str(folder / "checkpoints"), sent)))
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fail":
        while query.isActive:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert query.exception() is not None
        print(query.exception())
    else:
        support.finish(query)
    spark.stop()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
