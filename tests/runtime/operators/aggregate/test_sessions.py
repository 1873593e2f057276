"""Session windows over epochs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aggregate_support import at, events, measures, ms, oracle, same
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_sessions_merge_across_epochs(spark: SparkSession, job: Any, style: Any) -> None:
    """Rows of later epochs extend, bridge and precede sessions that wait in the state; each fires once."""
    window = F.session_window("ts", "5 minutes")
    rng = random.Random(3)
    rows = [(rng.randrange(3), rng.choice(["a", "b", None]), rng.uniform(0, 200), v) for v in range(90)]
    # Exactly touching sessions are one, as in Spark; 0.1 ms further they are two.
    rows += [(0, "touch", 0.0, 1), (1, "touch", 5.0, 2), (2, "touch", 10.0 + 1e-5, 3), (1, "c", 100.0, 1)]
    frame = events(spark, rows)
    operator = plan_aggregate(frame, [window, "k"], measures(), event_time="ts", output_mode="append", uid="agg")
    running = job(operator, batch_rows=3)
    for epoch in range(3):
        assert running.run(frame.where(F.col("e") == epoch), style=style) == []
        assert running.total("rows_late") == 0
    out = running.run(None, firing_ms=ms(100), style=style)
    expected = oracle(frame, [window, "k"], measures())
    due = [row for row in expected if row[0]["end"].timestamp() * 1000 <= ms(100)]
    assert 0 < len(due) < len(expected)
    same(out, due)
    assert running.total("timers_fired") == len(due)
    open_ends = [row[0]["end"].timestamp() * 1000 for row in expected if row not in due]
    assert min(c.next_event_timer_ms for c in running.counters if c.next_event_timer_ms) == int(min(open_ends))
    out += running.run(None, firing_ms=MAX_WATERMARK, style=style)
    same(out, expected)
    assert running.stored_entries() == 0


def test_a_late_session_row_is_dropped_unless_it_joins_an_open_session(spark: SparkSession, job: Any) -> None:
    """A session that ends at or before the watermark is late; one that ends after it merges with what is open."""
    frame = events(spark, [(0, "a", 10, 1), (1, "a", 3, 2), (1, "a", 6, 4), (2, "a", 1, 8)])
    window = F.session_window("ts", "5 minutes")
    operator = plan_aggregate(frame, ["k", window], measures()[:2], event_time="ts", output_mode="append", uid="agg")
    running = job(operator)
    running.run(frame.where("e = 0"))
    assert running.run(frame.where("e = 1"), late_ms=ms(9), firing_ms=ms(9)) == []
    assert running.total("rows_late") == 0
    assert running.run(frame.where("e = 2"), late_ms=ms(9), firing_ms=ms(9), style="random") == []
    assert running.total("rows_late") == 1
    [row] = running.run(None, firing_ms=ms(15), style="random")
    assert row[0] == "a"
    assert row[2:] == (3, 7)
    assert [row[1][end].replace(tzinfo=None) for end in ("start", "end")] == [at(3), at(15)]
