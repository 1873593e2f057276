"""Who waits for output in Real-Time Mode is answered when the offsets of that time are committed, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.driver.realtime import output_waits
from mixedmode.runtime.driver.realtime.output_waits import OutputWaits
from mixedmode.runtime.driver.requests.commit_queue import CommitQueue, CommitRequest
from mixedmode.runtime.spark_io.spark_kafka import TopicRange


def test_an_epoch_that_ends_before_the_topics_end_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch ends by the clock, whatever waits in the topic; and whoever asks later waits for what came later."""
    ends = {0: 10, 1: 0}
    source = SimpleNamespace(is_streaming=True, options={"subscribe": "orders"})
    monkeypatch.setattr(output_waits, "sources", lambda _: [source])
    monkeypatch.setattr(output_waits, "topic_range", lambda *_: TopicRange({}, dict(ends)))
    queue = CommitQueue()
    awaited = OutputWaits(cast(Any, SimpleNamespace(live=object(), spark=None)), queue)

    first, second = CommitRequest(), CommitRequest()
    queue.ask(first)
    awaited.note()
    ends[0] = 20
    queue.ask(second)
    awaited.note()
    awaited.grant({0: 9})
    assert not first.answer.done()
    awaited.grant({0: 10})
    assert first.answer.result(0) is True
    assert not second.answer.done()
    assert queue.pending() == [second]
    awaited.grant({0: 20, 1: 0})
    assert second.answer.result(0) is True
