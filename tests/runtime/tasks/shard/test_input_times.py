"""What the tasks of an epoch say of how far the event times of each input go."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.connectors.sources.live_inputs import INPUT_COLUMN, LiveInput, by_input
from mixedmode.runtime.tasks.shard.input_times import InputTimes

_ROWS = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.none() | st.integers(-(10**15), 10**15)), max_size=8)


def _batch(rows: list[tuple[int | None, int | None]]) -> pa.RecordBatch:
    numbers = pa.array([number for number, _ in rows], pa.int32())
    times = pa.array([time_us for _, time_us in rows], pa.timestamp("us", "UTC"))
    return pa.record_batch({INPUT_COLUMN: numbers, "time": times})


@given(st.lists(_ROWS, max_size=4))
def test_the_greatest_event_time_of_each_input_is_told_and_the_rows_pass(parts: list[list[tuple[int, int]]]) -> None:
    """In milliseconds, rounded down; an input whose rows have no event time has none; who gave no row is not named."""
    times = InputTimes("time")
    batches = list(map(_batch, parts))
    assert list(times.reading(iter(batches))) == batches
    expected: dict[int, int | None] = {}
    for number, time_us in (row for part in parts for row in part):
        if number is not None:
            known = [one for one in (expected.get(number), time_us) if one is not None]
            expected[number] = max(known, default=None)
    assert dict(times.seen) == {
        number: None if time_us is None else time_us // 1000 for number, time_us in expected.items()
    }


def test_the_frames_of_an_input_count_together() -> None:
    """A history that precedes a live input moves its watermark; frames of nobody move none."""
    inputs = [LiveInput("a", (0, 2)), LiveInput("b", (1,)), LiveInput("c", (3,))]
    assert by_input([(0, 5), (2, 7), (1, None), (9, 100), (0, None)], inputs) == {"a": 7, "b": None}
