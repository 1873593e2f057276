"""One test of Spark's suites as a case: the query, and what comes to it in each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The query is stopped here, and started again from its checkpoint.
RESTART = "restart"
#: Rows of a source: a tuple, or the value of its only column.
Rows = Sequence[Any]
#: By source the rows that come in one micro-batch, or RESTART.
Step = Mapping[str, Rows] | str
#: Gives the frame of a source, stock's or ours.
Read = Callable[[str], Any]
#: Suite and name of a test.
Test = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """A test of Spark's suites.

    Args:
        name: unique: that of the function, with the number of the variant.
        tests: of Spark, which the case stands for.
        query: makes the frame that is written.
        inputs: the columns of each source, as DDL.
        steps: what comes.
        mode: output mode.
        keys: update mode: the columns that identify a result, of which the last one counts; empty: all rows count.
        ordered: complete mode: the order of the last table counts.
        session: settings of the session.
        history: so many of the micro-batches are history in the second run of ours; none of their rows is late.
        refused: part of the message with which Spark refuses the query; empty: it runs.
        may_be_empty: the sink gets nothing.
        named: our live inputs are called as their sources are; one without a name may be united with itself.
        why: what explains a difference, should there be one.
    """

    name: str
    tests: tuple[Test, ...]
    query: Callable[[Read], Any]
    inputs: Mapping[str, str]
    steps: Sequence[Step]
    mode: str = "append"
    keys: tuple[str, ...] = ()
    ordered: bool = False
    session: Mapping[str, str] = field(default_factory=dict)
    history: int = 1
    refused: str = ""
    may_be_empty: bool = False
    named: bool = True
    why: str = ""

    @property
    def fires_without_rows(self) -> bool:
        """Whether Spark runs a micro-batch without rows behind each that has some."""
        return self.session.get("spark.sql.streaming.noDataMicroBatches.enabled", "true") == "true"

    def batches(self) -> tuple[list[dict[str, list[tuple[Any, ...]]]], list[int]]:
        """The micro-batches, and the numbers of those before which the query is started again.

        Spark's tests wait after each micro-batch, until the one without rows is over, too.  Here all files are read in
        one run, so the micro-batch without rows is one of empty files.
        """
        batches: list[dict[str, list[tuple[Any, ...]]]] = []
        restarts: list[int] = []
        for step in self.steps:
            if isinstance(step, str):
                restarts.append(len(batches))
                continue
            batches.append({name: [_row(row) for row in rows] for name, rows in step.items()})
            if self.fires_without_rows:
                batches.append({})
        return batches, restarts

    @property
    def files_of_history(self) -> int:
        """How many of the micro-batches are history, with those without rows."""
        return self.history * (2 if self.fires_without_rows else 1)


#: For ``why``.
AT_THE_WATERMARK = "A row exactly at the watermark is in time here, and late in Spark (limits.md)."


def case(
    cases: list[Case],
    suite: str,
    *tests: str,
    modes: Sequence[str] = (),
    **settings: Any,
) -> Callable[[Callable[[Read], Any]], Callable[[Read], Any]]:
    """Add the decorated query to ``cases``.

    Args:
        cases: the list of its file.
        suite: of Spark.
        tests: names of Spark's tests.
        modes: output modes in which it is a test of its own, whose name ends with the mode.
        settings: see :class:`Case`.
    """

    def keep(query: Callable[[Read], Any]) -> Callable[[Read], Any]:
        name = query.__name__
        for mode in modes or (settings.get("mode", "append"),):
            names = tuple((suite, f"{test} - {mode.capitalize()}" if modes else test) for test in tests)
            taken = {**settings, "mode": mode}
            cases.append(Case(f"{name}_{mode}" if modes else name, names, query, **taken))
        return query

    return keep


def _row(row: Any) -> tuple[Any, ...]:
    return row if isinstance(row, tuple) else (row,)
