"""The two sides of a join: one that ends, one that is late, one that falls behind, and one key that most rows have."""

from __future__ import annotations

from typing import Any

import joins
import pytest
import support
from joins import FURTHER, IN_RANGE, Pair, Sided
from mixedmode.state.store import state_manifest

COMMITS = {"execution.checkpointing.interval": "1 ms"}
#: In order of time, with event times.
ROWS = sorted(
    ((side, event) for side, event in joins.sides_of(seed=21, rows=200) if event[1] is not None),
    key=lambda row: row[1][1],
)


def entries(query: Any) -> int:
    """How many entries the state's files had after the last epoch."""
    (found,) = query.lastProgress["stateOperators"]
    return int(found["numRowsTotal"])


@pytest.mark.slow
def test_a_side_that_ends_lets_the_other_ones_state_go(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """J9, J11: the left is history alone.  Checkpoints go on, the right's watermark is the only one from there on, rows
    of the left go out or are dropped as it passes them, and right rows find no place in the state."""
    # What is forgotten is gone from the files with the checkpoint after.
    monkeypatch.setattr(state_manifest, "_FULL_MIN_BYTES", 0)
    monkeypatch.setattr(state_manifest, "_LOGS_MAX", 0)
    lefts = [(0, event) for event in joins.of_side(ROWS, 0)]
    rights = [row for row in ROWS if row[0] == 1]
    query = pair.left.start(
        joins.joined(*pair.read(left=joins.of_side(lefts, 0), live=(False, True)), "left", IN_RANGE), COMMITS
    )
    support.live(query)
    came: list[Sided] = list(lefts)
    taken = query.status["checkpoint"]
    before = entries(query)
    flush = [joins.FLUSH[1:], [(1, (joins.FLUSH_KEY, joins.FLUSH_S + 1000, 0))]]
    for part in (rights[: len(rights) // 2], rights[len(rights) // 2 :], *flush):
        pair.land(part)
        query.processAllAvailable()
        support.wait_until(lambda: support.is_at_rest(query))  # the next epoch counts what a compaction has left
        came += part
        expected = joins.out_at(came, "left", joins.watermark_ms(query))
        assert joins.shown(pair.left.output()) == expected
    assert query.status["checkpoint"] >= taken + 4
    for later in range(1, 10):  # an epoch counts what the compaction before it has left, which may be behind
        if before > 3 * entries(query):
            break
        more: list[Sided] = [(1, (joins.FLUSH_KEY, joins.FLUSH_S + 1000 + later, 0))]
        pair.land(more)
        query.processAllAvailable()
        support.wait_until(lambda: support.is_at_rest(query))
        came += more
    assert before > 3 * entries(query), "what is left is of the rows that brought the watermark"
    query.stop()
    assert joins.shown(pair.left.output()) == pair.expected(came, "left")


@pytest.mark.slow
def test_late_rows_are_dropped_and_counted_by_side(pair: Pair) -> None:
    """J8: rows behind the watermark of either side go to the folder of late rows and find no partners; the side that
    is ahead is not held against the one behind."""
    first: list[Sided] = [(0, ("1", 5000, 1)), (1, ("1", 5000, 2)), (0, ("2", 9000, 1))]
    late: list[Sided] = [(0, ("1", 4800, 3)), (1, ("1", 4801, 4)), (1, ("1", 4700, 5)), (1, ("1", 5001, 6))]
    path = str(pair.left.folder / "late")
    pair.land(first)
    query = pair.left.start(joins.joined(*pair.read(), "full", IN_RANGE), {**COMMITS, "pipeline.late-data.path": path})
    support.live(query)
    pair.land(late)
    query.processAllAvailable()
    dropped = [p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in query.recentProgress]
    assert sum(dropped) == 3
    rows = query.lateRows.collect()
    assert len(rows) == 3
    pair.land(joins.FLUSH)
    support.finish(query)
    kept = [row for row in [*first, *late] if row[1][2] not in (3, 4, 5)]
    assert joins.without_flush(joins.shown(pair.left.output())) == joins.out_at(kept, "full", support.at_ms(900_000))


@pytest.mark.slow
def test_a_stream_that_falls_behind_is_joined_as_backlog_again(pair: Pair) -> None:
    """What waits then meets the state in sorted passes: each pair once, whichever pass or epoch its rows came in."""
    query = pair.left.start(
        joins.joined(*pair.read(*(joins.of_side(ROWS[:60], side) for side in (0, 1))), "full", FURTHER),
        {**COMMITS, "pipeline.backlog.watermark-lag-threshold": "1 hour"},
    )
    support.live(query)
    came = ROWS[:60]
    for part in (ROWS[60:120], ROWS[120:170], ROWS[170:], joins.FLUSH):
        pair.land(part)
        query.processAllAvailable()
        came = came + part
        assert joins.shown(pair.left.output()) == joins.out_at(came, "full", joins.watermark_ms(query), further=True)
    modes = [p.mode for p in query.recentProgress if p.numInputRows]
    assert modes.count("backlog") >= 2, modes
    query.stop()
