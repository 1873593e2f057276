"""Windows that overlap, made of panes, against each row in all of its windows; no Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.scan.partial_scans import Overlap
from mixedmode.runtime.tasks.scan.sliding_windows import in_all_windows
from mixedmode.state.keys.key_hash import key_groups

TIME = pa.timestamp("us", "UTC")
WINDOW = pa.struct([("start", TIME), ("end", TIME)])
SCHEMA = pa.schema([("__kg", pa.int32()), ("w", WINDOW), ("k", pa.int64()), ("__rows", pa.int64()), ("s", pa.int64())])
MOST = 2**63 - 1


def panes(rows: list[tuple[int, int, int]], slide_us: int) -> pa.RecordBatch:
    """Each row, as time, key and value, as a partial aggregate of its pane."""
    starts = np.array([time // slide_us * slide_us for time, _, _ in rows], dtype=np.int64)
    bounds = [pa.array(starts).view(TIME), pa.array(starts + slide_us).view(TIME)]
    columns = [pa.array([row[place] for row in rows], pa.int64()) for place in (1, 2)]
    windows = pa.StructArray.from_arrays(bounds, fields=list(WINDOW))
    ones = pa.array([1] * len(rows), pa.int64())
    return pa.RecordBatch.from_arrays(
        [pa.array([0] * len(rows), pa.int32()), windows, columns[0], ones, columns[1]], schema=SCHEMA
    )


@given(
    st.lists(st.tuples(st.integers(-200, 200), st.integers(0, 2), st.integers(-5, 5)), max_size=12),
    st.integers(1, 40),
    st.integers(1, 4),
)
def test_each_row_is_in_all_of_its_windows_and_counts_in_the_latest(
    rows: list[tuple[int, int, int]], slide_us: int, count: int
) -> None:
    """Sums, counts and key groups are those of rows that are looked up in every window."""
    overlap = Overlap(slide_us, count * slide_us, "__rows")
    found = in_all_windows(panes(rows, slide_us), "w", overlap, ("k", "w"), 128)
    groups = found.column(0).to_numpy()
    assert (groups[1:] >= groups[:-1]).all()
    if rows:
        assert groups.tolist() == key_groups([found.column("k"), found.column("w")], 128, len(groups)).tolist()
    sums: dict[tuple[int, int, int], tuple[int, int]] = {}
    for window, key, number, value in zip(*[found.column(name).to_pylist() for name in SCHEMA.names[1:]], strict=True):
        start, end = (round(window[side].timestamp() * 1_000_000) for side in ("start", "end"))
        counted, added = sums.get((start, end, key), (0, 0))
        sums[start, end, key] = counted + number, added + value
    wanted: dict[tuple[int, int, int], tuple[int, int]] = {}
    for time, key, value in rows:
        for start in range(-400 * slide_us, 400 * slide_us, slide_us):
            if start <= time < start + overlap.length_us:
                counted, added = wanted.get((start, start + overlap.length_us, key), (0, 0))
                is_latest = time < start + slide_us
                wanted[start, start + overlap.length_us, key] = counted + is_latest, added + value
    assert sums == wanted


@pytest.mark.parametrize("start", [-MOST, MOST - 30])
def test_windows_where_there_is_no_time_are_left_to_spark(start: int) -> None:
    """A window that would begin before the least time, or end behind the greatest, stops the scan."""
    batch = panes([(0, 1, 1)], 10)
    bounds = [pa.array([start]).view(TIME), pa.array([start + 10]).view(TIME)]
    batch = batch.set_column(1, SCHEMA.field(1), pa.StructArray.from_arrays(bounds, fields=list(WINDOW)))
    with pytest.raises(NotTakenError, match="windows of w begin or end"):
        in_all_windows(batch, "w", Overlap(10, 40, "__rows"), ("k",), 128)
