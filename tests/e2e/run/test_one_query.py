"""Spark's own observers see a job as one query, from the start of its backlog to its end."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import mixedmode
import pytest
import support
from mixedmode import MixedQuery, QueryError
from mixedmode.runtime.jvm.gateway import java_class
from mixedmode.runtime.metrics import shown_run
from mixedmode.runtime.spark_io.shown_query import ShownQuery
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener
from support import World

EVENTS = support.stream_of(60, seed=9)
_PATIENCE_S = 120
#: Of nobody's.
SETTING = "spark.mixedmode-test.setting"


class Seen(StreamingQueryListener):
    """What a listener of the user's session is told, in order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.events: list[tuple[str, str, Any]] = []

    def _told(self, kind: str, query_id: Any, event: Any) -> None:
        with self._changed:
            self.events.append((kind, str(query_id), event))
            self._changed.notify_all()

    def onQueryStarted(self, event: Any) -> None:
        self._told("started", event.id, event)

    def onQueryProgress(self, event: Any) -> None:
        self._told("progress", event.progress.id, event.progress)

    def onQueryIdle(self, event: Any) -> None:
        self._told("idle", event.id, event)

    def onQueryTerminated(self, event: Any) -> None:
        self._told("terminated", event.id, event)

    def of(self, kind: str, run_id: str) -> list[Any]:
        """Events of a kind of one run."""
        with self._changed:
            return [event for one, _, event in self.events if one == kind and str(event.runId) == run_id]

    def wait_for(self, true: Callable[[], bool]) -> None:
        """Wait until events have made something true; Spark hands them on when it has time."""
        deadline = time.monotonic() + _PATIENCE_S
        with self._changed:
            while not true():
                assert self._changed.wait(timeout=max(deadline - time.monotonic(), 0)), self.events

    def wait_for_end(self, run_id: str) -> Any:
        """The event with which a run ends."""
        self.wait_for(lambda: bool(self.of("terminated", run_id)))
        return self.of("terminated", run_id)[0]


@pytest.fixture
def seen(spark: SparkSession) -> Iterator[Seen]:
    """A listener."""
    listener = Seen()
    spark.streams.resetTerminated()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


def counts(world: World, **live: str) -> Any:
    """An aggregate over history and live input."""
    rows = mixedmode.read(history=world.history(EVENTS[:40]), live=world.live(**live)).withWatermark("ts", "0 seconds")
    return rows.groupBy("key").agg(F.count("*").alias("rows")).writeStream.outputMode("update")


def rows_by_phase(told: list[Any]) -> dict[str, int]:
    """How many rows progress events tell of each phase; a backlog that takes long is told in several."""
    found: Counter[str] = Counter()
    for one in told:
        found[one.sources[0].metrics["phase"]] += one.numInputRows
    return dict(found)


def buses_of(spark: SparkSession) -> int:
    """How many sessions of the application have a bus of their own for listeners of queries."""
    listeners = spark.sparkContext._jsc.sc().listenerBus().listeners()
    names = [listeners.get(place).getClass().getSimpleName() for place in range(listeners.size())]
    return names.count("StreamingQueryListenerBus")


