"""What is told of an epoch while it runs: what its own shards have told, in its own run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mixedmode.runtime.driver.realtime.epoch_watch import EpochWatch, latencies_of, summed_up
from mixedmode.runtime.metrics.events.event_parts import Latencies
from mixedmode.runtime.metrics.events.events import RealTimeProgressed
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.tasks.realtime.latency_histogram import EpochProgress
from mixedmode.runtime.tasks.realtime.run_folder import RealTimeReport, RunFolder, SeenMessages, run_folder
from mixedmode.runtime.tasks.report import ShardReport
from pyarrow import fs

LOCAL = fs.LocalFileSystem()


def progress(*latencies_ms: int) -> EpochProgress:
    made = EpochProgress(rows=len(latencies_ms))
    made.latencies.add(np.array(latencies_ms, np.int64))
    return made


class Watched:
    """A run's folder, who watches it, and what is told."""

    def __init__(self, folder: Path, shards: int = 2) -> None:
        self.folder: RunFolder = run_folder(LOCAL, str(folder), "run-0")
        self.folder.make()
        self.told: list[RealTimeProgressed] = []
        self.now_s = 50.0
        self.watch = EpochWatch(self.folder, shards, self.told.append, lambda: self.now_s)

    def second(self) -> RealTimeProgressed | None:
        """Another second; returns what it tells."""
        self.now_s += 1
        before = len(self.told)
        self.watch.look()
        return self.told[-1] if len(self.told) > before else None

    def tells(self, batch: int, shard: int, *latencies_ms: int) -> None:
        self.folder.write_progress(batch, shard, progress(*latencies_ms).to_bytes())


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_shards_are_summed_up(watched: Watched) -> None:
    """All rows of the epoch, and the rate and the latencies of the last seconds."""
    assert watched.second() is None, "no epoch is in hand"
    watched.watch.begin(3, 8)
    begun = watched.second()
    assert begun is not None and (begun.epoch, begun.rows, begun.latencies) == (8, 0, None)
    watched.tells(3, 0, *[10] * 99)
    watched.tells(3, 1, 500)
    event = watched.second()
    assert event is not None
    assert (event.rows, event.elapsed_s, event.rows_per_second) == (100, 2.0, 50.0)
    assert event.latencies == event.epoch_latencies == Latencies(p50_ms=10, p99_ms=10, max_ms=500)


def test_the_last_seconds_forget(watched: Watched) -> None:
    """Rows of some seconds ago are of the epoch, and not of the last seconds; what does not change is told once."""
    watched.watch.begin(0, 1)
    watched.tells(0, 0, *[2000] * 10)
    watched.second()
    watched.tells(0, 0, *[2000] * 10, *[4] * 10)
    events = [watched.second() for _ in range(7)]
    told = [event for event in events if event is not None]
    assert [event.rows for event in told] == [20] * len(told)
    # Five looks: the first four have the beginning of the epoch before them.
    assert [event.rows_per_second for event in told] == [10.0, 6.667, 5.0, 4.0, 2.0, 0.0]
    assert told[0].latencies is not None and told[0].latencies.max_ms == 2000
    assert told[4].latencies == Latencies(p50_ms=4, p99_ms=4, max_ms=4)
    assert told[5].latencies is None and told[5].epoch_latencies is not None
    assert events[-1] is None


def test_another_epoch_begins_anew(watched: Watched) -> None:
    """What was told of the epoch before, or of a later one, is not of this one; the last seconds go on."""
    watched.watch.begin(0, 1)
    watched.tells(0, 0, 5, 5, 5)
    assert (event := watched.second()) is not None and event.rows_per_second == 3.0
    watched.watch.begin(1, 2, progress(5, 5, 5, 6, 6))
    event = watched.second()
    assert event is not None and (event.epoch, event.rows, event.rows_per_second) == (2, 0, 2.5)
    assert event.latencies == Latencies(p50_ms=5, p99_ms=6, max_ms=6) and event.epoch_latencies is None
    watched.tells(0, 0, 5, 5, 5, 5, 5, 5)
    watched.tells(2, 0, 5)
    assert (event := watched.second()) is not None and event.rows == 0
    watched.tells(1, 0, 7)
    assert (event := watched.second()) is not None and (event.rows, event.rows_per_second) == (1, 1.5)
    watched.watch.end()
    watched.tells(1, 0, 7, 7)
    assert watched.second() is None, "it is about to be applied"


def test_an_epoch_that_ends_during_a_look_is_not_told_of(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read by then is in the epoch's record; and behind the end of a run nobody is told anything."""
    watched.watch.begin(0, 1)
    watched.tells(0, 0, 5, 5, 5)
    read = RunFolder.progress

    def read_late(folder: RunFolder, batch: int, shard: int) -> EpochProgress | None:
        found = read(folder, batch, shard)
        watched.watch.begin(1, 2, progress(5, 5, 5))
        return found

    with monkeypatch.context() as late:
        late.setattr(RunFolder, "progress", read_late)
        assert watched.second() is None
    with watched.watch.running():
        assert (event := watched.second()) is not None and (event.epoch, event.rows) == (2, 0)
    watched.tells(1, 0, 5)
    assert watched.second() is None


def test_another_run_and_torn_files_do_not_count(watched: Watched, tmp_path: Path) -> None:
    """A task that outlives its run has another folder; of a file that is being written the last state counts."""
    watched.watch.begin(0, 1)
    old = run_folder(LOCAL, str(tmp_path), "older-0")
    old.make()
    old.write_progress(0, 0, progress(9, 9, 9).to_bytes())
    watched.tells(0, 1, 7)
    assert (event := watched.second()) is not None and event.rows == 1
    watched.folder.write_progress(0, 1, progress(7, 7).to_bytes()[:-1])
    (tmp_path / "realtime" / "run-0" / "progress" / "what-is-this").write_text("?")
    assert (event := watched.second()) is not None and event.rows == 1
    watched.tells(0, 1, 7, 7)
    assert (event := watched.second()) is not None and event.rows == 2


def test_the_record_of_an_epoch_has_the_latencies_of_all_shards() -> None:
    """They come with the reports."""
    reports = [
        RealTimeReport(SeenMessages(), ShardReport(0, "a", (), (), ShardCounters(), {}), progress(*ones))
        for ones in ((3, 3, 3), (3, 70))
    ]
    again = [RealTimeReport.from_bytes(report.to_bytes()) for report in reports]
    assert again == reports
    total = summed_up(report.progress for report in again)
    assert latencies_of(total.latencies) == Latencies(p50_ms=3, p99_ms=70, max_ms=70)
    assert latencies_of(summed_up([]).latencies) is None
