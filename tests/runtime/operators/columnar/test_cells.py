"""Cells and timer entries of keys without state, written from Arrow's arrays as one by one; no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mixedmode.runtime.operators.columnar.cells import ShardCells
from mixedmode.state.codec.byte_arrays import bytes_of

KEYS = [(0, b"a\0"), (0, b"b\0"), (0, b"c\0"), (2, b"a\0"), (2, b"d\0"), (5, b"a\0")]
TIMES_MS = [30, -7, 30, 12, 5, 1]
TIMED = [True, True, True, False, True, True]


class Entries(list[tuple[bytes, Any]]):
    """What a writer was given."""

    def put_many(self, keys: list[bytes], values: list[bytes | None]) -> None:
        self += zip(keys, values, strict=True)

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        self.put_many(bytes_of(keys), bytes_of(values))


def cells(entries: Entries) -> ShardCells:
    """Of a shard without state."""
    counters = SimpleNamespace(next_event_timer_ms=None)
    epoch = SimpleNamespace(keep_state=True, firing_watermark_ms=0)
    return ShardCells(SimpleNamespace(writer=entries, epoch=epoch, base=None, counters=counters), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", range(len(KEYS) + 1))
def test_new_cells_and_their_timers_are_those_that_are_written_one_by_one(cut: int) -> None:
    """Wherever calls are cut, in the middle of a key group too, entries ascend and the next timer is known."""
    groups = np.array([group for group, _ in KEYS], dtype=np.int32)
    keys = pa.array([key for _, key in KEYS], pa.binary())
    values = pa.array([bytes([place]) for place in range(len(KEYS))], pa.binary())
    times, timed = np.array(TIMES_MS, dtype=np.int64), np.array(TIMED)
    found, expected = Entries(), Entries()
    new, one_by_one = cells(found), cells(expected)
    for some in (slice(0, cut), slice(cut, len(KEYS))):
        new.write_new(groups[some], keys[some], values[some], times[some], timed[some])
        at = np.flatnonzero(timed[some])
        index = one_by_one.index_changes(groups[some][at], keys[some].take(pa.array(at)), times[some][at], True)
        one_by_one.write(groups[some], one_by_one.names(groups[some], keys[some]), bytes_of(values[some]), index)
    new.close(timed=True)
    one_by_one.close(timed=True)
    assert found == expected
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    assert new._context.counters.next_event_timer_ms == one_by_one._context.counters.next_event_timer_ms == -7
