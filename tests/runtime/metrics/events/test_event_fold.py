"""Epochs that come often are told together; nothing is lost of their sums, nor of what is interesting."""

from __future__ import annotations

import itertools

from event_support import common, epoch, phase
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.metrics.events.event_fold import Folder, folded
from mixedmode.runtime.metrics.events.event_parts import Latencies
from mixedmode.runtime.metrics.events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    EpochApplied,
    PositionsKnown,
    RealTimeProgressed,
    RunEvent,
    ShardTime,
    SourcePosition,
    StageProgress,
)


def checkpoint(number: int, at_ms: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        **common(at_ms), checkpoint_id=number, trigger="interval", kind="checkpoint", duration_ms=number, new_bytes=1
    )


def positions(at_ms: int, **epochs: int) -> PositionsKnown:
    found = tuple(SourcePosition(name=name, epoch=number) for name, number in epochs.items())
    return PositionsKnown(**common(at_ms), positions=found)


def test_two_epochs_as_one() -> None:
    """Rows and durations are sums, the longest is kept, and all that tells a state is the later one's."""

    def one(number: int, rows: int, seconds: float, **fields: float) -> EpochApplied:
        stage = StageProgress(
            uid="s",
            input_rows=rows,
            state_bytes=number,
            durations_ms={"sort": number},
            slowest=(ShardTime(shard=number, seconds=seconds, rows=rows),),
        )
        return epoch(
            number,
            number,
            input_rows=rows,
            late_rows=1,
            duration_ms=seconds * 1000,
            max_duration_ms=seconds * 1000,
            input_rows_per_second=rows / 2,
            stages=(stage,),
            **fields,
        )

    first, rest = itertools.islice(folded([one(0, 0, 0.5), one(1, 100, 1.0), one(2, 300, 3.0, watermark_ms=7)], 99), 2)
    assert (first.at_ms, rest.at_ms) == (0, 2)
    assert isinstance(rest, EpochApplied)
    assert (rest.epoch, rest.epochs, rest.watermark_ms) == (2, 2, 7)
    assert (rest.input_rows, rest.late_rows, rest.duration_ms, rest.max_duration_ms) == (400, 2, 4000, 3000)
    assert (rest.input_rows_per_second, rest.processed_rows_per_second) == (100, 100)  # 400 rows of 4 s, in 4 s
    (stage,) = rest.stages
    assert (stage.input_rows, stage.state_bytes, stage.durations_ms) == (400, 2, {"sort": 3})
    assert [slow.shard for slow in stage.slowest] == [2, 1]


def test_a_lone_epoch_is_told_at_once() -> None:
    """After a pause nothing is held back; what follows soon waits until the stretch is over."""
    folder = Folder(1_000)
    assert folder.take(epoch(1, 0)) == [epoch(1, 0)]
    assert folder.take(epoch(2, 400)) == []
    assert folder.take(positions(450, live=2)) == [positions(450, live=2)]
    assert folder.next_ms == 1_000
    assert folder.flush(999) == []
    assert folder.flush(1_000) == [epoch(2, 400)]
    assert folder.take(epoch(3, 5_000)) == [epoch(3, 5_000)]


def test_nothing_is_folded_across_what_is_interesting() -> None:
    """What was held back is told before a phase begins, and an epoch behind it stands for itself."""
    told = list(folded([epoch(1, 0), epoch(2, 1), phase("live", 2), epoch(3, 3)], 1_000))
    assert told == [epoch(1, 0), epoch(2, 1), phase("live", 2), epoch(3, 3)]


def test_kinds_are_folded_apart() -> None:
    """Checkpoints and positions between epochs do not keep those from being folded, nor the other way round."""
    told = list(
        folded(
            [e for at in range(0, 5_000, 100) for e in (epoch(at, at), checkpoint(1, at), positions(at, a=at))], 1_000
        )
    )
    assert len(told) <= 3 * 7
    assert sum(one.epochs for one in told if isinstance(one, EpochApplied)) == 50
    taken = [one for one in told if isinstance(one, CheckpointCompleted)]
    assert (sum(one.checkpoints for one in taken), sum(one.new_bytes for one in taken)) == (50, 50)


