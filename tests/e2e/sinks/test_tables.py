"""Whole jobs whose output goes through Spark's DataFrameWriter."""

from __future__ import annotations

from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import MixedQuery, QueryError
from support import World

EVENTS = support.stream_of(60, seed=21)


def written(world: World) -> list[tuple[Any, ...]]:
    """What a reader of the output folder sees, sorted."""
    rows = world.spark.read.schema(support.SESSION_SCHEMA).json(str(world.out)).collect() if world.out.exists() else []
    return sorted((tuple(row) for row in rows), key=repr)


def start(world: World, **options: Any) -> MixedQuery:
    """Sessions of a history and a live source, appended to json files."""
    keyed = support.sessions(world.history(EVENTS[:40]), world.live())
    writer = keyed.writeStream.format("json").option("execution.backlog.final-watermark", "observed")
    for name, value in {"checkpointLocation": world.checkpoints, "pipeline.parallelism": 2, **options}.items():
        writer = writer.option(name, str(value))
    query: MixedQuery = writer.start(str(world.out))
    world.queries.append(query)
    return query


def test_backlog_and_stream_are_appended_with_their_checkpoints(world: World) -> None:
    """The rows of a job through a format of Spark's are those of stock Spark, over the switch and a restart."""
    query = start(world)
    support.live(query)
    world.land(EVENTS[40:50])
    support.finish(query)
    query = start(world)
    support.live(query)
    world.land([*EVENTS[50:], *support.flush_after(EVENTS)])
    support.finish(query)
    assert written(world) == world.expected(EVENTS)


def test_an_append_that_was_not_acknowledged_comes_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between append and acknowledgement the restarted job appends the same rows again, as stated."""
    with monkeypatch.context() as patched:
        fail_at(patched, "sink-after-function=raise")
        with pytest.raises(QueryError, match="sink-after-function"):
            start(world).awaitTermination(300)
    once = written(world)
    assert once
    query = start(world)
    support.live(query)
    query.stop()
    assert written(world) == sorted(once * 2, key=repr)
    assert "at-least-once" in query._job.sink.describe()
