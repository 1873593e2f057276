"""A job over damaged or lost files: refused with the file's name, or as if nothing had happened; never in silence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import support
from mixedmode import CorruptStateError, MixedQuery
from mixedmode.runtime.checkpoints.spark_log import crc_file
from support import World

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(200, seed=21)


def life(world: World, *parts: list[support.Event]) -> MixedQuery:
    """One life of the job: to the live phase (or its failure), some files, stop."""
    query = world.start(support.sessions(world.history(EVENTS[:80]), world.live()), OBSERVED)
    query.wait_for("live", 300)
    world.feed(query, *parts)
    query.stop()
    return query


def cut(path: Path) -> None:
    """Cut the last bytes off."""
    os.truncate(path, path.stat().st_size - 5)


def flip(path: Path) -> None:
    """Flip a bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 2
    path.write_bytes(bytes(data))


def newest(folder: Path) -> Path:
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def second_newest(folder: Path) -> Path:
    return newest(folder).with_name(str(int(newest(folder).name) - 1))


@pytest.mark.slow
def test_a_location_that_has_lost_something_is_no_new_job(world: World) -> None:
    """What the checkpoint does not hold is asked for by name, and what it holds is put right; what is committed is not
    committed again, and in the end no row is lost and none comes twice.

    - Without its checkpoints, or without job.json, a job is refused.
    - A wrong bit in what only Spark knows, which would make it read a file again or not at all, is named.
    - Damaged entries of the query's log are written again from the checkpoint.
    """
    assert life(world, EVENTS[80:110], EVENTS[110:140]).exception() is None
    before = world.output()
    ours, log = world.checkpoints / "mixedmode", world.checkpoints / "spark"
    aside = world.folder / "aside"
    for lost in (ours / "checkpoints", ours / "job.json"):
        lost.rename(aside)
        if lost.name == "job.json":  # start() reads that itself
            assert "is missing" in str(refused := support.refusal(lambda: life(world)))
            assert isinstance(refused, CorruptStateError)
        else:
            cause = life(world).exception()
            assert cause is not None and isinstance(cause.__cause__, CorruptStateError), cause
            assert "is missing" in str(cause)
        assert world.output() == before
        if lost.exists():
            shutil.rmtree(lost)
        aside.rename(lost)

    entry = newest(log / "sources" / "0")
    assert (entry.parent / f".{entry.name}.crc").read_bytes() == crc_file(entry.read_bytes()), "as Hadoop writes it"
    flip(entry)
    cause = life(world).exception()
    assert cause is not None and isinstance(cause.__cause__, CorruptStateError), cause
    assert f"spark/sources/0/{entry.name}" in str(cause)
    assert world.output() == before
    flip(entry)

    cut(newest(log / "offsets"))
    os.unlink(second_newest(log / "offsets"))
    flip(newest(log / "commits"))
    assert life(world, EVENTS[140:], support.flush_after(EVENTS)).exception() is None
    assert world.results() == world.expected(EVENTS)


@pytest.mark.slow
def test_a_log_that_is_altered_under_a_live_query_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads it first, epoch or compaction, names the changed file and the older checkpoint that is whole; what was
    shown until then stays."""
    monkeypatch.setattr("mixedmode.state.store.state_manifest._LOGS_MAX", 3)
    options = {**OBSERVED, "execution.checkpointing.interval": "1 ms", "state.checkpoints.num-retained": "9"}
    query = support.live(world.start(support.sessions(world.history(EVENTS[:80]), world.live()), options))
    for start in (80, 110):
        world.feed(query, EVENTS[start : start + 30])
    # The newest ones: the first live checkpoints stay whole.
    logs = sorted((world.checkpoints / "mixedmode" / "state").rglob("*.log"), key=lambda path: path.name)
    altered = [path for path in logs if path.name[:9] == logs[-1].name[:9]]
    for path in altered:
        flip(path)
    shown = world.output()
    world.land(EVENTS[140:])
    assert query._run.ended.wait(300)
    message = str(query.exception())
    assert any(f"{path} has been altered" in message for path in altered)
    assert "newest older checkpoint that is whole is" in message
    assert set(shown) <= set(world.output())


def test_output_that_waited_through_a_crash_is_checked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that a crash kept from being shown is read before it is; a harmed file is named, and nothing is shown."""
    history = world.read(EVENTS, live=False).withWatermark("ts", "0 seconds").groupBy("key")
    keyed = history.transformWithState(support.Sessions(), support.SESSION_SCHEMA, "append", "eventTime")

    def crash(point: str) -> None:
        if point == "checkpoint-after-metadata":
            raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr("mixedmode.runtime.driver.checkpoint.async_checkpoint.failpoint", crash)
        query = world.start(keyed, OBSERVED)
        query._run.ended.wait(300)
        assert "crash" in str(query.exception())
    (victim, *_) = sorted((world.out / "_mixedmode").rglob("*.parquet"))
    whole = victim.read_bytes()
    flip(victim)
    query = world.start(keyed, OBSERVED)
    query._run.ended.wait(300)
    assert victim.name in str(query.exception())
    assert world.output() == []
    victim.write_bytes(whole)
    world.start(keyed, OBSERVED).awaitTermination(300)
    assert world.output() == world.expected(EVENTS)