def test_positions_of_all_inputs_are_kept() -> None:
    """Where micro-batches of two inputs alternate, the newest position of each is told."""
    folder = Folder(1_000)
    folder.take(positions(0, a=1))
    folder.take(positions(1, a=2))
    folder.take(positions(2, b=3))
    (held,) = folder.flush()
    assert isinstance(held, PositionsKnown)
    assert {one.name: one.epoch for one in held.positions} == {"a": 2, "b": 3}


def test_progress_of_a_pass_comes_before_its_epoch() -> None:
    """The end of a sorted pass is not told after the epoch that it was."""

    def progressed(done: int, at_ms: int) -> BacklogProgressed:
        return BacklogProgressed(
            **common(at_ms),
            stage="s",
            shards_done=done,
            shards=2,
            rows_read=0,
            rows=0,
            total_rows=None,
            rows_per_second=0.0,
            spilled_bytes=0,
            fraction=done / 2,
            eta_s=None,
            elapsed_s=0.0,
        )

    told = list(folded([progressed(0, 0), progressed(1, 10), progressed(2, 20), epoch(1, 30)], 1_000))
    assert told == [progressed(0, 0), progressed(2, 20), epoch(1, 30)]


def real_time(number: int, at_ms: int, rows: int, *latencies_ms: int) -> RealTimeProgressed:
    """An epoch in Real-Time Mode has so many rows, and its last ones had these latencies."""
    found = Latencies(p50_ms=latencies_ms[0], p99_ms=latencies_ms[1], max_ms=latencies_ms[2]) if latencies_ms else None
    return RealTimeProgressed(
        **common(at_ms), epoch=number, elapsed_s=at_ms / 1000, rows=rows, rows_per_second=1.0, latencies=found
    )


def test_slow_rows_are_not_folded_away() -> None:
    """Of latencies the greatest are kept, of seconds as of epochs; how far an epoch had come is told before its end."""
    told = [
        real_time(4, 0, 5, 1, 2, 3),
        real_time(4, 10, 6, 7, 900, 901),
        real_time(4, 20, 9),
        real_time(4, 25, 12, 8, 9, 10),
        epoch(4, 30, latencies=Latencies(p50_ms=7, p99_ms=900, max_ms=901)),
        epoch(5, 40, latencies=Latencies(p50_ms=9, p99_ms=10, max_ms=20)),
        epoch(6, 50),
    ]
    first, last_seconds, begun, later = folded(told, 1_000)
    assert (first, begun) == (told[0], told[4])
    assert last_seconds == real_time(4, 25, 12, 8, 900, 901)
    assert isinstance(later, EpochApplied) and later.epochs == 2
    assert later.latencies == Latencies(p50_ms=9, p99_ms=10, max_ms=20)


def test_within_epochs_no_more_is_told_for_it_that_they_end() -> None:
    """Of many short epochs a stretch of time has two events: of what is within them, and of their ends."""
    told = [
        event
        for number in range(30)
        for event in (real_time(number, number * 10, 5, 1, 2, 3), epoch(number, number * 10 + 9))
    ]
    assert len(list(folded(told, 1_000))) == 4


RUNS = st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from("eeeeecp!")), max_size=60)


@given(RUNS, st.sampled_from([1, 500, 60_000]))
def test_sums_survive_any_folding(steps: list[tuple[int, str]], window_ms: int) -> None:
    """However often a run is folded, its rows, epochs and checkpoints stay, and so does what is interesting."""
    at, run = 0, list[RunEvent]()
    for number, (pause, what) in enumerate(steps):
        at += pause
        made: dict[str, RunEvent] = {
            "e": epoch(number, at, input_rows=number),
            "c": checkpoint(number, at),
            "p": positions(at, live=number),
            "!": phase("live", at),
        }
        run.append(made[what])
    once = list(folded(run, window_ms))
    twice = list(folded(once, 10 * window_ms))

    def sums(events: list[RunEvent]) -> tuple[int, int, int, int]:
        epochs = [one for one in events if isinstance(one, EpochApplied)]
        taken = sum(one.checkpoints for one in events if isinstance(one, CheckpointCompleted))
        interesting = len([one for one in events if type(one).__name__ == "PhaseBegan"])
        return sum(one.epochs for one in epochs), sum(one.input_rows for one in epochs), taken, interesting

    assert sums(run) == sums(once) == sums(twice)
    assert len(twice) <= len(once) <= len(run)
