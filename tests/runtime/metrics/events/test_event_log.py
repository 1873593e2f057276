"""The event log holds what a run tells, stays small, and is in nobody's way."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from event_support import RUN, began, epoch, folder_of, phase
from mixedmode.runtime.metrics.events.event_files import HistoryFolder, RunFolder
from mixedmode.runtime.metrics.events.event_log import EventLog, LogLimits
from mixedmode.runtime.metrics.events.event_reader import read_history
from mixedmode.runtime.metrics.events.events import EpochApplied, PhaseBegan, RunBegan
from pyarrow import fs

LIMITS = LogLimits(total_bytes=400_000, part_bytes=4_000, rewritten_part_bytes=4_000)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def now_s(self) -> float:
        return self.ms / 1000


def log_of(
    location: Path, clock: Clock, limits: LogLimits = LIMITS, run_id: str = RUN, filesystem: fs.FileSystem | None = None
) -> tuple[EventLog, RunFolder]:
    folder = folder_of(location) if filesystem is None else HistoryFolder(filesystem, f"{location}/mixedmode")
    run = folder.run(run_id, clock.ms)
    return EventLog(folder, run, limits, now_ms=clock.now_ms, clock_s=clock.now_s), run


def test_what_is_told_is_there_at_once(tmp_path: Path) -> None:
    """On a local disk nothing has to be closed for events to be read; what was held back comes when its time does."""
    clock = Clock()
    log, _ = log_of(tmp_path, clock)
    for event in (began(), phase("live", 1), epoch(1, 2), epoch(2, 3)):
        log.take(event)
    assert list(read_history(str(tmp_path))) == [began(), phase("live", 1), epoch(1, 2)]
    clock.ms = 900
    assert log.idle() == pytest.approx(0.102)
    clock.ms = 1_002
    assert log.idle() is None
    assert list(read_history(str(tmp_path)))[-1] == epoch(2, 3)


def test_a_month_of_a_stream_fits(tmp_path: Path) -> None:
    """However long a stream runs the log is within its size, no epoch is uncounted, and its phases are all there."""
    clock = Clock()
    limits = replace(LIMITS, part_bytes=20_000, total_bytes=4_000_000)
    log, run = log_of(tmp_path, clock, limits)
    log.take(began())
    told = 0
    for number in range(16_000):
        clock.ms = 20_000 * number  # four days
        log.take(epoch(number, clock.ms, input_rows=3))
        told += 1
        if number % 4_000 == 2_000:
            log.take(phase(f"phase {number}", clock.ms))
    log.close()

    events = list(read_history(str(tmp_path)))
    epochs = [event for event in events if isinstance(event, EpochApplied)]
    assert sum(one.epochs for one in epochs) == told
    assert sum(one.input_rows for one in epochs) == 3 * told
    assert [one.phase for one in events if isinstance(one, PhaseBegan)] == [f"phase {n}000" for n in (2, 6, 10, 14)]
    assert [type(one) for one in events].count(RunBegan) == 1
    assert [one.at_ms for one in epochs] == sorted(one.at_ms for one in epochs)
    # The last hour is told as it was, what is long ago by the hour.
    assert all(one.epochs == 1 for one in epochs[-100:])
    assert epochs[5].epochs > 100
    parts = run.all_parts()
    assert len(parts) < 40
    assert sum(part.size_bytes for part in parts) < 600_000


def test_too_much_that_is_interesting_goes_the_oldest_first(tmp_path: Path) -> None:
    """Of events that cannot be folded the newest stay, within the size, and what the run is stays with them."""
    clock = Clock()
    log, run = log_of(tmp_path, clock)
    log.take(began())
    for number in range(4_000):
        clock.ms += 10
        log.take(phase(f"phase {number}", clock.ms))
    log.close()
    events = list(read_history(str(tmp_path)))
    assert sum(part.size_bytes for part in run.all_parts()) <= LIMITS.total_bytes // 2 + 2 * LIMITS.part_bytes
    assert isinstance(events[0], RunBegan)
    assert events[-1] == phase("phase 3999", clock.ms)
    assert 500 < len(events) < 4_000


def test_old_runs_go(tmp_path: Path) -> None:
    """Beyond their number, or the size of all, the oldest runs are removed; the one that begins never is."""
    clock = Clock()
    for number in range(6):
        clock.ms += 1_000
        log, run = log_of(tmp_path, clock, replace(LIMITS, runs=3), f"run{number}")
        log.take(began(clock.ms, f"run{number}"))
        log.close()
    assert [one.run_id for one in folder_of(tmp_path).runs()] == ["run3", "run4", "run5"]

    Path(run.path, "part-000009.jsonl").write_bytes(b"x" * LIMITS.total_bytes)
    clock.ms += 1_000
    log, _ = log_of(tmp_path, clock, LIMITS, "run6")
    log.take(began(clock.ms, "run6"))
    assert [one.run_id for one in folder_of(tmp_path).runs()] == ["run6"]


def elsewhere() -> fs.FileSystem:
    """A filesystem that is not the local one, though its files are."""
    return fs.SubTreeFileSystem("/", fs.LocalFileSystem())


def test_where_files_do_not_grow_they_are_written_anew(tmp_path: Path) -> None:
    """Elsewhere news is written after a second, what comes often after a quarter of a minute, each part whole."""
    clock = Clock()
    log, run = log_of(tmp_path, clock, filesystem=elsewhere())
    log.take(began())
    assert log.idle() == pytest.approx(1.0)
    clock.ms = 1_000
    assert log.idle() is None
    assert list(read_history(str(tmp_path))) == [began()]

    log.take(epoch(1, 1_000))
    assert log.idle() == pytest.approx(15.0)
    log.take(phase("live", 1_000))
    assert log.idle() == pytest.approx(1.0)
    clock.ms = 2_000
    log.idle()
    assert list(read_history(str(tmp_path))) == [began(), epoch(1, 1_000), phase("live", 1_000)]
    assert len(run.all_parts()) == 1

    for number in range(200):
        clock.ms += 1_000
        log.take(phase(f"{number}", clock.ms))
        log.idle()
    log.close()
    read = list(read_history(str(tmp_path)))
    assert [one.phase for one in read if isinstance(one, PhaseBegan)] == ["live", *map(str, range(200))]
    assert len(run.all_parts()) > 5


def test_a_place_that_cannot_be_written_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be written is logged once, raises nothing, and comes when it can be written again, what is new."""
    clock = Clock()
    log, run = log_of(tmp_path, clock)
    Path(tmp_path, "mixedmode").mkdir()
    Path(tmp_path, "mixedmode", "history").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        log.take(began())
        log.take(phase("backlog", 1))
        log.flush()
    assert [record.getMessage()[:35] for record in caplog.records] == ["events of the run cannot be written"]

    Path(tmp_path, "mixedmode", "history").unlink()
    log.take(phase("live", 2))
    log.take(phase("finish", 3))
    log.close()
    assert list(read_history(str(tmp_path))) == [began(), phase("live", 2), phase("finish", 3)]
    assert run.run_id == RUN


