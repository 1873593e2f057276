"""The offsets of an epoch's micro-batch are told once, when Spark knows them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.driver.sources import source_offsets
from mixedmode.runtime.driver.sources.source_offsets import SourceOffsets
from mixedmode.runtime.metrics.events.facts import OffsetsKnown, OffsetsRead


class Query:
    """What Spark tells of a query; counts what it is asked."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.calls = 0
        self._jsq = SimpleNamespace(lastProgress=self._last, recentProgress=lambda: self._asked(list(self.records)))

    def _asked(self, answer: Any) -> Any:
        self.calls += 1
        return answer

    def _last(self) -> Any:
        return self._asked(self.records[-1] if self.records else None)

    def progress(self, batch_id: int, start: Any, end: Any, *, spent_in: str | None = "addBatch") -> None:
        """Spark's JSON has offsets as values, and no entry where there is nothing."""
        offsets = {"startOffset": start, "endOffset": end, "latestOffset": end}
        durations = {} if spent_in is None else {"durationMs": {spent_in: 5}}
        text = json.dumps({"batchId": batch_id, **durations, "sources": [{**offsets, "metrics": {"lag": "0"}}]})
        self.records.append(SimpleNamespace(batchId=lambda: self._asked(batch_id), json=lambda: self._asked(text)))


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
    offsets.report(None)
    offsets.report(query)  # type: ignore[arg-type]
    assert facts == []
    query.progress(0, None, {"t": {"0": 5}})
    for _ in range(2):
        offsets.report(query)  # type: ignore[arg-type]
    assert facts == [OffsetsKnown(1, read(None, {"t": {"0": 5}}))]
    for number in (1, 2):
        offsets.read_in(number, number + 3)
        query.progress(number, None, number)
    offsets.report(query)  # type: ignore[arg-type]
    assert facts[1:] == [OffsetsKnown(4, read(None, 1)), OffsetsKnown(5, read(None, 2))]


@pytest.mark.parametrize("spent_in", ["triggerExecution", None])
def test_an_idle_query_tells_of_no_epoch(told: tuple[SourceOffsets, list[OffsetsKnown]], spent_in: str | None) -> None:
    """What Spark says while it waits has the number of the next micro-batch, and is not about that."""
    (offsets, facts), query = told, Query()
    query.progress(3, "old", "old", spent_in=spent_in)
    offsets.read_in(3, 9)
    offsets.report(query)  # type: ignore[arg-type]
    assert facts == []
    query.progress(3, "old", "new")
    offsets.report(query)  # type: ignore[arg-type]
    assert facts == [OffsetsKnown(9, read("old", "new"))]


def test_few_questions_are_asked(told: tuple[SourceOffsets, list[OffsetsKnown]]) -> None:
    """Two for a record that is of an earlier micro-batch, three for the one that is waited for; old ones are left."""
    (offsets, facts), query = told, Query()
    for number in range(50):
        query.progress(number, None, number)
    offsets.read_in(50, 51)
    offsets.report(query)  # type: ignore[arg-type]
    assert (facts, query.calls) == ([], 2)
    query.progress(50, None, 50)
    offsets.report(query)  # type: ignore[arg-type]
    assert (facts, query.calls) == ([OffsetsKnown(51, read(None, 50))], 5)
    offsets.report(query)  # type: ignore[arg-type]
    assert query.calls == 5, "nothing is waited for"
    for number in (51, 52):
        offsets.read_in(number, number + 1)
        query.progress(number, None, number)
    offsets.report(query)  # type: ignore[arg-type]
    assert facts[1:] == [OffsetsKnown(52, read(None, 51)), OffsetsKnown(53, read(None, 52))]
    assert query.calls == 5 + 3 + 3 + 2


def test_what_spark_has_forgotten_is_not_asked_for_again(told: tuple[SourceOffsets, list[OffsetsKnown]]) -> None:
    """It keeps few records if it is told to; all that it has would be read with each epoch from then on."""
    (offsets, facts), query = told, Query()
    for number in range(5):
        offsets.read_in(number, number + 1)
    query.progress(3, None, 3)
    offsets.report(query)  # type: ignore[arg-type]
    assert [fact.epoch for fact in facts] == [4]
    query.progress(4, None, 4)
    calls = query.calls
    offsets.report(query)  # type: ignore[arg-type]
    assert ([fact.epoch for fact in facts], query.calls - calls) == ([4, 5], 3)
