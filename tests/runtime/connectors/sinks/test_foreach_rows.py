"""What a task does with the rows of a partition for ``foreach``: what stock Spark's own function does with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode.errors import PlanError, UserCodeError
from mixedmode.runtime.connectors.sinks.foreach_rows import PartitionFunction, RowByRow
from pyspark import TaskContext
from pyspark.sql.streaming.readwriter import DataStreamWriter


class Noting:
    """Notes how it is called."""

    def __init__(self, opens: bool = True, fails: Any = None) -> None:
        self.notes: list[Any] = []
        self._opens = opens
        self._fails = fails

    def open(self, partition: int, epoch: int) -> bool:
        self.notes.append(("open", partition, epoch))
        return self._opens

    def process(self, row: Any) -> None:
        self.notes.append(row)
        if row == self._fails:
            raise ValueError(f"not {row}")

    def close(self, error: Exception | None) -> None:
        self.notes.append(("close", None if error is None else str(error)))


class OnlyProcess:
    """Has neither of the other methods."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def process(self, row: Any) -> None:
        self.notes.append(row)


class Context:
    """A task of a micro-batch."""

    def getLocalProperty(self, name: str) -> str:
        return "7"


@pytest.mark.parametrize(
    ("arguments", "rows"), [((), [1, 2]), ((), []), ((False,), [1, 2]), ((True, 2), [1, 2, 3]), (None, [1, 2])]
)
def test_an_object_is_called_as_stock_spark_calls_it(
    monkeypatch: pytest.MonkeyPatch, arguments: Any, rows: list[int]
) -> None:
    """Opened, or not; failed; without rows; without open and close: the same calls in the same order."""
    monkeypatch.setattr(TaskContext, "get", Context)
    ours, stocks = (OnlyProcess() if arguments is None else Noting(*arguments) for _ in range(2))
    outcomes = []
    for take in (PartitionFunction(ours, 7), DataStreamWriter._construct_foreach_function(stocks)):
        try:
            outcomes.append(list(take(3, iter(rows))))
        except Exception as error:
            outcomes.append("not 2" in str(error))
    assert ours.notes == stocks.notes and outcomes[0] == outcomes[1]


@pytest.mark.parametrize("error", [ValueError("not 1"), SystemExit("not 1")])
def test_a_function_takes_each_row_and_its_error_is_told_by_its_place(error: BaseException) -> None:
    """The message begins with the user's line; ``sys.exit()`` there is an error like any other."""
    taken: list[int] = []
    assert list(PartitionFunction(taken.append, 7)(0, iter([1, 2]))) == [] and taken == [1, 2]

    def fail(row: int) -> None:
        raise error

    said = rf'File ".*test_foreach_rows.py", line \d+, in fail(?s:.*){type(error).__name__}: not 1(?s:.*)batch 7'
    with pytest.raises(UserCodeError, match=said):
        list(PartitionFunction(fail, 7)(0, iter([1])))


def test_an_object_is_closed_when_its_code_exits() -> None:
    """With what has ended it, as with an error."""
    closed: list[BaseException | None] = []

    class Exits:
        def process(self, row: int) -> None:
            raise SystemExit(f"not {row}")

        def close(self, error: BaseException | None) -> None:
            closed.append(error)

    with pytest.raises(UserCodeError, match="SystemExit: not 1"):
        list(PartitionFunction(Exits(), 7)(0, iter([1])))
    assert [type(error) for error in closed] == [SystemExit]


@pytest.mark.parametrize("part", ["open", "process", "close"])
def test_what_is_no_method_is_refused(part: str) -> None:
    """As in stock Spark, before anything runs."""
    rows: Iterator[int] = iter(())
    writer = OnlyProcess()
    setattr(writer, part, rows)
    with pytest.raises(PlanError, match=f"whose {part} is not a method"):
        RowByRow(writer)
    with pytest.raises(PlanError, match="has no method process"):
        RowByRow(object())


@pytest.mark.parametrize("part", ["open", "process", "close", None])
def test_what_a_call_does_not_run_is_refused(part: str | None) -> None:
    """Its rows would be lost without an error."""

    async def awaited(*given: Any) -> None:
        pass

    writer: Any = awaited
    if part is not None:
        writer = OnlyProcess()
        setattr(writer, part, lambda *given: (yield))
    kind = "<lambda> is a generator" if part else "awaited is an async"
    with pytest.raises(
        PlanError, match=f"^foreach: .*{kind} function: a call does not run its body; give it an ordinary"
    ):
        RowByRow(writer)


class Wrong:
    """Its methods have other arguments."""

    def open(self, partition: int) -> None:
        pass

    def process(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("open", r"Wrong\.open\(partition_id, epoch_id\), but its arguments are \(partition: 'int'\)"),
        ("process", r"Wrong\.process\(row\), but its arguments are \(\)"),
        ("close", r"Wrong\.close\(error\), but its arguments are \(\)"),
    ],
)
def test_a_method_of_other_arguments_is_refused(part: str, problem: str) -> None:
    """Tasks would meet it after the backlog."""
    writer = OnlyProcess()
    setattr(writer, part, getattr(Wrong(), part))
    with pytest.raises(PlanError, match=f"^foreach calls {problem}"):
        RowByRow(writer)


def test_what_tasks_cannot_use_is_refused() -> None:
    """A function of other arguments, a class in place of an object, a lock."""
    with pytest.raises(PlanError, match=r"^foreach calls .*<lambda>\(row\), but its arguments are \(\)"):
        RowByRow(lambda: None)
    with pytest.raises(PlanError, match=r"^foreach was given the class Noting; give an object of it, Noting\(\)"):
        RowByRow(Noting)
    lock = threading.Lock()
    with pytest.raises(PlanError, match=r"^foreach: .*<lambda> cannot be sent to the tasks \(.*lock.*in its open\(\)"):
        RowByRow(lambda row: lock.acquire())
    for usable in (print, str, lambda *rows: None, Noting(), OnlyProcess()):
        RowByRow(usable)
