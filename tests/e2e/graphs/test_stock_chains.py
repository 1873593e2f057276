"""Chains of stages against stock Structured Streaming, micro-batch by micro-batch, and against plain batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timezone
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import Event, World

support.by_value(__name__)

#: The static table changes after this delivery.
CHANGED_BEHIND = 1
#: No event time, end of a window or timer is ever equal to a watermark: there the boundaries differ by design.
DELAY_MS = 100_500
STREAM = {
    "execution.runtime-mode": "streaming",
    "execution.checkpointing.interval": "1 ms",
    "pipeline.parallelism": "2",
    # As stock, whose timers fire after a micro-batch's rows.
    "pipeline.timers": "after-rows",
}


def batches_of(seed: int) -> list[list[Event]]:
    """Micro-batches with rows out of order, doubled, without key, at the ends of windows, and far behind; one is empty.

    Rows of one key and time are equal: it does not matter which of them stays.
    """
    chance, now_s, made = random.Random(seed), 10_000, []
    for _ in range(4):
        rows: list[Event] = made[-1][-8:] if made else []
        for _ in range(40):
            now_s += chance.randrange(120)
            back_s = chance.choice([0, 0, chance.randrange(100), now_s % 300 if now_s % 300 < 100 else 0])
            if chance.random() < 0.08:
                back_s = 200 + chance.randrange(5000)
            event = (chance.choice(["a", "b", None]), now_s - back_s, (now_s - back_s) % 7)
            rows += [event] * chance.choice([1, 1, 2])
        made.append(rows)
    return [*made[:2], [], *made[2:], [("flush", 40_000, 0)]]


def ways(frame: Any, rates: DataFrame) -> Any:
    """Three stateful operators, and a static table between them."""
    unique = frame.withWatermark("ts", f"{DELAY_MS} milliseconds").dropDuplicates(["key", "ts"])
    rated = unique.join(rates, "key", "left").select(
        "key", "ts", (F.col("value") * F.expr("ifnull(rate, 1)")).alias("v")
    )
    inner = rated.groupBy("key", F.window("ts", "5 minutes")).agg(F.sum("v").alias("total"), F.count("*").alias("n"))
    hour = F.window(F.window_time("window"), "1 hour")
    return inner.groupBy(hour).agg(F.max("total").alias("most"), F.sum("n").alias("n"), F.count("*").alias("windows"))


class Watch(StatefulProcessor):
    """Counts the totals that come, and says ten minutes after each how many there were."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        (count,) = self._count.get() or (0,)
        for row in rows:
            count += 1
            time_ms = round(row.end.replace(tzinfo=timezone.utc).timestamp() * 1000)
            self._handle.registerTimer(time_ms + 600_000)
            yield Row(key=key[0], what="row", n=row.total)
        self._count.update((count,))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(key=key[0], what="timer", n=expiredTimerInfo.getExpiryTimeInMs())


def watched(frame: Any, rates: DataFrame) -> Any:
    """Deduplicated for as long as rows may be late, five minutes together, and a processor with timers."""
    timed = frame.withWatermark("ts", f"{DELAY_MS} milliseconds")
    unique = timed.dropDuplicatesWithinWatermark(["key", "ts"]).join(rates, "key", "left_anti")
    inner = unique.groupBy("key", F.window("ts", "5 minutes")).agg(F.sum("value").alias("total"))
    ended = inner.select("key", F.window_time("window").alias("end"), "total")
    return ended.groupBy("key").transformWithState(Watch(), "key string, what string, n long", "append", "eventTime")


class Rates:
    """A static table that changes between two micro-batches: a file that is written anew."""

    def __init__(self, world: World) -> None:
        self._path = world.folder / "rates" / "rates.csv"
        self._path.parent.mkdir()
        self.write("a", 3)
        self.frame = world.spark.read.schema("key string, rate long").csv(str(self._path.parent))

    def write(self, key: str, rate: int) -> None:
        self._path.write_text(f"{key},{rate}\n")


def taken(writer: Any, world: World, change: Callable[[], None]) -> tuple[Any, dict[int, list[Any]]]:
    """The progress of a query, and what it delivers, in order, of micro-batches that have rows.

    Args:
        writer: the query's.
        world: its folders.
        change: is called after the second delivery.
    """
    found: dict[int, list[Any]] = {}

    def take(rows: DataFrame, number: int) -> None:
        got = sorted((tuple(row) for row in rows.collect()), key=repr)
        if got:
            found[len(found)] = got  # nobody is called without rows here, so ids have no gaps as stock's have
            if len(found) == CHANGED_BEHIND + 1:
                change()

    query = writer.foreachBatch(take).option("checkpointLocation", str(world.checkpoints))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination(300)
    return query.recentProgress, found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rate"), [("ways", ("a", 5)), ("watched", ("b", 0))])
def test_a_chain_gives_what_stock_does_batch_by_batch(worlds: Any, name: str, rate: tuple[str, int]) -> None:
    """C2, C13: the same rows in the same micro-batch, the same rows dropped, over three stages in a row; a static table
    between them is read anew for each."""
    described = {"ways": ways, "watched": watched}[name]
    batches = batches_of(seed=3)
    stock, ours = worlds(), worlds()
    tables = {}
    for world in (stock, ours):
        world.land(*batches)
        tables[world] = Rates(world)
    # Only a processor needs the store that takes longer.
    with (support.rocksdb_state_store if name == "watched" else support.one_partition)(stock.spark):
        writer = described(stock.live(maxFilesPerTrigger="1"), tables[stock].frame).writeStream
        progress, wanted = taken(writer, stock, lambda: tables[stock].write(*rate))
    job = described(mixedmode.read(live=ours.live(maxFilesPerTrigger="1")), tables[ours].frame)
    ours_progress, given = taken(job.writeStream.options(**STREAM), ours, lambda: tables[ours].write(*rate))

    assert given == wanted
    assert CHANGED_BEHIND in wanted and len(wanted) > 3, "the table has changed, and there is something to compare"
    # Stock counts the rows of an aggregate when it has aggregated them; those of the first operator, a deduplication.
    dropped = [p.stateOperators[-1].numRowsDroppedByWatermark for p in progress if p.numInputRows]
    assert [p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in ours_progress if p["numInputRows"]] == dropped
    assert sum(dropped) > 5
