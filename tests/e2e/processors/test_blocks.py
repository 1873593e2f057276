"""A processor on blocks of keys, end to end: what plain Spark gives, over the same state as key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import support
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(300, seed=4)
OUTPUT = "key string, n long, total long"


class ByKey(StatefulProcessor):
    """Counts and sums."""

    def init(self, handle: Any) -> None:
        self._totals = handle.getValueState("totals", "n long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        n, total = self._totals.get() or (0, 0)
        for row in rows:
            n, total = n + 1, total + row.value
        self._totals.update((n, total))
        yield (key[0], n, total)


class InBlocks(ByKey):
    """The same of many keys at once."""

    def handleArrowRows(self, block: Any, timerValues: Any) -> Iterator[pa.RecordBatch]:
        totals = block.value("totals")
        before = totals.get()
        n = np.diff(block.starts) + before.field("n").fill_null(0).to_numpy()
        total = np.add.reduceat(block.rows["value"].to_numpy(), block.starts[:-1])
        total += before.field("total").fill_null(0).to_numpy()
        totals.update({"n": n, "total": total})
        yield pa.record_batch({"key": block.keys["key"], "n": n, "total": total})


def totals_of(world: World, processor: StatefulProcessor, time_mode: str = "none") -> Any:
    read = world.read(EVENTS[:200])
    keyed = read.withWatermark("ts", "1 hour").groupBy("key")
    return keyed.transformWithState(processor, OUTPUT, "append", time_mode).uid("totals")


@pytest.mark.slow
def test_blocks_and_single_keys_take_over_from_each_other(worlds: Callable[[], World]) -> None:
    """The history in blocks, the stream in blocks, and after a restart key by key: each key's last row is that of all
    its rows."""
    world = worlds()
    query = support.live(world.start(totals_of(world, InBlocks())))
    world.land(EVENTS[200:260])
    support.finish(query)
    query = world.start(totals_of(world, ByKey()))
    world.land(EVENTS[260:])
    support.finish(query)
    expected: dict[str, tuple[int, int]] = {}
    for key, _, value in EVENTS:
        n, total = expected.get(key, (0, 0))
        expected[key] = (n + 1, total + value)
    found: dict[str, tuple[int, int]] = {}
    for key, n, total in world.output():
        found[key] = max(found.get(key, (0, 0)), (n, total))
    assert found == expected


def test_timers_between_the_rows_of_a_key_are_refused(worlds: Callable[[], World]) -> None:
    """start() says what to set."""
    world = worlds()
    options = {"execution.backlog.final-watermark": "observed"}
    error = support.refusal(lambda: world.start(totals_of(world, InBlocks(), "eventTime"), options))
    assert "pipeline.timers is in-order" in str(error) and "after-rows" in str(error)
