"""The job behind a harness: its state between two epochs, its clock, and what has come of it so far."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import PlanError, QueryError
from ..runtime.driver.clocks import processing_time
from ..runtime.driver.epochs.source_rows import SourceRows
from ..runtime.protocols.operator_events.event_codec import decode, types_by_name
from ..runtime.spec import Phase
from .harness_arguments import HarnessArguments
from .local_job import LocalJob
from .local_stage import UID
from .row_tables import GivenRow, Output, plain_rows, rows_of
from .user_errors import as_raised

BACKLOG = Phase(kind="backlog", reason="a test", style="sorted")
LIVE = Phase(kind="live", reason="a test")
#: So often the clock may find something due at one and the same time: more is a timer that registers itself for ever.
_MOST_TICKS = 1000


@dataclass(frozen=True)
class Event:
    """An event that a processor has sent to its coordinator."""

    shard: int
    event: Any


class HarnessRun:
    """One job of one stage, without Spark.

    Args:
        arguments: those of the harness.
    """

    def __init__(self, arguments: HarnessArguments) -> None:
        self.arguments, self.now_ms = arguments, arguments.start_ms
        self.folder = tempfile.TemporaryDirectory(prefix="mixedmode-harness-", ignore_cleanup_errors=True)
        self.switched = self.ended = False
        self.late = 0
        #: What the processor has sent to its coordinator, in order; from a backlog it arrives at the switch.
        self.events: list[Event] = []
        settings = arguments.settings
        with as_raised(), processing_time(lambda: self.now_ms):
            self.job = LocalJob(
                self.folder.name,
                [arguments.stage.spec(settings)],
                {UID: arguments.stage.prepared},
                settings.model_copy(update={"max_parallelism": arguments.stage.max_parallelism}),
                shards=arguments.shards,
                inputs=arguments.stage.inputs,
                told=self._note,
            )

    def _note(self, fact: Any) -> None:
        coordinator = self.arguments.stage.coordinator
        types = () if coordinator is None else coordinator.eventTypes
        known = types_by_name(types, type(coordinator).__name__)
        for stage in fact.stages:
            for report in stage.reports:
                self.late += report.counters.rows_late
                self.events += [Event(report.shard, decode(text, known)) for text in report.events]

    @contextmanager
    def epoch(self, what: str) -> Iterator[Any]:
        """Gives what runs epochs, under the clock of the test.

        Args:
            what: the method that users call.
        """
        __tracebackhide__ = True  # of no interest to whoever reads what pytest shows
        if self.ended:
            raise QueryError(f"{what}(): the input has ended; make another Harness")
        with as_raised(), processing_time(lambda: self.now_ms):
            yield self.job.epochs

    def source(self, rows: Any, right: Any, what: str) -> SourceRows:
        """Rows of a test as those of an epoch.

        Args:
            rows: of the first input.
            right: of the second one.
            what: the method that users call.

        Raises:
            PlanError: they do not fit the schemas.
        """
        given = [(0, row) for row in plain_rows(rows, what)]
        others = [(1, row) for row in plain_rows(right, f"right of {what}")]
        if others and not self.arguments.stage.is_cogroup:
            raise PlanError(f"{what} got rows of a second input, but schema names one; give it a pair")
        return self.source_of([*given, *others], what)

    def source_of(self, rows: Sequence[tuple[int, GivenRow]], what: str) -> SourceRows:
        """Rows with the numbers of their inputs as those of an epoch."""
        frame: Any = self.arguments.stage.frame(rows, what)
        return SourceRows(lives=({0: frame},))

    def switch(self) -> None:
        """No input is in backlog any more."""
        self.switched = True
        for name in self.job.state.sources:
            self.job.state.set_source(name, is_backlog=False)

    def settle(self) -> None:
        """Deliver events and fire what is due, until nothing is."""
        epochs = self.job.epochs
        epochs.send_events(LIVE)
        for _ in range(_MOST_TICKS):
            if not epochs.tick(LIVE, self.now_ms, idle=True):
                return
        raise QueryError(f"after {_MOST_TICKS} epochs something is still due: a timer registers another one each time")

    def output(self) -> Output:
        """The rows that have come out since it was asked last."""
        return rows_of(self.job.pending(), self.arguments.stage.output)
