"""How often a steady epoch of the stream calls the JVM: each call is a round trip, and many make an analysis."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import mixedmode
import pytest
import support
from mixedmode.runtime.driver.epoch_runner import EpochRunner
from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

pytestmark = pytest.mark.spark

EVENTS = support.stream_of(60, seed=3)


def totals(history: DataFrame | None, live: DataFrame | None) -> Any:
    """An aggregate, and what selects of its rows."""
    rows = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds")
    return rows.groupBy("key", F.window("ts", "1 hour")).agg(F.sum("value").alias("total")).where("total > 0")


def firsts(history: DataFrame | None, live: DataFrame | None) -> Any:
    """Two stages, of which the first one hands on rows in each epoch."""
    rows = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds").dropDuplicates(["key", "ts"])
    return rows.groupBy(F.window("ts", "1 hour")).agg(F.sum("value").alias("total"))


class Calls:
    """Counts the calls of each epoch with rows, on the thread that runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_epoch: list[int] = []
        self._now = threading.local()
        send, run = ClientServerConnection.send_command, EpochRunner.streaming_epoch

        def counted(connection: Any, command: str) -> Any:
            if hasattr(self._now, "calls"):
                self._now.calls += 1
            return send(connection, command)

        def epoch(runner: Any, phase: Any, rows: Any, *others: Any) -> None:
            self._now.calls = 0
            run(runner, phase, rows, *others)
            if rows is not None:
                self.by_epoch.append(self._now.calls)
            del self._now.calls

        monkeypatch.setattr(ClientServerConnection, "send_command", counted)
        monkeypatch.setattr(EpochRunner, "streaming_epoch", epoch)


@pytest.mark.parametrize(
    ("job", "most"),
    # These numbers may only fall.
    [(totals, 14), (support.sessions, 14), (firsts, 18)],
    ids=["an aggregate", "a processor", "two stages"],
)
def test_a_steady_epoch_makes_few_calls(
    world: World, monkeypatch: pytest.MonkeyPatch, job: Callable[..., Any], most: int
) -> None:
    """Once a stage's plan is there, an epoch costs no more calls than this, and no more with each epoch."""
    options = {"execution.checkpointing.interval": "1 hour", "execution.backlog.final-watermark": "observed"}
    history: DataFrame = world.history(EVENTS[:20])
    query = world.start(job(history, world.live(maxFilesPerTrigger="1")), options)
    assert query.wait_for("live", 300), query.exception()
    calls = Calls(monkeypatch)
    world.land(*[EVENTS[start : start + 8] for start in range(20, 60, 8)])
    query.processAllAvailable()
    assert len(calls.by_epoch) == 5
    assert max(calls.by_epoch[3:]) <= most, calls.by_epoch
