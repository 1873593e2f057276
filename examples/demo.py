"""The main job, end to end, on the 336,776 flights that left New York in 2013.

January to November is the history, December lands as files while the queries run.  Three queries go through the
history at batch speed, switch, and go on live; then their committed output is compared with one plain Spark batch over
the whole year.  Exit code 0: equal; 1: not equal; 130: interrupted, and the next start goes on from there.

With ``--kafka`` December is messages instead, which a producer sends to a topic while the queries run; the broker is
one Java process of the demo's own.  An interrupted run starts anew then: its topic is gone.

With ``--realtime`` one query answers each of these messages with another one, in Spark's Real-Time Mode, and the demo
says how long the answers took.

    python examples/demo.py [--kafka [--realtime]] [--fresh] [--folder .demo] [--picture docs/run.svg]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flights.compare import compare, expected_ended_days, expected_hours, expected_rotations, watermark_of
from flights.data import SCHEMA, Flights, prepare
from flights.feed import Feed
from flights.jobs import Job, ended_days, hours, rotations, straddling
from flights.rotations import OUTPUT, QUIET_MS
from flights.screen import Screen
from flights.session import start_session
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from kafka_broker import Broker

_ROOT = Path(__file__).resolve().parent.parent
#: Time between two files of the feed: one and a half days of December.
_PAUSE_S = 0.4
_LONGEST_BACKLOG_S = 3600
#: Messages in a second that two cores answer in real time, beside broker and producer.
_PER_SECOND = 400


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description="mixedmode on the flights of 2013: history, switch, live, comparison")
    parser.add_argument("--folder", type=Path, default=_ROOT / ".demo", help="where data, state and output go")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an interrupted run")
    parser.add_argument("--picture", metavar="FILE.svg", help="save what was shown as a picture")
    parser.add_argument("--kafka", action="store_true", help="December comes as messages of a Kafka topic")
    parser.add_argument("--realtime", action="store_true", help="answer each message at once, Kafka to Kafka")
    options = parser.parse_args(arguments)
    screen = Screen(record=options.picture is not None)
    try:
        kafka = options.kafka or options.realtime
        demo = Demo(options.folder, screen, kafka=kafka, real_time=options.realtime)
        equal = demo.run(fresh=options.fresh or kafka)
    except KeyboardInterrupt:
        screen.say("interrupted: the next start goes on from here (--fresh starts anew)", style="bold")
        return 130
    if options.picture:
        screen.save_picture(options.picture)
    return 0 if equal else 1


class Demo:
    """One run, or the rest of an interrupted one.

    Args:
        folder: ``flights/`` below it holds the prepared data; ``run/`` the state of the run in hand, which is removed
            by the next start if the run came to its end.
        screen: where to show it.
        kafka: whether December comes as messages of a topic, not as files.
        real_time: whether there is one query, which answers messages in Real-Time Mode.
        pause_s: time between two files of the feed.
    """

    def __init__(
        self,
        folder: Path,
        screen: Screen,
        *,
        kafka: bool = False,
        real_time: bool = False,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._folder = folder
        self._run = folder / ("run-kafka" if kafka else "run")
        self._screen = screen
        self._kafka = kafka
        self._real_time = real_time
        self._pause_s = pause_s

    def run(self, *, fresh: bool) -> bool:
        """True if every output is equal to what plain Spark says."""
        started = time.monotonic()
        screen = self._screen
        ended = self._run / "ended"
        if fresh or ended.exists():
            shutil.rmtree(self._run, ignore_errors=True)
        if self._run.exists():
            screen.say("going on with the run that was interrupted (--fresh starts anew)", style="bold")
        self._run.mkdir(parents=True, exist_ok=True)
        data = prepare(self._folder / "flights")
        running: Any = nullcontext()
        jars: list[Path] = []
        if self._kafka:
            from flights.topic import broker, connector

            screen.say("starting a Kafka broker", style="dim")
            running, jars = broker(self._run / "broker"), connector()
        with running as kafka:
            spark = start_session(self._folder, jars, real_time=self._real_time)
            try:
                equal = self.queries(spark, data, kafka)
                if kafka is None:
                    self._final_watermarks(data)
            finally:
                spark.stop()
        ended.touch()
        screen.say(f"\n{time.monotonic() - started:.0f} s in all", style="bold")
        return all(equal)

    def queries(self, spark: SparkSession, data: Flights, broker: Broker | None = None, count: int = 3) -> list[bool]:
        """The queries; whether the output of each is equal to what plain Spark says.

        Args:
            spark: the session.
            data: the prepared flights.
            broker: takes December's messages; None: December is files.
            count: only so many of the three.
        """
        self._spark, self._broker = spark, broker
        if self._real_time:
            return [self._miles(data)]
        return [query(data) for query in (self._rotations, self._hours, self._ended_days)[:count]]

    def _job(self, name: str) -> Job:
        if self._broker is None:
            return Job(name, self._run / name)
        from flights.topic import Topic

        return Job(name, self._run / name, topic=Topic.made(self._broker, name))

    # -- the main job ----------------------------------------------------------------------------------------------

    def _rotations(self, data: Flights) -> bool:
        job = self._job("rotations")
        self._screen.title("1. Rotations of 4,037 aircraft: a StatefulProcessor with an event-time timer")
        self._follow(job, rotations, data)
        expected = expected_rotations(self._year(data), timedelta(milliseconds=QUIET_MS))
        watermark = watermark_of(self._departed(data), job.delay)
        closed = expected.where(expected.ends <= watermark)
        return self._verdict(f"rotations closed by {watermark:%Y-%m-%d %H:%M}", job, closed, OUTPUT)

    def _hours(self, data: Flights) -> bool:
        job = self._job("hours")
        self._screen.title("2. Departures by carrier and hour: groupBy and agg with PySpark's own functions")
        self._follow(job, hours, data)
        expected = expected_hours(self._year(data))
        watermark = watermark_of(self._year(data), job.delay)
        closed = expected.where(expected.hour.end <= watermark)
        return self._verdict(f"windows closed by {watermark:%Y-%m-%d %H:%M}", job, closed, None)

    def _ended_days(self, data: Flights) -> bool:
        job = self._job("ended-days")
        self._screen.title("3. Two stages: rotations, and how many of them end at each airport and day")
        self._follow(job, ended_days, data)
        watermark = watermark_of(self._departed(data), job.delay)
        expected = expected_ended_days(expected_rotations(self._year(data), timedelta(milliseconds=QUIET_MS)))
        closed = expected.where(expected.day.end <= watermark)
        return self._verdict(f"days closed by {watermark:%Y-%m-%d %H:%M}", job, closed, None)

    def _miles(self, data: Flights) -> bool:
        from flights.real_time import TOTAL, Answers, expected_miles, miles

        job, broker = self._job("miles"), self._broker
        assert broker is not None, "it goes from topic to topic"
        answers = broker.create("answers", 1, **{"message.timestamp.type": "LogAppendTime"})
        self._screen.title("Miles of each aircraft, in real time: each flight of December is answered at once")
        self._follow(job, partial(miles, answers=answers), data)
        started, found = time.monotonic(), Answers.of(broker, answers)
        actual = self._spark.createDataFrame(found.totals, TOTAL)
        outcome = compare(actual, expected_miles(self._year(data)))
        self._screen.verdict("last answers", outcome, time.monotonic() - started)
        shown = ", ".join(f"p{percent} {found.percentile_ms(percent)} ms" for percent in (50, 90, 99))
        self._screen.say(f"          {len(found.latencies_ms):,} answers in real time: {shown}")
        return outcome.equal

    def _follow(self, job: Job, describe: Callable[[SparkSession, Flights, Job], Any], data: Flights) -> None:
        """Start a query, show its plan, its backlog, its switch and its stream, and stop it when December is over."""
        feed = self._feed(job, data)
        query = describe(self._spark, data, job).start()
        try:
            query.explain()
            self._screen.say("")
            threading.Thread(target=_bring_december, args=(query, feed), daemon=True).start()
            query.watch(console=self._screen.console)
            self._screen.say("")
        finally:
            feed.stop()
            query.stop()
        if query.exception() is not None:
            raise query.exception()

    def _feed(self, job: Job, data: Flights) -> Any:
        if job.topic is not None:
            from flights.topic import Producer

            return Producer(data.december, job.topic, self._pause_s, _PER_SECOND if self._real_time else None)
        Feed.fill(data.december, job.waiting)
        return Feed(job.waiting, job.landing, self._pause_s)

    def _verdict(self, what: str, job: Job, expected: DataFrame, schema: str | None) -> bool:
        started = time.monotonic()
        reader = self._spark.read if schema is None else self._spark.read.schema(schema)
        outcome = compare(reader.parquet(str(job.output)), expected)
        self._screen.verdict(what, outcome, time.monotonic() - started)
        return outcome.equal

    def _year(self, data: Flights) -> DataFrame:
        return self._spark.read.schema(SCHEMA).parquet(str(data.lake), str(data.december))

    def _departed(self, data: Flights) -> DataFrame:
        return self._year(data).where("tailnum is not null and dep_time is not null")

    # -- what final-watermark means --------------------------------------------------------------------------------

    def _final_watermarks(self, data: Flights) -> None:
        """One airport, one afternoon, a history that ends at 22:30: what becomes of the window from 22 to 23 h."""
        screen = self._screen
        screen.title("4. A window that straddles the switch: execution.backlog.final-watermark = observed, then max")
        kennedy = self._year(data).where("origin = 'JFK' and date(ts) = '2013-11-30'")
        found = {}
        for choice in ("observed", "max"):
            job = Job(f"straddling-{choice}", self._run / choice)
            shutil.rmtree(job.folder, ignore_errors=True)  # short: an interrupted one starts again
            feed = job.waiting
            kennedy.where("ts >= '2013-11-30 22:30'").coalesce(1).write.parquet(str(feed))
            job.landing.mkdir(parents=True)
            live = self._spark.readStream.schema(SCHEMA).parquet(str(job.landing))
            query = straddling(kennedy.where("ts < '2013-11-30 22:30'"), live, job, choice).start()
            try:
                if not query.wait_for("live", 120):
                    raise query.exception() or TimeoutError(f"{job.name} is not live after two minutes: {query.status}")
                for path in feed.glob("*.parquet"):
                    path.rename(job.landing / path.name)
                query.processAllAvailable()
            finally:
                query.stop()
            rows = self._spark.read.parquet(str(job.output)).where("hour.start = '2013-11-30 22:00'").collect()
            found[choice] = sorted(row.flights for row in rows)
        whole = kennedy.where("hour(ts) = 22").count()
        screen.table(
            ["final-watermark", "flights 22:00-23:00", "the hour had", "what happens to the window"],
            [
                ("observed", found["observed"], f"{whole} departures", "carried into the stream, fires once, whole"),
                ("max", found["max"], f"{whole} departures", "fires at the switch with its part, later with the rest"),
            ],
        )


def _bring_december(query: Any, feed: Any) -> None:
    """Begin with December when a query is live, and stop the query when it has had all of it."""
    with suppress(Exception):  # a query that fails says so itself
        if query.wait_for("live", _LONGEST_BACKLOG_S):
            feed.start()
            while feed.running and query.isActive:
                time.sleep(0.1)
            query.processAllAvailable()
            query.stop()


if __name__ == "__main__":
    sys.exit(main())
