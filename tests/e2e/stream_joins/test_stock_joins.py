"""Joins of two streams against stock Structured Streaming, micro-batch by micro-batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import joins
import pytest
import support
from joins import FURTHER, IN_RANGE, Pair, Sided
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EACH = {"maxFilesPerTrigger": "1"}
STREAM = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "1 ms", "pipeline.parallelism": 2}


def batches_of(seed: int, batches: int, rows: int, *, without_keys: bool = False) -> list[list[Sided]]:
    """Micro-batches of both sides, in which rows of either come too late, too; one is empty, one is of one side.

    All rows have keys unless ``without_keys``: stock's full join (4.3) takes two nulls for equal, unlike batch, and its
    others drop late rows without a key before they count them.
    """
    chance, made = random.Random(seed), []
    every = [
        row for row in joins.sides_of(seed, batches * rows) if row[1][1] is not None and (without_keys or row[1][0])
    ]
    for first in range(0, len(every), rows):
        part = every[first : first + rows]
        late = [(side, (key, chance.randrange(200, 1900), value)) for side, (key, _, value) in part[::7]]
        made.append(part + (late if made else []))
    one_side = [(side, event) for side, event in made[1] if side == 0]
    return [made[0], one_side, [], *made[2:], joins.FLUSH]


def taken(writer: Any, checkpoints: str) -> tuple[Any, dict[int, list[str]]]:
    """What a query with AvailableNow tells of its micro-batches, and what it delivers in each that has rows."""
    found: dict[int, list[str]] = {}

    def take(rows: DataFrame, number: int) -> None:
        if got := joins.shown(map(tuple, rows.collect())):
            found[len(found)] = got  # nobody is called without rows here, so ids have no gaps as stock's have

    query = writer.foreachBatch(take).option("checkpointLocation", checkpoints).trigger(availableNow=True).start()
    query.awaitTermination(300)
    return query.recentProgress, found


def dropped(progress: Any) -> list[int]:
    return [p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in progress if p["numInputRows"]]


def compared(worlds: Callable[[], Any], batches: list[list[Sided]], job: Callable[[Any, Any], Any]) -> Any:
    """Deliveries of both, in order, and the late rows of each micro-batch."""
    pair = Pair(worlds())
    for batch in batches:
        pair.land(batch, each=True)
    with support.one_partition(pair.spark):
        theirs, wanted = taken(job(*pair.stock(**EACH)).writeStream, str(pair.left.folder / "stock"))
    ours, given = taken(job(*pair.read(**EACH)).writeStream.options(**STREAM), str(pair.left.checkpoints))
    return given, wanted, dropped(ours), dropped(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "condition"), [("full", IN_RANGE), ("leftsemi", FURTHER)])
def test_a_join_gives_what_stock_does_batch_by_batch(worlds: Any, how: str, condition: str) -> None:
    """J2-J4, J8: the same rows in the same micro-batch, with late rows on both sides, of which as many are dropped.

    Those of an inner, left or right join are among those of a full one.
    """
    batches = batches_of(seed=4, batches=3, rows=60)
    given, wanted, ours, theirs = compared(worlds, batches, lambda *sides: joins.joined(*sides, how, condition))
    assert given == wanted
    assert sum(map(len, wanted.values())) > 40 or how == "leftsemi"
    assert (ours, sum(ours) >= 5) == (theirs, True)


@pytest.mark.slow
def test_windows_of_a_join_fire_in_stocks_micro_batch(worlds: Any) -> None:
    """J12, C2: windows over a join's rows fire when the join can give none of them any more, in that very epoch.

    J7: an outer row without a key, which equals none, goes out when its time is over as all others do.
    """

    def job(left: Any, right: Any) -> Any:
        windows = joins.joined(left, right, "left").groupBy("num", F.window("ts", "10 minutes"))
        return windows.agg(F.count("*").alias("rows"), F.count("cents").alias("paid"), F.sum("cents").alias("cents"))

    given, wanted, *_ = compared(worlds, batches_of(seed=5, batches=4, rows=50, without_keys=True), job)
    assert given == wanted
    assert len(wanted) >= 3
    assert any(row.startswith("(None, ") for rows in wanted.values() for row in rows)


@pytest.mark.slow
def test_a_row_at_the_very_watermark_is_in_time_here_and_late_in_stock(worlds: Any) -> None:
    """Stock drops the partner at the watermark and puts out the left row with nulls; here late is strictly before, so
    the pair is there, as in batch."""
    batches: list[list[Sided]] = [
        [(0, ("1", 0, 5)), (0, ("2", 300, 5)), (1, ("2", 300, 5))],  # the watermark is 300
        [(0, ("3", 400, 5)), (1, ("3", 400, 5))],
        [(1, ("1", 300, 7))],
        joins.FLUSH,
    ]

    def job(left: Any, right: Any) -> Any:
        return left.withWatermark("ts", "0 seconds").join(
            right.withWatermark("paid", "0 seconds"), F.expr(IN_RANGE), "left"
        )

    given, wanted, ours, theirs = compared(worlds, batches, job)
    kept, missed = (
        {row for rows in found.values() for row in joins.without_flush(rows) if row.startswith("(1.0")}
        for found in (given, wanted)
    )
    early = (1.0, support.at(0), 5)
    assert kept == {repr((*early, 1.0, support.at(300), 7))}
    assert missed == {repr((*early, None, None, None))}
    assert (sum(ours), sum(theirs)) == (0, 1)
