"""A writer of single rows is opened, fed and closed as Spark's own sink does it."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode.runtime.connectors.sinks.foreach_rows import ForeachRows


class Rows:
    """Stands for a frame of one partition."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def foreachPartition(self, function: Any) -> None:
        function(iter(self.rows))


class Recorder:
    def __init__(self, wanted: bool = True, fails_at: Any = None) -> None:
        self.calls: list[Any] = []
        self._wanted, self._fails_at = wanted, fails_at

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.calls.append(("open", partition_id, epoch_id))
        return self._wanted

    def process(self, row: Any) -> None:
        if row == self._fails_at:
            raise ValueError(row)
        self.calls.append(row)

    def close(self, error: Exception | None) -> None:
        self.calls.append(("close", type(error)))


def taken(writer: Any, *rows: Any) -> None:
    ForeachRows(writer)(Rows(*rows), 7)  # type: ignore[arg-type]


def test_a_writer_is_opened_with_the_id_of_the_call_and_closed() -> None:
    writer = Recorder()
    taken(writer, "a", "b")
    assert writer.calls == [("open", 0, 7), "a", "b", ("close", type(None))]


def test_rows_that_are_not_wanted_are_not_given() -> None:
    writer = Recorder(wanted=False)
    taken(writer, "a")
    assert writer.calls == [("open", 0, 7), ("close", type(None))]


def test_a_failure_is_told_to_the_writer_and_to_spark() -> None:
    writer = Recorder(fails_at="b")
    with pytest.raises(ValueError, match="b"):
        taken(writer, "a", "b", "c")
    assert writer.calls == [("open", 0, 7), "a", ("close", ValueError)]


def test_a_function_takes_each_row() -> None:
    found: list[Any] = []
    taken(found.append, 1, 2)
    assert found == [1, 2]


def test_an_object_needs_neither_open_nor_close() -> None:
    class Bare:
        def __init__(self) -> None:
            self.rows: list[Any] = []

        def process(self, row: Any) -> None:
            self.rows.append(row)

    bare = Bare()
    taken(bare, 1)
    assert bare.rows == [1]
    assert ForeachRows(bare).__qualname__.endswith("Bare")
