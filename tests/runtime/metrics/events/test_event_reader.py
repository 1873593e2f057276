"""The event log is read in order, whatever a run has left of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from event_support import a_run, began, epoch, folder_of, phase, put
from mixedmode.errors import CheckpointError
from mixedmode.runtime.metrics.events.event_reader import HistoryTail, read_history

SECOND = "22222222-0000-0000-0000-000000000000"


def test_runs_come_one_after_the_other(tmp_path: Path) -> None:
    """All runs are read in the order of their starts, one by the beginning of its id, or what is young enough."""
    first, second = a_run(tmp_path), a_run(tmp_path, SECOND, 2_000)
    put(second.part(1), began(2_000, SECOND, 2), phase("live", 2_500, SECOND))
    put(first.part(1), began(0), phase("backlog", 100))
    put(first.part(2), began(0), phase("switch", 200))

    events = list(read_history(str(tmp_path)))
    assert events == [
        began(0),
        phase("backlog", 100),
        phase("switch", 200),
        began(2_000, SECOND, 2),
        phase("live", 2_500, SECOND),
    ]
    assert list(read_history(str(tmp_path), run="2222")) == events[3:]
    assert list(read_history(str(tmp_path), since_ms=200)) == events[2:]
    assert list(read_history(str(tmp_path), since_ms=200, run=first.run_id)) == events[2:3]


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    """What a killed driver has left behind the last whole line does not hide what was told before or after it."""
    run = a_run(tmp_path)
    put(run.part(1), began(), phase("live", 1), torn=b'{"v":1,"event":"EpochAppl')
    put(run.part(2), began(), epoch(1, 2))
    assert list(read_history(str(tmp_path))) == [began(), phase("live", 1), epoch(1, 2)]


def test_a_part_that_replaces_others_counts(tmp_path: Path) -> None:
    """Where the parts that one was made of are still there, since that was cut short, they are not read twice."""
    run = a_run(tmp_path)
    for number in range(1, 4):
        put(run.part(number), began(), epoch(number, number))
    put(run.part(1, 2, 1), began(), epoch(2, 2, epochs=2))
    assert list(read_history(str(tmp_path))) == [began(), epoch(2, 2, epochs=2), epoch(3, 3)]


def test_other_files_are_none(tmp_path: Path) -> None:
    """Files and folders with other names, as a store or a user may leave, are not looked at."""
    run = a_run(tmp_path)
    put(run.part(1), began())
    put(f"{run.path}/part-000001.jsonl.tmp", phase("live"))
    Path(folder_of(tmp_path).path, "lost+found").mkdir()
    assert list(read_history(str(tmp_path))) == [began()]


def test_a_place_without_history(tmp_path: Path) -> None:
    """A location that has none yet has no events; what is no location is an error that says so."""
    with pytest.raises(CheckpointError, match="has no folder mixedmode/"):
        list(read_history(str(tmp_path)))
    (tmp_path / "mixedmode").mkdir()
    assert list(read_history(str(tmp_path))) == []
    with pytest.raises(CheckpointError, match="cannot be reached"):
        list(read_history("nowhere://x/y"))


def test_a_tail_gives_each_event_once(tmp_path: Path) -> None:
    """Each look gives what is new: in the same part, in the next ones, and of the next run."""
    run = a_run(tmp_path)
    put(run.part(1), began(), phase("backlog", 1), torn=b'{"v":1,')
    tail = HistoryTail(str(tmp_path))
    assert tail.new_events() == [began(), phase("backlog", 1)]
    assert tail.new_events() == []
    Path(run.part(1)).write_bytes(b"")
    put(run.part(1), began(), phase("backlog", 1), epoch(1, 2))
    put(run.part(2), began(), epoch(2, 3))
    assert tail.new_events() == [epoch(1, 2), epoch(2, 3)]

    put(run.part(1, 2, 1), began(), epoch(2, 3, epochs=2))
    for number in (1, 2):
        Path(run.part(number)).unlink()
    put(run.part(3), began(), epoch(3, 4))
    assert tail.new_events() == [epoch(3, 4)]

    later = a_run(tmp_path, SECOND, 2_000)
    put(run.part(3), phase("finish", 5))
    put(later.part(1), began(2_000, SECOND, 2))
    assert tail.new_events() == [phase("finish", 5), began(2_000, SECOND, 2)]
    assert tail.run_id == SECOND


def test_a_tail_begins_with_the_newest_run(tmp_path: Path) -> None:
    """Whoever begins to follow a job hears of the run that is on, from its beginning, and not of those before."""
    put(a_run(tmp_path).part(1), began())
    put(a_run(tmp_path, SECOND, 2_000).part(1), began(2_000, SECOND, 2), phase("live", 2_001, SECOND))
    assert HistoryTail(str(tmp_path)).new_events() == [began(2_000, SECOND, 2), phase("live", 2_001, SECOND)]
