"""Rows of a task that Spark hands over one by one, with a marker beside each."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from mixedmode.runtime.tasks.realtime.arrived_rows import ArrivedRows


def batch(*values: int | None) -> pa.RecordBatch:
    """Rows, and markers, which are None."""
    return pa.RecordBatch.from_pydict({"p": pa.array(values, pa.int32())})


class Pipe:
    """Batches that come in bursts; to ask for one that has not come is to wait."""

    def __init__(self, *bursts: list[pa.RecordBatch]) -> None:
        self._bursts = list(bursts)
        self.waits = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._bursts:
            self.waits += 1
            while self._bursts[0]:
                yield self._bursts[0].pop(0)
            self._bursts.pop(0)

    def has_more(self) -> bool:
        return bool(self._bursts) and bool(self._bursts[0])


def taken(rows: pa.RecordBatch | None) -> list[int] | None:
    return None if rows is None else rows.column("p").to_pylist()


def test_a_row_comes_before_the_next_one_is_there() -> None:
    """Markers are no rows; what has arrived meanwhile comes together; then comes the end."""
    pipe = Pipe([batch(None, 1)], [batch(None)], [batch(2), batch(None, 3)], [batch(None)])
    arrived = ArrivedRows(iter(pipe), "p", pipe.has_more)
    assert (taken(arrived.take()), pipe.waits) == ([1], 1)
    assert (taken(arrived.take()), pipe.waits) == ([2, 3], 3)
    assert arrived.take() is None
    assert arrived.take() is None


def test_something_is_done_before_each_wait() -> None:
    """Also where only markers have come."""
    pipe, before = Pipe([batch(1)], [batch(None)], [batch(2)]), [0]

    def count() -> None:
        before[0] += 1
        assert before[0] == pipe.waits + 1

    arrived = ArrivedRows(iter(pipe), "p", pipe.has_more, count)
    assert [taken(arrived.take()), taken(arrived.take())] == [[1], [2]]
    assert before == [3]


def test_a_portion_has_an_end() -> None:
    """Rows that come faster than they are processed do not keep the first ones waiting for ever."""
    pipe = Pipe([batch(None, number) for number in range(3000)])
    arrived, found = ArrivedRows(iter(pipe), "p", pipe.has_more), []
    while (rows := taken(arrived.take())) is not None:
        assert len(rows) < 2000
        found += rows
    assert found == list(range(3000))


def test_the_end_may_come_where_more_was_seen() -> None:
    """What follows the rows in the stream is no row."""
    arrived = ArrivedRows(iter([batch(1)]), "p", lambda: True)
    assert taken(arrived.take()) == [1]
    assert arrived.take() is None


def test_what_ends_the_rows_is_raised() -> None:
    """A failure of the stream is the task's."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise OSError("the socket is gone")

    arrived = ArrivedRows(batches(), "p", lambda: False)
    assert taken(arrived.take()) == [1]
    with pytest.raises(OSError, match="gone"):
        arrived.take()
