"""Events of a coordinator and its shards while a checkpoint is completed beside epochs: real gateways, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import mixedmode
from beside_support import Checkpointed
from graph_kinds import KEY, ROWS, Buckets
from graph_support import Row, Stage
from mixedmode.runtime.operators.contract import KeyedOperator
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.definition import EventLimits
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.spec import StageSpec
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Echo(StatefulProcessor):
    """Sends the value of each row, and gives out each event."""

    def init(self, handle: Any) -> None:
        self._coordinator = handle.coordinator

    def handleEvent(self, event: int) -> Iterator[Any]:
        yield ("event", datetime(1970, 1, 1), event)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            self._coordinator.send(row.v)
        yield from ()


@dataclass(frozen=True)
class Echoes(Buckets):
    """A stage of such."""

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        return ProcessorOperator(
            Echo(),
            uid=uid,
            rows=KeyedInput(ROWS, ("k",), KEY, None),
            output_schema=ROWS,
            time_mode="none",
            events=EventLimits(has_coordinator=True),
        )


class Hears(mixedmode.OperatorCoordinator):
    """Sends when it is told to, and keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        self.context = context

    def handleEventFromSubtask(self, shard: int, event: int) -> None:
        self.heard.append(event)

    def checkpoint(self) -> bytes:
        return b""


class Talking(Checkpointed):
    """A job of one such stage with its coordinator."""

    def __init__(self, folder: Path) -> None:
        self.coordinator_of_user = Hears()
        super().__init__(folder, [Stage("a", Echoes(5))])

    def _spec(self, stage: Stage, in_order: bool) -> StageSpec:
        return replace(super()._spec(stage, in_order), coordinator=self.coordinator_of_user)


def rows(*values: int) -> list[Row]:
    return [("a", 1_000_000, value) for value in values]


def test_events_wait_until_metadata_is_there(tmp_path: Path) -> None:
    """What either end sends after the cut arrives when ``_metadata`` is there, in order: not in an epoch before that,
    and not only after the next epoch or checkpoint."""
    job = Talking(tmp_path)
    hears = job.coordinator_of_user
    hears.context.gateway(0).send(1)
    job.take("live", rows(10))
    assert (hears.heard, events(job)) == ([10], [1])
    job.cut()
    hears.context.gateway(0).send(2)
    job.take("live", rows(11))
    hears.context.gateway(0).send(3)
    job.take("live", rows(12))
    assert (hears.heard, events(job)) == ([10], [1]), "they wait"
    assert job.events.counts["eventsBuffered"] == 4  # type: ignore[index]
    job.complete()
    job.events.hand_over()  # as the clock of the live phase does
    assert hears.heard == [10, 11, 12]
    assert job.events.waiting(job.stages[0]) == [0]
    job.coordinator.look()
    job.take("clock")
    assert events(job) == [1, 2, 3]
    assert job.events.counts["eventsBuffered"] == 0  # type: ignore[index]
    job.close()


def test_events_of_a_checkpoint_that_fails_go_on_their_way(tmp_path: Path) -> None:
    """They waited for nothing: what was kept arrives when the run has given the checkpoint up."""
    job = Talking(tmp_path)
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = 1
    job.take("live", rows(10))
    job.cut()
    job.coordinator_of_user.context.gateway(0).send(1)
    job.take("live", rows(11))
    job.complete("events-stored")
    job.beside.clear()
    job.coordinator._in_flight.failure = OSError("no space")  # type: ignore[union-attr]
    job.coordinator.look()
    job.take("clock")
    assert (job.coordinator_of_user.heard, events(job)) == ([10, 11], [1])
    job.close()


def events(job: Talking) -> list[int]:
    """What the shards were told, as far as it is in their output."""
    staged = [table.to_pylist() for table in job.sink.staged.values()]
    shown = list(job.sink.rows.values())
    return sorted(row["v"] for some in (*staged, *shown) for row in some)
