"""Tests of sorter.merge."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.sorter.merge import merge
from mixedmode.sorter.order import Ordering
from mixedmode.sorter.runs import Run, write_run

SCHEMA = pa.schema([("key", pa.int64()), ("run", pa.int64()), ("row", pa.int64())])
ORDERING = Ordering(SCHEMA, ["key"])


def run_of(folder: Path, number: int, keys: list[int], block_rows: int) -> Run:
    rows = pa.record_batch([sorted(keys), [number] * len(keys), range(len(keys))], schema=SCHEMA)
    blocks = (rows.slice(start, block_rows) for start in range(0, len(keys), block_rows))
    folder.mkdir(exist_ok=True)
    path = folder / f"run-{number}"
    path.unlink(missing_ok=True)
    return write_run(str(path), SCHEMA, blocks, "lz4")


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[int, ...]]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@given(st.lists(st.tuples(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 9)), max_size=6))
def test_merge_is_stable_across_runs(
    tmp_path_factory: pytest.TempPathFactory, spec: list[tuple[list[int], int]]
) -> None:
    """Rows come in key order, equal keys in order of runs and then of rows, however blocks are cut."""
    folder = tmp_path_factory.getbasetemp() / "merge"
    runs = [run_of(folder, number, keys, block_rows) for number, (keys, block_rows) in enumerate(spec)]
    expected = sorted(
        (key, number, row) for number, (keys, _) in enumerate(spec) for row, key in enumerate(sorted(keys))
    )

    assert rows_of(list(merge(runs, ORDERING))) == expected


def test_one_key_streams_through(tmp_path: Path) -> None:
    """With one key in all runs, a round gives out one block, not all that is equal."""
    runs = [run_of(tmp_path, number, [5] * 100, 10) for number in range(3)]
    batches = list(merge(runs, ORDERING))

    assert [batch.num_rows for batch in batches] == [10] * 30
    assert rows_of(batches) == [(5, number, row) for number in range(3) for row in range(100)]


def test_disjoint_runs_are_handed_through(tmp_path: Path) -> None:
    """Runs that do not overlap (sorted input) need no sort: each block comes out as it was written."""
    runs = [run_of(tmp_path, number, list(range(100 * number, 100 * number + 100)), 50) for number in range(3)]

    assert [batch.num_rows for batch in merge(runs, ORDERING)] == [50] * 6