def test_a_store_that_fails_for_a_while_gets_all_of_it_later(tmp_path: Path) -> None:
    """Where parts are written anew nothing is lost by a try that failed: the next one has it, too."""
    clock = Clock()
    log, run = log_of(tmp_path, clock, filesystem=elsewhere())
    log.take(began())
    clock.ms = 1_000
    log.idle()
    Path(run.path).chmod(0o755)
    target = Path(run.part(1))
    target.unlink()
    target.mkdir()  # no file can be put here
    (target / "x").write_text("")
    log.take(phase("backlog", 1_000))
    clock.ms = 2_000
    assert log.idle() == pytest.approx(15.0)
    (target / "x").unlink()
    target.rmdir()
    clock.ms = 17_000
    log.idle()
    assert list(read_history(str(tmp_path))) == [began(), phase("backlog", 1_000)]


def test_a_fold_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    """Parts that were folded, and are still there, are removed with the next fold."""
    clock = Clock()
    log, run = log_of(tmp_path, clock)
    log.take(began())
    for number in range(20):
        clock.ms += 2_000
        log.take(epoch(number, clock.ms))
    Path(run.part(1, 1, 1)).write_bytes(Path(run.part(1)).read_bytes())
    before = len(list(read_history(str(tmp_path))))
    for number in range(20, 60):
        clock.ms += 2_000
        log.take(epoch(number, clock.ms))
    assert not Path(run.part(1)).exists()
    assert len(list(read_history(str(tmp_path)))) == before + 40
