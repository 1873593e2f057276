"""Live files that were processed and are in no checkpoint: a restart finds them as they were, or says what is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import DataLossError, MixedQuery, QueryError
from standalone import wait_until
from support import World

EVENTS = support.stream_of(200, seed=41)
#: No checkpoint but those that somebody asks for.
RARELY = {"execution.checkpointing.interval": "1 hour"}


def start(world: World, **source: str) -> MixedQuery:
    path = world.folder / "history.parquet"  # written once: another one is another backlog
    history = world.spark.read.schema(support.ROW_SCHEMA).parquet(str(path)) if path.exists() else None
    return world.start(support.sessions(history or world.history(EVENTS[:80]), world.live(**source)), RARELY)


@pytest.fixture
def processed(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that has died behind an epoch that no checkpoint holds; the file that the epoch has read."""
    query = start(world)
    support.live(query)
    world.feed(query, EVENTS[80:120])
    fail_at(monkeypatch, "checkpoint-start=raise")
    before = query._runner.running.state.epoch  # type: ignore[union-attr]
    world.land(EVENTS[120:160])
    wait_until(lambda: query._runner.running.state.epoch > before, "the epoch")  # type: ignore[union-attr]
    batch = query._runner.running.state.batch_id  # type: ignore[union-attr]
    wait_until((world.checkpoints / "spark" / "commits" / str(batch)).exists, "Spark's commit")
    with pytest.raises(Exception, match="checkpoint-start"):
        query.processAllAvailable()
    query.stop()
    fail_at(monkeypatch, "")
    return max(world.landing.glob("*.parquet"))


def refusal(world: World) -> str:
    query: Any = start(world)
    with pytest.raises(QueryError) as caught:
        query.awaitTermination(100)
    assert isinstance(caught.value.__cause__, DataLossError)
    return str(caught.value)


def finished(world: World, **source: str) -> MixedQuery:
    query = start(world, **source)
    support.live(query)
    world.land(EVENTS[160:], support.flush_after(EVENTS))
    support.finish(query)
    return query


@pytest.mark.slow
def test_a_file_that_is_gone_is_named_each_time_until_it_is_back(world: World, processed: Path) -> None:
    """Stock Spark would read nothing of it without a word; put back as it was, every row comes once."""
    aside = world.folder / "aside.parquet"
    processed.rename(aside)
    for _ in range(2):
        assert f"{processed.name} (gone)" in refusal(world)
    aside.rename(processed)
    finished(world)
    assert world.results() == world.expected(EVENTS)


def test_a_file_that_was_written_again_is_named(world: World, processed: Path) -> None:
    """Its name alone is not it."""
    modified = processed.stat()
    support.write(processed, EVENTS[:3])
    os.utime(processed, ns=(modified.st_atime_ns, modified.st_mtime_ns + 5_000_000))
    assert f"{processed.name} (written again since)" in refusal(world)


@pytest.mark.slow
def test_a_source_may_go_on_without(world: World, processed: Path) -> None:
    """``failOnDataLoss = false``: the file is told as lost, all other rows come once."""
    processed.unlink()
    query = finished(world, failOnDataLoss="false")
    assert [one.event for one in query.lifecycle].count("data-lost") == 1
    assert processed.name in next(one.detail for one in query.lifecycle if one.event == "data-lost")
    left = [*EVENTS[:120], *EVENTS[160:]]
    assert world.results() == world.expected(left)


@pytest.fixture
def interrupted(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that has died in its backlog, with one of two shards finished; a file that both read."""
    world.land(EVENTS[80:120], EVENTS[120:160])
    fail_at(monkeypatch, "epoch-before-apply=raise")
    query: Any = start(world)
    with pytest.raises(QueryError, match="epoch-before-apply"):
        query.awaitTermination(300)
    fail_at(monkeypatch, "")
    reports = sorted((world.checkpoints / "mixedmode" / "backlog").glob("*/*.report"))
    assert len(reports) == 2, "nothing was kept of the backlog"
    reports[0].unlink()
    return max(world.landing.glob("*.parquet"))


def test_a_file_of_an_interrupted_backlog_is_named(world: World, interrupted: Path) -> None:
    """One shard holds its rows, the other would be computed without: refused until it is back, or tolerated."""
    aside = world.folder / "aside.parquet"
    interrupted.rename(aside)
    said = refusal(world)
    assert f"{interrupted.name} (gone)" in said and "in its unfinished backlog" in said
    query = finished(world, failOnDataLoss="false")
    assert interrupted.name in next(one.detail for one in query.lifecycle if one.event == "data-lost")
    left = [*EVENTS[:120], *EVENTS[160:]]
    assert world.results() == world.expected(left)


@pytest.mark.slow
def test_a_file_of_an_interrupted_backlog_that_was_written_again(world: World, interrupted: Path) -> None:
    """It is named, too; put back as it was, the finished shard is taken over and every row comes once."""
    modified, content = interrupted.stat(), interrupted.read_bytes()
    support.write(interrupted, EVENTS[:3])
    os.utime(interrupted, ns=(modified.st_atime_ns, modified.st_mtime_ns + 5_000_000))
    assert f"{interrupted.name} (written again since)" in refusal(world)
    interrupted.write_bytes(content)
    os.utime(interrupted, ns=(modified.st_atime_ns, modified.st_mtime_ns))
    finished(world)
    assert world.results() == world.expected(EVENTS)
