"""What a run tells of messages that its topics have forgotten, with a cluster that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import PlanError
from mixedmode.runtime.connectors.sources.live_sources import LiveSourceFacts
from mixedmode.runtime.driver import source_losses
from mixedmode.runtime.driver.source_losses import SourceLosses

Place = tuple[str, int]
TOLERANT = {"failondataloss": "false"}


class Cluster:
    """Says where partitions begin, one answer after the other."""

    def __init__(self) -> None:
        self.answers: Iterator[dict[Place, int]] = iter(())
        self.asked: list[list[Place]] = []
        self.is_away = False

    def __call__(self, spark: Any, options: Any) -> Cluster:
        if self.is_away:
            raise PlanError("nobody is there")
        return self

    def begins(self, places: Iterable[Place]) -> Callable[[], dict[Place, int]]:
        self.asked.append(sorted(places))
        answer = next(self.answers)
        return lambda: answer

    def close(self) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(source_losses, "TopicClient", made)
    monkeypatch.setattr(source_losses, "log_numbers", lambda live: (0,))
    return made


def losses(monkeypatch: pytest.MonkeyPatch, entries: dict[int, str], **options: str) -> tuple[SourceLosses, list[Any]]:
    """Those of a job with one Kafka source, whose log has these offsets by micro-batch."""
    monkeypatch.setattr(source_losses, "live_sources", lambda live: (LiveSourceFacts("kafka", options),))

    def position(batch_id: int) -> Any:
        return SimpleNamespace(offset_entry=f"v1\n{{}}\n{entries[batch_id]}")

    log = SimpleNamespace(position=position, first_offset=lambda number: entries[-1])
    facts: list[Any] = []
    job: Any = SimpleNamespace(live=object(), live_inputs=[SimpleNamespace(name="live")], spark=None)
    made = SourceLosses(
        job,
        SimpleNamespace(epoch=7),  # type: ignore[arg-type]
        SimpleNamespace(spark_log=log),  # type: ignore[arg-type]
        SimpleNamespace(on=facts.append),
    )
    return made, facts


ENTRIES = {-1: '{"t":{"0":2}}', 0: '{"t":{"0":9,"1":4}}', 1: '{"t":{"0":9,"1":6}}'}


def test_a_tolerant_source_tells_what_its_epoch_has_not_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each range once, with the epoch; partitions of which nothing is read are not asked for."""
    made, facts = losses(monkeypatch, ENTRIES, **TOLERANT)
    cluster.answers = iter([{("t", 0): 5, ("t", 1): 0}, {("t", 0): 6, ("t", 1): 0}, {("t", 1): 4}, {("t", 1): 4}])
    for batch_id in (0, 1):
        with made.watching(batch_id):
            pass
    told = [(one.messages.first, one.messages.last, one.messages.fate, one.source, one.epoch) for one in facts]
    assert told == [(2, 4, "gone", "live", 7), (5, 5, "perhaps", "live", 7)]
    assert cluster.asked[2] == [("t", 1)]


@pytest.mark.parametrize(("finished", "fates"), [(0, ["gone"]), (1, ["perhaps"]), (2, [])])
def test_finished_shards_had_their_rows(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, finished: int, fates: list[str]
) -> None:
    """Of two shards: what neither has read is gone, one may have read it, both have it all."""
    made, facts = losses(monkeypatch, ENTRIES, **TOLERANT)
    cluster.answers = iter([{("t", 0): 5, ("t", 1): 0}] * 2)
    with made.watching(0) as watch:
        watch.had_read(finished, 2)
    assert [one.messages.fate for one in facts] == fates


def test_nobody_is_asked_without_need_and_no_epoch_fails_for_want_of_an_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a source that ends the query when it loses something Spark says so; a cluster that is away says nothing; an
    epoch that fails tells nothing."""
    made, facts = losses(monkeypatch, ENTRIES)
    with made.watching(0):
        pass
    made, told = losses(monkeypatch, ENTRIES, **TOLERANT)
    cluster.is_away = True
    with made.watching(0):
        pass
    assert cluster.asked == []
    cluster.is_away = False
    cluster.answers = iter([{("t", 0): 5, ("t", 1): 0}] * 2)
    with pytest.raises(KeyError), made.watching(0):
        raise KeyError
    assert facts == told == []
