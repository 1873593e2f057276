"""Joins of two streams, from history to stream: against Spark's batch join, and a model of what is out when."""

from __future__ import annotations

import random
from typing import Any

import joins
import mixedmode
import pytest
from joins import FURTHER, IN_RANGE, Pair
from support import live

#: Ways to join with a further condition or without, and which sides have a history.  (Rows of the right side alone that
#: find no partner, and joins without a history: test_window_joins.py; rows of both sides without a partner are here.)
CUTS = {
    "inner": (FURTHER, (True, True)),
    "full": (FURTHER, (False, True)),
    "leftsemi": (IN_RANGE, (True, False)),
}
COMMITS = {"execution.checkpointing.interval": "1 ms"}


def has_times(row: tuple[Any, ...]) -> bool:
    """Whether what the row is made of has event times; one that has none waits for the end."""
    return all(row[at + 1] is not None for at in range(0, len(row), 3) if row[at + 2] is not None)


@pytest.mark.parametrize("how", [pytest.param(how, marks=() if how == "inner" else pytest.mark.slow) for how in CUTS])
def test_any_cut_gives_what_batch_gives(pair: Pair, how: str) -> None:
    """J2-J7: history of one side or of both; what waits; files of one side or of both, other shards,
    a restart with others, and a drain: after each epoch that is out which the watermark allows, at the end all that
    batch gives."""
    condition, histories = CUTS[how]
    rows = joins.sides_of(seed=7, rows=260)
    chance = random.Random(how)
    cuts = sorted([90, 130, *chance.sample(range(135, len(rows)), 3)])
    parts = [rows[here:there] for here, there in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    past = [joins.of_side(parts[0], side) if has else None for side, has in enumerate(histories)]
    pair.land([(side, event) for side, event in parts[0] if not histories[side]])
    pair.land(parts[1])

    def start(parallelism: int) -> Any:
        keyed = joins.joined(*pair.read(*past), how, condition)
        query = live(pair.left.start(keyed, {**COMMITS, "pipeline.parallelism": parallelism}))
        return query

    came = parts[0] + parts[1]

    def check(query: Any) -> None:
        expected = joins.out_at(came, how, joins.watermark_ms(query), condition == FURTHER)
        assert joins.shown(filter(has_times, pair.left.output())) == expected

    query = start(2)
    check(query)
    for number, part in enumerate(parts[2:]):
        if number == 0:
            query.rescale(3)
        if number == 2:
            query.stop()
            query = start(4)
        pair.land(part)
        query.processAllAvailable()
        came = came + part
        check(query)
    assert not any(one["numRowsDroppedByWatermark"] for p in query.recentProgress for one in p["stateOperators"])
    query.stopWithSavepoint(str(pair.left.folder / "drained"), drain=True)
    assert joins.shown(pair.left.output()) == pair.expected(rows, how, condition)
    reader = mixedmode.state_reader(str(pair.left.folder / "drained"), pair.spark)
    assert (reader.timers().count(), reader.state().count()) == (0, 0)
