"""Stop and start again: the job goes on where it was, once, also with another number of shards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import support
from mixedmode import MixedQuery
from mixedmode.runtime.driver.checkpoint import housekeeping
from support import World

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(240, seed=5)


def run(world: World, options: dict[str, Any], *parts: list[support.Event]) -> MixedQuery:
    """One life of the job: to the live phase, then some files, then stop."""
    job = support.sessions(world.history(EVENTS[:80]), world.live())
    return support.one_life(world, job, {**OBSERVED, **options}, *parts)


@pytest.mark.slow
def test_lives_with_other_parallelisms_are_one_run(world: World) -> None:
    """Stopped and started with 2, 3, 1 and 5 shards, the job gives what one life gives; its id stays."""
    first = run(world, {}, EVENTS[80:120])
    second = run(world, {"pipeline.parallelism": 3}, EVENTS[120:160])
    third = run(world, {"pipeline.parallelism": 1}, EVENTS[160:200])
    last = run(world, {"pipeline.parallelism": 5}, EVENTS[200:], support.flush_after(EVENTS))
    assert world.results() == world.expected(EVENTS)
    assert first.id == second.id == third.id == last.id
    assert len({first.runId, second.runId, third.runId, last.runId}) == 4
    assert support.details(second, "phase") == ["live"], "the backlog is behind a restarted job"
    assert support.events_of(second)[0] == "restored"


def test_data_that_arrived_while_stopped_is_taken(world: World) -> None:
    """Files that land between two lives are read once, by the next one."""
    run(world, {}, EVENTS[80:120])
    world.land(EVENTS[120:160], EVENTS[160:])
    run(world, {}, support.flush_after(EVENTS))
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_what_a_killed_spark_left_half_written_does_not_keep_a_job_from_starting(world: World) -> None:
    """A driver that was killed in the first write of Spark's log leaves a temporary file, and the next run starts."""
    run(world, {})
    log = world.folder / "checkpoints" / "spark"
    assert not [path for path in log.glob("offsets/*") if path.name.isdigit()], "a micro-batch has been planned"
    for name in ("offsets", "commits"):
        (log / name).mkdir(parents=True, exist_ok=True)
        (log / name / ".0.a1b2c3d4-0000-0000-0000-000000000000.tmp").write_text("v1\n{")
        (log / name / "..0.a1b2c3d4-0000-0000-0000-000000000000.tmp.crc").write_text("crc")
    run(world, {}, EVENTS[80:], support.flush_after(EVENTS))
    assert world.results() == world.expected(EVENTS)


def test_finished_job_does_nothing_again(world: World) -> None:
    """A bounded job that reached its end ends at once when it is started again, and writes nothing more."""
    lives = []
    for _ in range(2):
        lives.append(world.start(support.sessions(world.history(EVENTS), None)))
        lives[-1].awaitTermination(300)
    assert world.output() == world.expected(EVENTS)
    assert support.events_of(lives[1]) == ["restored", "finished"]


def test_stop_in_the_backlog_leaves_nothing(world: World) -> None:
    """A query that is stopped in the middle of an epoch says so and has written nothing; started again it gives the
    whole result (X12)."""
    history, started = world.history(EVENTS), world.folder / "started"

    def never_ends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started.touch()
        while started.exists():
            time.sleep(0.05)
        yield from batches

    query = world.start(support.sessions(history.mapInArrow(never_ends, history.schema), None))
    while not started.exists():
        assert not query.awaitTermination(0.05)
    query.stop()
    started.unlink()
    assert query.exception() is None
    assert support.details(query, "stopped") == ["in the middle of an epoch; the next start processes that epoch again"]
    assert world.output() == []
    again = world.start(support.sessions(history, None))
    again.awaitTermination(300)
    assert world.output() == world.expected(EVENTS)


@pytest.mark.slow
def test_history_that_was_streamed_in_part_is_not_lost_in_mixed_mode(world: World) -> None:
    """A job stopped in the middle of a streamed history and started in mixed mode still takes all of it, once."""

    def stopped_after_three(name: str, query: MixedQuery) -> None:
        if name == "epoch-applied" and query.status["epoch"] == 3:
            threading.Thread(target=query.stop).start()
            assert query._runner.context.stopping.wait(300)

    slow = {
        "execution.runtime-mode": "streaming",
        "execution.history.rows-per-epoch": "10",
        "execution.checkpointing.interval": "1 ms",
    }
    with support.at_failpoints(world, stopped_after_three):
        query = world.start(support.sessions(world.history(EVENTS[:80]), world.live()), {**OBSERVED, **slow})
        assert query.awaitTermination(300)
    assert query.checkpoints and support.details(query, "phase") == ["history"]
    run(world, {}, EVENTS[80:], support.flush_after(EVENTS))
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_old_checkpoints_and_files_go_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the others are old enough two checkpoints are retained, and the pool holds only files that they name."""
    monkeypatch.setattr(housekeeping, "KEEP_MS", 0)
    query = run(world, {"execution.checkpointing.interval": "1 ms"}, *[EVENTS[n : n + 20] for n in range(80, 240, 20)])
    folder = world.checkpoints / "mixedmode"
    kept = sorted(path.parent.name for path in folder.glob("checkpoints/*/_metadata"))
    assert len(query.checkpoints) > 5
    assert kept == [f"chk-{query.checkpoints[-2]['id']:08d}", f"chk-{query.checkpoints[-1]['id']:08d}"]
    from mixedmode.runtime.checkpoints.store import CheckpointStore
    from mixedmode.runtime.storage.filesystem import resolve

    store = CheckpointStore(*resolve(str(world.checkpoints)))
    named = {
        file.name
        for checkpoint_id in store.ids()
        for operator in store.read(checkpoint_id).operators
        for shard in operator.shards
        for file in shard.load().files
    }
    assert {path.name for path in folder.glob("state/*/e*")} == named
