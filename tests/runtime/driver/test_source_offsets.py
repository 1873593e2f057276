"""The offsets of an epoch's micro-batch are told once, when Spark knows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.driver import source_offsets
from mixedmode.runtime.driver.source_offsets import SourceOffsets
from mixedmode.runtime.metrics.listeners import OffsetsKnown, OffsetsRead


class Query:
    """What Spark tells of a query."""

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.recentProgress else None

    def progress(self, batch_id: int, start: str | None, end: str, *, executed: bool = True) -> None:
        source = SimpleNamespace(startOffset=start, endOffset=end, latestOffset=end, metrics={"lag": "0"})
        durations = {"addBatch": 5} if executed else {"triggerExecution": 1}
        self.recentProgress.append(SimpleNamespace(batchId=batch_id, durationMs=durations, sources=[source]))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> tuple[SourceOffsets, list[OffsetsKnown]]:
    monkeypatch.setattr(source_offsets, "log_numbers", lambda live: (0,))
    facts: list[Any] = []
    job: Any = SimpleNamespace(live=object(), live_inputs=[SimpleNamespace(name="live")])
    return SourceOffsets(job, SimpleNamespace(on=facts.append)), facts


def read(start: Any, end: Any) -> dict[str, OffsetsRead]:
    return {"live": OffsetsRead(start, end, end, {"lag": "0"})}


def test_each_epoch_is_told_once(told: tuple[SourceOffsets, list[OffsetsKnown]]) -> None:
    """Whenever somebody asks, and however many micro-batches Spark has been through meanwhile."""
    (offsets, facts), query = told, Query()
    offsets.read_in(0, 1)
    offsets.tell(None)
    offsets.tell(query)  # type: ignore[arg-type]
    assert facts == []
    query.progress(0, None, '{"t": {"0": 5}}')
    for _ in range(2):
        offsets.tell(query)  # type: ignore[arg-type]
    assert facts == [OffsetsKnown(1, read(None, {"t": {"0": 5}}))]
    for number in (1, 2):
        offsets.read_in(number, number + 3)
        query.progress(number, "null", f"{number}")
    offsets.tell(query)  # type: ignore[arg-type]
    assert facts[1:] == [OffsetsKnown(4, read(None, 1)), OffsetsKnown(5, read(None, 2))]


def test_an_idle_query_tells_of_no_epoch(told: tuple[SourceOffsets, list[OffsetsKnown]]) -> None:
    """What Spark says while it waits has the number of the next micro-batch, and is not about that."""
    (offsets, facts), query = told, Query()
    query.progress(3, "old", "old", executed=False)
    offsets.read_in(3, 9)
    offsets.tell(query)  # type: ignore[arg-type]
    assert facts == []
    query.progress(3, "old", "new")
    offsets.tell(query)  # type: ignore[arg-type]
    assert facts == [OffsetsKnown(9, read("old", "new"))]
