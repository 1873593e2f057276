"""An upsert by key of what an aggregate in update mode delivers ends with the totals of one batch over everything."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

HISTORY: list[support.Event] = [(f"k{n % 3}", n * 20, n) for n in range(40)]  # ends within a window of ten minutes
LIVE: list[list[support.Event]] = [
    [(f"k{n % 3}", 800 + 130 * part + n, 1000 + n) for n in range(8)] for part in range(5)
]
FLUSH = (support.FLUSH_KEY, 1_000_000, 0)


class Table:
    """What an upsert by key makes of the deliveries."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.epochs: list[set[int]] = []

    def upsert(self, delivered: DataFrame, number: int) -> None:
        rows = delivered.collect()
        keyed = {(row.key, row.window.start): (row.total, row.n) for row in rows}
        assert len(keyed) == len(rows), f"delivery {number} has a key twice"
        self.rows.update(keyed)
        self.epochs.append({row.nth >> 36 for row in rows})


def totals(frame: Any) -> Any:
    """By windows that have come through a field of a struct, beside which the event time is gone."""
    window = F.window("ts", "10 minutes").alias("w")
    rows = frame.select(F.struct(window, F.col("key").alias("k")).alias("s"), F.col("value"))
    keyed = rows.select(F.col("s.k").alias("key"), F.col("s.w").alias("window"), "value").groupBy("key", "window")
    return keyed.agg(F.sum("value").alias("total"), F.count("*").alias("n"))


def test_totals_of_windows_over_the_switch_are_right_and_come_once_per_delivery(world: World) -> None:
    """With default options; several epochs make one delivery, and state behind the watermark goes (P9, P12).

    The live input is written in SQL, over a view of the stream.
    """
    table = Table()
    world.live(maxFilesPerTrigger="1").createOrReplaceTempView("landing")
    live = world.spark.sql(
        "WITH landed AS (SELECT * FROM landing) SELECT n.key, n.ts, n.value FROM landed n WHERE value >= 0"
    )
    frame = mixedmode.read(history=world.history(HISTORY), live=live)
    writer = totals(frame.withWatermark("ts", "10 seconds")).writeStream.outputMode("update").foreachBatch(table.upsert)
    writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 2)
    writer.option("execution.checkpointing.interval", "1 hour").option("execution.sink.order-column", "nth")
    query = writer.start()
    world.queries.append(query)
    support.live(query)
    at_the_switch = dict(table.rows)
    world.land(*LIVE)
    query.processAllAvailable()
    world.land([FLUSH])
    support.finish(query)

    def batch(*parts: list[support.Event]) -> dict[Any, Any]:
        events = [(key, support.at(seconds), value) for part in parts for key, seconds, value in part]
        rows = totals(world.spark.createDataFrame(events, support.ROW_SCHEMA)).collect()
        return {(row.key, row.window.start): (row.total, row.n) for row in rows}

    assert at_the_switch == batch(HISTORY)
    assert table.rows == batch(HISTORY, *LIVE, [FLUSH])
    assert max(len(epochs) for epochs in table.epochs) > 1, "some delivery is of several epochs"
    state = mixedmode.state_reader(str(world.checkpoints), world.spark).state("aggregate")
    assert state.count() == 1, "only the last window is still open"


@pytest.mark.slow
def test_sessions_made_before_the_grouping_are_merged(world: World) -> None:
    """A column of session windows is what a session window in groupBy is, over history and stream alike (P12)."""
    events = support.stream_of(60, seed=3, keys=3, step_s=200)

    def sessions(frame: Any) -> Any:
        window = F.struct(F.session_window("ts", "5 minutes").alias("session"))
        rows = frame.withColumn("s", window).drop("ts")
        return rows.groupBy("key", "s.session").agg(F.sum("value").alias("total"))

    frame = world.read(events[:40]).withWatermark("ts", "1 second")
    options = {"execution.backlog.final-watermark": "observed", "execution.checkpointing.interval": "1 hour"}
    query = support.live(world.start(sessions(frame), options))
    world.feed(query, events[40:50], events[50:], support.flush_after(events))
    support.stop(query)
    rows = [(key, support.at(seconds), value) for key, seconds, value in events]
    batch = world.spark.createDataFrame(rows, support.ROW_SCHEMA).groupBy("key", F.session_window("ts", "5 minutes"))
    expected = [
        (row.key, row.session_window.start, row.total) for row in batch.agg(F.sum("value").alias("total")).collect()
    ]
    assert sorted(
        (key, session["start"].replace(tzinfo=None), total) for key, session, total in world.output()
    ) == sorted(expected)
