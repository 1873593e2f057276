"""Rows of a task that Spark hands over one by one, with a marker beside each."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from mixedmode.runtime.tasks.realtime.arrived_rows import ArrivedRows


def batch(*values: int | None) -> pa.RecordBatch:
    """Rows, and markers, which are None."""
    return pa.RecordBatch.from_pydict({"p": pa.array(values, pa.int32())})


def taken(rows: pa.RecordBatch | None) -> list[int] | None:
    return None if rows is None else rows.column("p").to_pylist()


def test_a_row_comes_before_the_next_one_is_there() -> None:
    """Markers are no rows; what has arrived meanwhile comes together; then comes the end."""
    more, read = threading.Semaphore(0), threading.Semaphore(0)

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(None, 1)
        more.acquire()
        yield batch(None)
        yield batch(2)
        yield batch(None, 3)
        read.release()
        more.acquire()

    arrived = ArrivedRows(batches(), "p")
    assert taken(arrived.take()) == [1]
    more.release()
    read.acquire()
    assert taken(arrived.take()) == [2, 3]
    more.release()
    assert arrived.take() is None


def test_what_ends_the_rows_is_raised() -> None:
    """Behind the rows that have come before it."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise OSError("the socket is gone")

    arrived = ArrivedRows(batches(), "p")
    assert taken(arrived.take()) == [1]
    with pytest.raises(OSError, match="gone"):
        arrived.take()
