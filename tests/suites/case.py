"""One test of Spark's suites as a case: the query, and what comes to it in each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Rows of a source: a tuple, or the value of its only column.
Rows = Sequence[Any]
#: Gives the frame of a source, stock's or ours.
Read = Callable[[str], Any]


@dataclass(frozen=True)
class Restart:
    """The query is stopped here, and started again from its checkpoint, perhaps as another one from here on.

    Args:
        query: makes the frame that is written; None: the one before does.
        mode: output mode; empty: that of before.
        session: settings of the session, over those of before.
        inputs: the columns of sources, as DDL, where they are others than before.
        refused: part of the message with which Spark refuses to go on; empty: it goes on.  Nothing comes after.
    """

    query: Callable[[Read], Any] | None = None
    mode: str = ""
    session: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


#: The same query goes on.
RESTART = Restart()
#: By source the rows that come in one micro-batch, or a restart.
Step = Mapping[str, Rows] | Restart
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
        refuses_method: what is refused is the method that is called, whatever it is called on.
        may_be_empty: the sink gets nothing.
        named: our live inputs are called as their sources are; one without a name may be united with itself.
        empty_files: a source that gets no row in a micro-batch gets an empty file; else it gets none.
        why: what explains a difference, should there be one.
        event_time: the place of the event time in the rows of the only source, if a difference is to be looked at over
            the rows in event-time order, too, each event time a micro-batch.
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
    refuses_method: bool = False
    may_be_empty: bool = False
    named: bool = True
    empty_files: bool = True
    why: str = ""
    event_time: int | None = None

    @property
    def fires_without_rows(self) -> bool:
        """Whether Spark runs a micro-batch without rows behind each that has some."""
        return self.session.get("spark.sql.streaming.noDataMicroBatches.enabled", "true") == "true"

    def batches(self) -> tuple[list[dict[str, list[tuple[Any, ...]]]], dict[int, Restart]]:
        """The micro-batches, and the restarts by the numbers of those before which they are.

        Spark's tests wait after each micro-batch, until the one without rows is over, too.  Here all files are read in
        one run, so the micro-batch without rows is one of empty files.
        """
        batches: list[dict[str, list[tuple[Any, ...]]]] = []
        restarts: dict[int, Restart] = {}
        for step in self.steps:
            if isinstance(step, Restart):
                restarts[len(batches)] = step
                continue
            batches.append({name: [_row(row) for row in rows] for name, rows in step.items()})
            if self.fires_without_rows:
                batches.append({})
        return batches, restarts

    def in_event_time_order(self) -> list[dict[str, list[tuple[Any, ...]]]]:
        """The rows of the only source in event-time order, each event time a micro-batch."""
        assert self.event_time is not None
        place, [name] = self.event_time, self.inputs
        rows = [_row(row) for step in self.steps if not isinstance(step, Restart) for row in step.get(name, ())]
        times = sorted({row[place] for row in rows})
        return [{name: [row for row in rows if row[place] == time]} for time in times]

    @property
    def files_of_history(self) -> int:
        """How many of the micro-batches are history, with those without rows."""
        return self.history * (2 if self.fires_without_rows else 1)


#: For ``why``.
AT_THE_WATERMARK = "A row exactly at the watermark is in time here, and late in Spark (limits.md)."


#: All of the files that have been imported, in order.
CASES: list[Case] = []


def case(
    suite: str,
    *tests: str,
    modes: Sequence[str] = (),
    also: Sequence[Test] = (),
    **settings: Any,
) -> Callable[[Callable[[Read], Any]], Callable[[Read], Any]]:
    """Add the decorated query to ``CASES``.

    Args:
        suite: of Spark.
        tests: names of Spark's tests.
        modes: output modes in which it is a test of its own, whose name ends with the mode.
        also: tests of other suites that it stands for, too.
        settings: see :class:`Case`.
    """

    def keep(query: Callable[[Read], Any]) -> Callable[[Read], Any]:
        name = query.__name__
        for mode in modes or (settings.get("mode", "append"),):
            names = tuple((suite, f"{test} - {mode.capitalize()}" if modes else test) for test in tests)
            taken = {**settings, "mode": mode}
            CASES.append(Case(f"{name}_{mode}" if modes else name, (*names, *also), query, **taken))
        return query

    return keep


def _row(row: Any) -> tuple[Any, ...]:
    return row if isinstance(row, tuple) else (row,)
