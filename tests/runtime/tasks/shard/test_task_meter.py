"""What a task measures: exclusive times of its phases, bytes, and how it found its state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.runtime.tasks.shard import task_meter as meter_module
from mixedmode.runtime.tasks.shard.task_meter import TaskMeter

BATCH = pa.RecordBatch.from_pydict({"n": pa.array(range(8), pa.int64())})


class Clock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    time = staticmethod(time.time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(meter_module, "time", stopped)
    return stopped


def slow(clock: Clock, seconds: float, *batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Batches that take a while to come, as does the news that there are no more."""
    for batch in batches:
        clock.now += seconds
        yield batch
    clock.now += seconds


def test_times_of_phases_are_exclusive(clock: Clock) -> None:
    """Rows that the operator pulls through sorter and input are counted where the time went."""
    meter = TaskMeter()
    with meter.processing():
        for _ in meter.reading(slow(clock, 1, BATCH, BATCH)):
            with meter.sorting():
                clock.now += 10
        for _ in meter.merged(slow(clock, 100, BATCH)):
            clock.now += 1000
    durations_ms, counts = meter.finish()
    assert durations_ms == {"read": 3_000, "sort": 220_000, "process": 1_000_000}
    assert counts["inputBytes"] == 2 * BATCH.nbytes


def test_rows_are_pulled_one_batch_at_a_time(clock: Clock) -> None:
    """Measuring does not read ahead."""
    pulled: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            pulled.append(number)
            yield BATCH

    rows = TaskMeter().reading(batches())
    next(rows)
    assert pulled == [0]


@pytest.mark.parametrize(
    ("brought", "expected"),
    [
        ({}, {"replicaHits": 1, "replicaMisses": 0, "stateFilesRead": 0, "stateBytesRead": 0}),
        (
            {"files_brought": 2, "bytes_brought": 30},
            {"replicaHits": 1, "replicaMisses": 0, "stateFilesRead": 2, "stateBytesRead": 30},
        ),
        (
            {"rebuilds": 1, "files_brought": 5, "bytes_brought": 90},
            {"replicaHits": 0, "replicaMisses": 1, "stateFilesRead": 5, "stateBytesRead": 90},
        ),
    ],
)
def test_a_local_copy_that_is_brought_on_was_in_place(clock: Clock, brought: dict[str, int], expected: Any) -> None:
    """Only a local copy that had to be built anew counts as a miss."""
    cache: Any = SimpleNamespace(rebuilds=7, files_brought=70, bytes_brought=700)
    meter = TaskMeter()
    with meter.restoring(cache):
        clock.now += 2
        for name, more in brought.items():
            setattr(cache, name, getattr(cache, name) + more)
    durations_ms, counts = meter.finish()
    assert durations_ms == {"restore": 2_000}
    assert {name: counts[name] for name in expected} == expected