@pytest.mark.slow
def test_backlog_stream_and_restart_are_one_query(world: World, seen: Seen) -> None:
    """Two runs from one location have one id, and each is one query: started, progress of backlog and stream, ended.

    The live source's own has the settings of the start, and leaves nothing in the Spark application.
    """
    spark = world.spark
    world.land(EVENTS[40:50])
    writer = counts(world).format("noop").queryName("counted").option("checkpointLocation", str(world.checkpoints))
    buses = buses_of(spark)
    spark.conf.set(SETTING, "before")
    query: MixedQuery = writer.start()
    try:
        spark.conf.set(SETTING, "after")
        active = [(one.id, one.runId, one.name) for one in spark.streams.active if one.name.startswith("counted")]
        assert active == [(query.id, query.runId, "counted")]
        assert query.wait_for("live", _PATIENCE_S), query.exception()
        assert spark.streams.get(query.id).isActive and not seen.of("terminated", query.runId)
        live: Any = query._runner.context.live
        assert live.query._jsq.streamingQuery().sparkSession().conf().get(SETTING) == "before"
        assert buses_of(spark) == buses + 1
        world.feed(query, EVENTS[50:])
        seen.wait_for(lambda: sum(one.numInputRows for one in seen.of("progress", query.runId)) == len(EVENTS))
        told = [one for one in seen.of("progress", query.runId) if one.numInputRows]
        assert rows_by_phase(told) == {"backlog": 50, "live": 10}
        assert told[-1].sources[-1].endOffset, "where the micro-batch ended is told with it"
        last = spark.streams.get(query.id).lastProgress
        assert last["id"] == query.id and last["batchId"] >= told[-1].batchId
        assert spark.streams.awaitAnyTermination(1) is False
    finally:
        query.stop()
        spark.conf.unset(SETTING)
    assert seen.wait_for_end(query.runId).exception is None
    assert query.status["phase"] == "live", "it was stopped, and is not done"
    assert buses_of(spark) == buses
    assert spark.streams.get(query.id) is None and spark.streams.awaitAnyTermination(1) is True

    again: MixedQuery = writer.start()
    try:
        assert (again.id, again.runId != query.runId) == (query.id, True)
        assert again.wait_for("live", _PATIENCE_S), again.exception()
        spark.streams.get(again.id).stop()
        assert again.awaitTermination(_PATIENCE_S), "whoever stops what Spark shows stops the job"
    finally:
        again.stop()
    seen.wait_for_end(again.runId)
    kinds = [kind for kind, query_id, _ in seen.events if query_id == query.id and kind != "progress"]
    assert kinds == ["started", "terminated", "started", "terminated"]
    names = [event.name for kind, _, event in seen.events if kind == "started"]
    assert names.count("counted") == 2 and "counted (live source)" not in names


def test_a_job_without_live_input_is_a_query_and_tells_how_far_it_is(
    world: World, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded job tells of its backlog while it works through it; rows that were told are not told again at its end,
    and observed metrics are handed on."""
    monkeypatch.setattr(shown_run, "REPORT_EVERY_S", 0)
    rows = world.read(EVENTS, live=False).observe("read", F.count("*").alias("rows"), F.max("key"))
    query: MixedQuery = rows.groupBy("key").agg(F.count("*")).writeStream.format("noop").start()
    query.awaitTermination()
    assert (query.status["phase"], query.status["mode"]) == ("done", "backlog")
    assert seen.wait_for_end(query.runId).exception is None
    told = seen.of("progress", query.runId)
    assert sum(one.numInputRows for one in told) == len(EVENTS)
    assert len(told) > 1 and told[0].sources[0].metrics["shards"]
    (observed,) = [one.observedMetrics["read"] for one in told if one.observedMetrics]
    assert (observed["rows"], observed["max(key)"]) == (len(EVENTS), max(key for key, _, _ in EVENTS))


@pytest.mark.slow
def test_the_jvm_removes_what_a_killed_driver_leaves(spark: SparkSession) -> None:
    """The folder of the query that stands for a job is one of those that the JVM removes when it ends."""
    shown = ShownQuery(spark, None, str(uuid.uuid4()))
    try:
        hooks = java_class(spark, "org.apache.spark.util.ShutdownHookManager")
        checkpoint = shown._query._jsq.streamingQuery().resolvedCheckpointRoot()
        folder = java_class(spark, "java.io.File")(urlsplit(checkpoint).path).getParentFile()
        assert folder.isDirectory() and hooks.hasShutdownDeleteDir(folder)
    finally:
        shown.end(None)
    assert not folder.exists()


def test_a_job_that_fails_is_a_query_that_fails(world: World, seen: Seen) -> None:
    """Listeners and awaitAnyTermination get the job's error, once."""
    spark = world.spark
    failing = F.udf(lambda value: 1 // 0, "long")
    rows = world.read(EVENTS).withColumn("value", failing("value"))
    query: MixedQuery = rows.groupBy("key").agg(F.sum("value")).writeStream.outputMode("update").format("noop").start()
    with pytest.raises(QueryError, match="division"):
        query.awaitTermination()
    assert "ZeroDivisionError" in seen.wait_for_end(query.runId).exception
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()
    assert len(seen.of("started", query.runId)) == len(seen.of("terminated", query.runId)) == 1
