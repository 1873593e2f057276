"""The rules of lateness at their bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from mixedmode.runtime.operators.admission import can_be_late, note_event_time, rows_in_time, windows_over
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("us")])
def test_a_row_is_late_strictly_before_the_bound(kind: pa.DataType) -> None:
    """One microsecond decides, in every unit; a row without event time is in time."""
    micros = pa.array([4_999_999, 5_000_000, 5_000_001, None], pa.timestamp("us"))
    assert rows_in_time(micros.cast(kind), 5_000).to_pylist() == [False, True, True, True]


def test_a_window_is_over_at_its_end() -> None:
    """A window that ends where the bound is takes no rows any more."""
    assert windows_over(np.array([4_999, 5_000, 5_001]), 5_000).tolist() == [True, True, False]


def test_nothing_is_late_before_anything_has_fired() -> None:
    """The least watermark is none."""
    assert not can_be_late(MIN_WATERMARK) and can_be_late(MIN_WATERMARK + 1)


def test_the_greatest_event_time_only_grows() -> None:
    """Rounded down to milliseconds, also before 1970; rows without event time say nothing."""
    counters = ShardCounters()
    seen = []
    for micros in ([None], [-1], [-5_000], [1_999, None], [1_000]):
        note_event_time(counters, pa.array(micros, pa.timestamp("us", "UTC")))
        seen.append(counters.max_event_time_ms)
    assert seen == [None, -1, -1, 1, 1]
