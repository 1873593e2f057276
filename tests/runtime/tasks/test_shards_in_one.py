"""Rows of all shards in one task are cut into those of each."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import MisplacedRowsError
from mixedmode.runtime.operators.processor.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.tasks.shards_in_one import InOneTask, ShardSlices
from mixedmode.state.keygroups import KeyGroupRange

RANGES = [KeyGroupRange(0, 3), KeyGroupRange(4, 4), KeyGroupRange(5, 9)]


def batches(groups: list[int], sizes: list[int]) -> list[pa.RecordBatch]:
    """Rows with these key groups, in batches of these sizes and one of what is left."""
    found, start = [], 0
    for stop in [*[sum(sizes[: place + 1]) for place in range(len(sizes))], len(groups)]:
        part = groups[start:stop]
        numbers = list(range(start, start + len(part)))
        found.append(
            pa.record_batch({KEY_GROUP_COLUMN: pa.array(part, pa.int32()), "n": pa.array(numbers, pa.int64())})
        )
        start += len(part)
    return found


@given(st.lists(st.integers(0, 9)).map(sorted), st.lists(st.integers(0, 5), max_size=4))
def test_each_shard_gets_its_rows_in_order(groups: list[int], sizes: list[int]) -> None:
    """However rows are cut into batches, each is in the slice of its shard, and nowhere else."""
    slices = ShardSlices(iter(batches(groups, sizes)))
    found = [[n for batch in slices.of(one) for n in batch.column("n").to_pylist()] for one in RANGES]
    slices.check_end()
    assert found == [[n for n, group in enumerate(groups) if group in one] for one in RANGES]


def test_rows_of_no_shard_are_not_lost() -> None:
    """Rows behind those of the last shard fail the task."""
    slices = ShardSlices(iter(batches([0, 9], [])))
    for one in RANGES[:2]:
        assert len(list(slices.of(one))) == (one.first == 0)
    with pytest.raises(MisplacedRowsError, match="key group 9"):
        slices.check_end()


def test_large_epochs_are_for_several_tasks() -> None:
    """One task is for few rows, and for an epoch of which nothing is known."""
    assert InOneTask.is_of_use(None) and InOneTask.is_of_use(1_000)
    assert not InOneTask.is_of_use(1_000_000)
