"""Who waits for output in Real-Time Mode is answered when the offsets of that time are committed, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.driver.realtime import phase as phase_module
from mixedmode.runtime.driver.realtime.phase import RealTimePhase
from mixedmode.runtime.driver.requests.commit_queue import CommitQueue, CommitRequest
from mixedmode.runtime.spark_io.spark_kafka import TopicRange


def test_an_epoch_that_ends_before_the_topics_end_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch ends by the clock, whatever waits in the topic; and whoever asks later waits for what came later."""
    ends = {0: 10, 1: 0}
    source = SimpleNamespace(is_streaming=True, options={"subscribe": "orders"})
    monkeypatch.setattr(phase_module, "sources", lambda _: [source])
    monkeypatch.setattr(phase_module, "topic_range", lambda *_: TopicRange({}, dict(ends)))
    queue = CommitQueue()
    run = SimpleNamespace(context=SimpleNamespace(commits=queue), job=SimpleNamespace(live=object(), spark=None))
    nothing = cast(Any, None)
    phase = RealTimePhase(cast(Any, run), nothing, nothing, nothing, nothing, 0)

    first, second = CommitRequest(), CommitRequest()
    queue.ask(first)
    phase._note_requests()
    ends[0] = 20
    queue.ask(second)
    phase._note_requests()
    phase._grant({0: 9})
    assert not first.answer.done()
    phase._grant({0: 10})
    assert first.answer.result(0) is True
    assert not second.answer.done()
    assert queue.pending() == [second]
    phase._grant({0: 20, 1: 0})
    assert second.answer.result(0) is True
