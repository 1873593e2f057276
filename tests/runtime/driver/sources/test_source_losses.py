"""Topics that were made anew under their names, with as many messages as they had: noticed by their ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import DataLossError, PlanError
from mixedmode.runtime.connectors.sources.data_loss import Offsets
from mixedmode.runtime.connectors.sources.live_sources import LiveSourceFacts
from mixedmode.runtime.driver.sources.source_losses import SourceLosses
from mixedmode.runtime.spark_io.spark_kafka import TopicRange


@dataclass
class Cluster:
    """Topics of one partition, by name: what their ids are, and which offsets they have; it stands for a client."""

    topics: dict[str, tuple[str | None, int, int]]
    answers: bool = True
    asked: int = 0

    def topic_ids(self, names: Any) -> dict[str, str]:
        self.asked += 1
        if not self.answers:
            raise PlanError("no answer")
        return {name: told for name in names if (told := self.topics[name][0]) is not None}

    def range_of(self, name: str) -> TopicRange:
        told, begin, end = self.topics[name]
        return TopicRange({0: begin}, {0: end}, {}, told)

    def close(self) -> None: ...


@dataclass
class Run:
    """A job over such topics that has read each up to offset 5, and a look at it before each micro-batch."""

    cluster: Cluster
    known: dict[int, dict[str, str]] = field(default_factory=dict)
    tolerant: bool = False
    told: list[str] = field(default_factory=list)
    now_ms: int = 0

    def __post_init__(self) -> None:
        options = {"failondataloss": str(not self.tolerant)}
        job: Any = SimpleNamespace(live_inputs=[SimpleNamespace(name="live")])
        state: Any = SimpleNamespace(topic_ids=self.known, epoch=1)
        listener: Any = SimpleNamespace(on=lambda fact: self.told.append(fact.text))
        store: Any = None
        self.losses = SourceLosses(job, state, store, listener, now_ms=lambda: self.now_ms)
        self.losses.__dict__["_sources"] = {2: LiveSourceFacts("kafka", options)}
        self.losses._clients[2] = self.cluster  # type: ignore[assignment]
        self.losses.position = self._position  # type: ignore[method-assign]
        self.losses.__dict__["_tolerant"] = {}  # those are asked about each micro-batch, too

    def _position(self, number: int, batch_id: int) -> Offsets:
        return {name: {0: 5 + batch_id} for name in self.cluster.topics}

    def look(self, later_ms: int = 60_000) -> None:
        self.now_ms += later_ms
        with self.losses.watching(1) as watch:
            watch.reads = False
            assert self.told == []


def test_ids_are_learned_and_asked_for_now_and_then() -> None:
    """The first look of a run only learns what nobody knew; then seconds go by without a question; a cluster that does
    not answer, or has no ids, stands in nobody's way."""
    cluster = Cluster({"a": ("id-a", 0, 9), "old": (None, 0, 9)})
    run = Run(cluster)
    run.look()
    assert run.known == {2: {"a": "id-a"}}
    run.look(9_000)
    assert cluster.asked == 1
    run.look(1_000)
    assert cluster.asked == 2
    cluster.answers = False
    run.look()
    assert cluster.asked == 3
    assert run.known == {2: {"a": "id-a"}} and run.told == []


def test_a_topic_with_another_id_is_refused_or_told() -> None:
    """It has as many messages as the old one: a source that does not go on without ends with topic, offsets and what to
    do, and knows what it knew; another one goes on, tells it once, and knows the new topic from then on."""
    cluster = Cluster({"a": ("new", 2, 90), "b": ("id-b", 0, 9)})
    run = Run(cluster, {2: {"a": "old", "b": "id-b"}})
    with pytest.raises(DataLossError, match=r"topic a, partition 0, offsets from 5 .*made anew.*failOnDataLoss = fa"):
        run.look()
    assert run.known == {2: {"a": "old", "b": "id-b"}}
    going_on = Run(cluster, {2: {"a": "old"}}, tolerant=True)
    going_on.look()
    assert going_on.told == [
        "topic a, partition 0, offsets from 5 on (the topic was made anew, and other messages have offsets 2 to 4)"
    ]
    going_on.told.clear()
    going_on.look()
    assert going_on.told == [] and going_on.known == {2: {"a": "new", "b": "id-b"}}
