"""Windows over epochs: when they fire, with which rows, and what becomes of late ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from aggregate_support import SHARDS, events, measures, ms, oracle, out_of_order, same
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_options import session_options


@pytest.mark.slow
@pytest.mark.parametrize("style", ["sorted", "random"])
@pytest.mark.parametrize("slide", ["10 minutes", "4 minutes"])
def test_windows_fire_once_with_all_rows_that_were_not_late(
    spark: SparkSession, job: Any, style: Any, slide: str
) -> None:
    """Tumbling and sliding windows over out-of-order epochs, under a watermark that moves after each of them."""
    window = F.window("ts", "10 minutes", slide)
    frame = events(spark, out_of_order(epochs=4, seed=7))
    operator = plan_aggregate(frame, ["k", window], measures(), event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    watermarks = [ms(-120), ms(10), ms(40), ms(70)]
    windows = frame.select("*", window.alias("window"))
    late_at = F.element_at(F.array(*[F.lit(w) for w in watermarks]), F.col("e") + 1)
    on_time = windows.where(F.unix_millis(F.col("window.end")) > late_at)
    out: list[tuple[Any, ...]] = []
    late = 0
    for epoch, watermark in enumerate(watermarks):
        fired = running.run(frame.where(F.col("e") == epoch), late_ms=watermark, firing_ms=watermark, style=style)
        assert all(row[1]["end"].timestamp() * 1000 <= watermark for row in fired)
        if style == "random":
            ends = [row[1]["end"] for row in fired]
            assert sum(left > right for left, right in pairwise(ends)) <= SHARDS - 1
        out += fired
        late += running.total("rows_late")
        seen = on_time.where(F.col("e") <= epoch)
        still_open = seen.where(F.unix_millis(F.col("window.end")) > watermark).select("k", "window").distinct()
        assert running.stored_entries() == 2 * still_open.count(), "a cell and a timer for each open window"
        earliest = min(
            (c.next_event_timer_ms for c in running.counters if c.next_event_timer_ms is not None), default=None
        )
        assert earliest == still_open.agg(F.min(F.unix_millis("window.end"))).first()[0]  # type: ignore[index]
    # A row is late if even the latest of its windows is.
    latest = windows.groupBy("e", "k", "ts", "v", "t").agg(F.max("window.end").alias("end"))
    counted = frame.where("ts IS NOT NULL").join(latest.drop("k", "t"), ["e", "ts", "v"])
    assert late == counted.where(F.unix_millis("end") <= late_at).count() > 0
    out += running.run(None, firing_ms=MAX_WATERMARK, style=style)
    assert running.stored_entries() == 0
    assert running.counters[0].next_event_timer_ms is None
    same(out, oracle(on_time, ["k", "window"], measures()))


def test_a_fired_window_opens_again_for_later_rows(spark: SparkSession, job: Any) -> None:
    """Under a final watermark of MAX at the switch, a straddling window fires, and fires again with the rest."""
    frame = events(spark, [(0, "a", 1, 1), (1, "a", 2, 2)])
    groups = ["k", F.window("ts", "10 minutes")]
    operator = plan_aggregate(frame, groups, [F.sum("v")], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    assert [row[2] for row in running.run(frame.where("e = 0"), firing_ms=MAX_WATERMARK)] == [1]
    assert running.run(frame.where("e = 1"), style="random") == []
    assert [row[2] for row in running.run(None, firing_ms=ms(10), style="random")] == [2]


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_update_mode_emits_touched_windows_and_forgets_past_ones(spark: SparkSession, job: Any, style: Any) -> None:
    """Each touched window comes out once per epoch with all its rows; behind the watermark its state is gone."""
    frame = events(spark, [(0, "a", 1, 1), (0, "b", 1, 10), (0, "a", 11, 100), (1, "a", 2, 2), (1, "a", 12, 200)])
    groups = ["k", F.window("ts", "10 minutes")]
    operator = plan_aggregate(frame, groups, [F.sum("v")], event_time="ts", output_mode="update", uid="agg")
    running = job(operator)
    assert sorted(row[2] for row in running.run(frame.where("e = 0"), style=style)) == [1, 10, 100]
    assert sorted(row[2] for row in running.run(frame.where("e = 1"), firing_ms=ms(10), style=style)) == [3, 300]
    assert running.stored_entries() == 2, "one open window: its cell and its timer"
    assert running.run(None, firing_ms=ms(20), style=style) == []
    assert running.stored_entries() == 0


def test_event_time_as_a_key_of_its_own_is_complete_at_the_watermark(spark: SparkSession, job: Any) -> None:
    """Grouping by the watermark's column itself: each instant fires when the watermark reaches it."""
    frame = events(spark, [(0, "a", 1, 1), (0, "a", 2, 2), (0, "a", 2, 4), (1, "a", 1, 8)])
    operator = plan_aggregate(frame, ["ts"], [F.sum("v")], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    assert [row[1] for row in running.run(frame.where("e = 0"), firing_ms=ms(1))] == [1]
    assert max(c.max_event_time_ms for c in running.counters if c.max_event_time_ms is not None) == ms(2)
    assert running.run(frame.where("e = 1"), late_ms=ms(1), firing_ms=ms(1)) == []
    assert running.total("rows_late") == 1
    assert {c.max_event_time_ms for c in running.counters} == {None}
    assert [row[1] for row in running.run(None, firing_ms=ms(2))] == [6]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
def test_session_time_zone_makes_no_difference_to_instants(spark: SparkSession, job: Any, zone: str) -> None:
    """Windows on timestamp and timestamp_ntz columns under a session time zone other than the process's."""
    with session_options(spark, {"spark.sql.session.timeZone": zone}):
        frame = events(spark, out_of_order(epochs=2, seed=9)).withColumn("n", F.col("ts").cast("timestamp_ntz"))
        for column in ("ts", "n"):
            groups = ["k", F.window(column, "1 hour", "30 minutes")]
            exprs = [F.count("*"), F.max("ts"), F.min("n")]
            operator = plan_aggregate(frame, groups, exprs, event_time=column, output_mode="append", uid="agg")
            running = job(operator)
            out = running.run(frame.where("e = 0"), firing_ms=ms(0) - 86_400_000)
            out += running.run(frame.where("e = 1"), firing_ms=MAX_WATERMARK)
            expected = oracle(frame, groups, exprs)
            same(out, expected)
