"""Tests of sorter.batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.sorter.batches import join, regroup, split

TEXTS = st.lists(st.integers(0, 300).map("x".__mul__), max_size=60)


def batch(texts: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(texts, pa.string())], names=["text"])


def texts(batches: list[pa.RecordBatch]) -> list[str]:
    return [text for piece in batches for text in piece.column(0).to_pylist()]


@given(TEXTS, st.integers(1, 70), st.integers(0, 2000))
def test_split_keeps_rows_and_limits(values: list[str], max_rows: int, max_bytes: int) -> None:
    """A batch is cut into pieces within both limits, in order; only a single row may be larger."""
    pieces = list(split(batch(values), max_rows, max_bytes))

    assert texts(pieces) == values
    assert all(0 < piece.num_rows <= max_rows for piece in pieces)
    assert all(piece.nbytes <= max_bytes or piece.num_rows == 1 for piece in pieces)


@given(st.lists(TEXTS, max_size=8), st.integers(1, 70), st.integers(0, 5000))
def test_regroup_keeps_rows_and_limits(lists: list[list[str]], max_rows: int, max_bytes: int) -> None:
    """Batches are joined and cut to both limits, in order; only a single row may be larger."""
    pieces = list(regroup(map(batch, lists), max_rows, max_bytes))

    assert texts(pieces) == [text for values in lists for text in values]
    assert all(0 < piece.num_rows <= max_rows for piece in pieces)
    # Offsets of a joined batch take 4 bytes more than those of its parts.
    assert all(piece.nbytes <= max_bytes + 4 or piece.num_rows == 1 for piece in pieces)


def test_regroup_fills_batches() -> None:
    """Where bytes do not matter, every batch but the last has exactly the rows asked for."""
    pieces = list(regroup([batch(["a"] * rows) for rows in (1, 5, 0, 13, 2)], 4, 1_000_000))

    assert [piece.num_rows for piece in pieces] == [4, 4, 4, 4, 4, 1]


def test_joining_one_batch_copies_nothing() -> None:
    """A single batch is handed through."""
    only = batch(["a"])

    assert join([only]) is only
