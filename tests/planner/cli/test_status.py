"""``mixedmode status``: whether a job runs and is healthy, by its claim and its event log; without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from event_support import RUN, a_run, began, common, epoch, folder_of, phase, put
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.metrics.events.event_fold import folded
from mixedmode.runtime.metrics.events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    Latencies,
    Noted,
    RealTimeProgressed,
    RunEnded,
    RunEvent,
    SourceChanged,
    SourcePosition,
    SourceProgress,
)
from mixedmode.state.store.folder_owner import PLACE_VARIABLE
from pyarrow import fs
from typer.testing import CliRunner

#: When the test at hand began; modules are imported long before.
NOW_MS = 0
#: The id that the claim has of the run: the log has Spark's, which is known later.
CLAIMED = "99999999"
EXPIRY_MS = 600_000
#: Reads of the clock of a test are at most so far apart.
TEST_S = 300


@pytest.fixture(autouse=True)
def _now() -> None:
    global NOW_MS
    NOW_MS = round(time.time() * 1000)


@pytest.fixture
def claim(tmp_path: Path) -> Iterator[Callable[[], DriverLease]]:
    """Claims the location for the run of ``event_support``."""
    taken: list[DriverLease] = []

    def take() -> DriverLease:
        lease = DriverLease(fs.LocalFileSystem(), f"{tmp_path}/mixedmode", CLAIMED, expiry_ms=EXPIRY_MS)
        lease.take(heartbeat=False)
        taken.append(lease)
        return lease

    yield take
    for lease in taken:
        lease.release()


def tell(location: Path, *events: RunEvent) -> None:
    put(a_run(location).part(1), *events)


def ask(location: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON."""
    done = CliRunner().invoke(app, ["status", str(location), "--json", *options])
    return done.exit_code, json.loads(done.stdout)


def checkpoint(number: int, at_ms: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        **common(at_ms), checkpoint_id=number, trigger="interval", kind="checkpoint", duration_ms=80, state_bytes=4096
    )


def live_epoch(at_ms: int, **fields: Any) -> RunEvent:
    sources = (SourceProgress(name="live", is_backlog=False, finished=False),)
    known = {"input_rows": 500, "watermark_ms": at_ms - 60_000, "sources": sources, **fields}
    return epoch(known.pop("epoch", 7), at_ms, **known)


def test_a_job_that_runs_is_healthy(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Phase, epoch, checkpoint, lag, process and host are told; without limits nothing is too old."""
    claim()
    tell(tmp_path, began(NOW_MS - 90_000), phase("live", NOW_MS - 80_000), live_epoch(NOW_MS), checkpoint(3, NOW_MS))
    code, found = ask(tmp_path)
    assert code == 0
    assert (found["running"], found["healthy"], found["problems"]) == (True, True, [])
    assert found["query"] == {"id": "q", "name": "job"}
    assert (found["run"]["id"], found["run"]["pid"], found["run"]["starts"]) == (RUN, os.getpid(), 1)
    assert found["run"]["outcome"] is None and found["run"]["heartbeatAgeSeconds"] < TEST_S
    assert (found["phase"], found["backlog"]) == ("live", None)
    assert (found["epoch"]["id"], found["epoch"]["rows"]) == (7, 500)
    assert (found["checkpoint"]["id"], found["checkpoint"]["stateBytes"]) == (3, 4096)
    (source,) = found["sources"]
    assert source["name"] == "live" and 60 <= source["lagSeconds"] < 60 + TEST_S
    text = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert text.exit_code == 0 and "running" in text.stdout and "checkpoint" in text.stdout


def test_a_switch_behind_the_last_epoch_ends_the_backlog(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Until the first live epoch, too, a source is in the stream, and its lag is checked."""
    claim()
    behind = (SourceProgress(name="live", is_backlog=True, finished=False),)
    switch = SourceChanged(**common(NOW_MS), source="live", is_backlog=False, epoch=7, reason="it is processed")
    last = live_epoch(NOW_MS, sources=behind)
    tell(tmp_path, began(NOW_MS - 90_000), phase("backlog", NOW_MS - 80_000), last, switch, phase("live", NOW_MS))
    code, found = ask(tmp_path, "--max-lag", "1 s")
    assert code == 4 and found["problems"][0].startswith("source live lags by")
    assert [source["isBacklog"] for source in found["sources"]] == [False]


def test_a_live_folder_that_is_gone_is_a_problem_until_it_is_back(
    tmp_path: Path, claim: Callable[[], DriverLease]
) -> None:
    """Nothing else shows it: the job waits for files and looks like one whose source is quiet."""
    claim()
    begun = [began(NOW_MS - 90_000), phase("live", NOW_MS - 80_000), live_epoch(NOW_MS)]
    told = [
        Noted(**common(NOW_MS), what=what, text=folder)
        for what in ("folder-gone", "folder-is-back")
        for folder in ("/in", "/more")
    ]
    problem = "the live folder {} is gone, no files are found there"
    for count, folders in [(2, ("/in", "/more")), (3, ("/more",)), (4, ())]:
        shutil.rmtree(tmp_path / "mixedmode" / "history", ignore_errors=True)
        tell(tmp_path, *begun, *told[:count])
        code, found = ask(tmp_path)
        assert (code, found["healthy"]) == (4 if folders else 0, not folders)
        assert found["problems"] == [problem.format(folder) for folder in folders]


def test_a_backlog_tells_how_far_it_is(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Rows, rows/s, the time to go and spill; a limit of checkpoints does not hold there, for there are none."""
    claim()
    progress = BacklogProgressed(
        **common(NOW_MS),
        stage="visits",
        shards_done=1,
        shards=4,
        rows_read=900,
        rows=300,
        total_rows=1200,
        rows_per_second=100.0,
        spilled_bytes=77,
        fraction=0.996,
        eta_s=None,
        eta_low_s=8.0,
        eta_high_s=20.0,
        elapsed_s=12.0,
    )
    tell(tmp_path, began(NOW_MS - 3_600_000), phase("backlog", NOW_MS - 3_600_000), progress)
    code, found = ask(tmp_path, "--max-checkpoint-age", "1 s", "--max-lag", "1 s", "--max-silence", f"{TEST_S} s")
    assert (code, found["phase"]) == (0, "backlog")
    assert found["backlog"] == {
        "stage": "visits",
        "fraction": 0.996,
        "rows": 300,
        "rowsRead": 900,
        "totalRows": 1200,
        "rowsPerSecond": 100.0,
        "etaSeconds": None,
        "etaRangeSeconds": [8.0, 20.0],
        "shardsDone": 1,
        "shards": 4,
        "spilledBytes": 77,
    }
    assert "99 %, 300 rows, 100 rows/s, 8 s to 20 s to go" in CliRunner().invoke(app, ["status", str(tmp_path)]).stdout


def real_time(number: int, at_ms: int, rows: int) -> RealTimeProgressed:
    latencies = Latencies(p50_ms=12, p99_ms=40, max_ms=1300)
    return RealTimeProgressed(
        **common(at_ms), epoch=number, elapsed_s=9.0, rows=rows, rows_per_second=20.4, latencies=latencies
    )


def test_an_epoch_in_real_time_is_seen_before_its_end(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Rows, rows/s and latencies of the epoch that runs; of one that is applied they are those of the epoch."""
    claim()
    begun = [began(NOW_MS - 90_000), phase("live", NOW_MS - 80_000)]
    applied = live_epoch(NOW_MS - 1, latencies=Latencies(p50_ms=1, p99_ms=2, max_ms=3))
    told = [*begun, real_time(7, NOW_MS - 30_000, 90), applied, real_time(8, NOW_MS, 100)]
    tell(tmp_path, *told)
    code, found = ask(tmp_path)
    assert code == 0
    assert found["realTime"] == {
        "epoch": 8,
        "ageSeconds": ANY,
        "elapsedSeconds": 9.0,
        "rows": 100,
        "rowsPerSecond": 20.4,
        "latencyMs": {"p50": 12, "p99": 40, "max": 1300},
        "epochLatencyMs": None,
    }
    assert found["epoch"]["latencyMs"] == {"p50": 1, "p99": 2, "max": 3}
    shown = CliRunner().invoke(app, ["status", str(tmp_path)]).stdout
    assert "epoch 8 runs: 100 rows, 20 rows/s, latency p50 12 ms, p99 40 ms, max 1,300 ms" in " ".join(shown.split())
    for later in ([live_epoch(NOW_MS, epoch=8)], [phase("finish", NOW_MS)], [phase("live", NOW_MS + 1)]):
        shutil.rmtree(tmp_path / "mixedmode" / "history")
        tell(tmp_path, *told, *later)
        assert ask(tmp_path)[1]["realTime"] is None, later


@pytest.mark.parametrize(("rows", "problems"), [((5, 5, 5), 1), ((5, 5, 6), 0)])
def test_rows_in_real_time_are_progress(
    tmp_path: Path, claim: Callable[[], DriverLease], rows: tuple[int, ...], problems: int
) -> None:
    """An epoch may be long: rows within it say that the job gets on."""
    claim()
    told = [real_time(8, NOW_MS - ago, count) for ago, count in zip((900_000, 800_000, 1), rows, strict=True)]
    tell(tmp_path, began(NOW_MS - 3_600_000), phase("live", NOW_MS - 3_600_000), *told)
    assert len(ask(tmp_path, "--max-silence", "10 min")[1]["problems"]) == problems


def test_a_backlog_whose_rows_stand_still_gets_nowhere(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """That a pass is told of each second is no progress if nothing in it has changed."""
    claim()
    same: dict[str, Any] = {
        "stage": "visits",
        "shards_done": 1,
        "shards": 4,
        "rows_read": 900,
        "rows": 300,
        "total_rows": 1200,
        "spilled_bytes": 0,
        "fraction": 0.5,
        "eta_s": None,
    }
    told = [
        BacklogProgressed(**common(NOW_MS - ago_ms), rows_per_second=1.0 / ago_ms, elapsed_s=ago_ms / 1000, **same)
        for ago_ms in (900_000, 600_000, 1)
    ]
    tell(tmp_path, began(NOW_MS - 3_600_000), phase("backlog", NOW_MS - 3_600_000), *told)
    code, found = ask(tmp_path, "--max-silence", "10 min")
    assert code == 4 and "it has not got on for 15 min" in found["problems"][0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--max-checkpoint-age", "4 min"], "an epoch has waited 5 min for a checkpoint, 4 min are allowed"),
        (["--max-lag", "5 min"], "source live lags by 6 min, 5 min are allowed"),
        (["--max-silence", "2 min"], "it has not got on for 5 min, 2 min are allowed"),
        (["--max-waiting-messages", "41"], "42 messages wait at source live, 41 are allowed"),
        (
            ["--max-checkpoint-age", "1 h", "--max-lag", "1 h", "--max-silence", "1 h", "--max-waiting-messages", "42"],
            "",
        ),
    ],
)
def test_a_job_that_breaks_a_limit_is_stalled(
    tmp_path: Path,
    claim: Callable[[], DriverLease],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    problem: str,
) -> None:
    """Each limit by itself makes the exit code 4, and says by how much it is broken."""
    claim()
    at_ms = NOW_MS - 300_000
    waiting = (SourcePosition(name="live", epoch=7, lag_messages=42),)
    tell(tmp_path, began(at_ms), phase("live", at_ms), checkpoint(2, at_ms), live_epoch(at_ms, positions=waiting))
    monkeypatch.setattr("mixedmode.runtime.metrics.status.time.time", lambda: NOW_MS / 1000)
    code, found = ask(tmp_path, *options)
    assert (code, found["problems"]) == ((4, [problem]) if problem else (0, []))
    assert found["running"] is True and found["healthy"] is not bool(problem)


def test_a_quiet_job_needs_no_new_checkpoint(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """If no epoch came after the last checkpoint its age says nothing; an idle source does not lag."""
    claim()
    at_ms = NOW_MS - 3_600_000
    idle = (SourceProgress(name="live", is_backlog=False, finished=False, is_idle=True),)
    tell(tmp_path, began(at_ms), phase("live", at_ms), live_epoch(at_ms, sources=idle), checkpoint(2, at_ms + 1))
    code, found = ask(tmp_path, "--max-checkpoint-age", "1 min", "--max-lag", "1 min")
    assert (code, found["problems"]) == (0, [])


def test_a_checkpoint_may_be_told_before_an_epoch_that_it_holds(
    tmp_path: Path, claim: Callable[[], DriverLease]
) -> None:
    """Epochs that come often are written later than what comes seldom: what both say of their time counts."""
    claim()
    at_ms = NOW_MS - 3_600_000
    events = [live_epoch(at_ms), live_epoch(at_ms + 300), checkpoint(2, at_ms + 500)]
    written = list(folded(events, 1_000))
    assert [event.at_ms - at_ms for event in written] == [0, 500, 300]
    tell(tmp_path, began(at_ms), phase("live", at_ms), *written)
    assert ask(tmp_path, "--max-checkpoint-age", "1 min") == (0, ANY)
    put(folder_of(tmp_path).run(RUN, 0).part(1), live_epoch(at_ms + 2_000), checkpoint(3, at_ms + 1_500))
    code, found = ask(tmp_path, "--max-checkpoint-age", "1 min")
    assert code == 4 and "for a checkpoint" in found["problems"][0]


def test_a_paused_job_is_healthy(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """It stands still because it was told to, until it is told to go on; then limits hold again."""
    claim()
    at_ms = NOW_MS - 3_600_000
    paused, resumed = (Noted(**common(at_ms), what=what, text="") for what in ("paused", "resumed"))
    options = ("--max-silence", "10 min", "--max-lag", "1 min")
    tell(tmp_path, began(at_ms), phase("live", at_ms), live_epoch(at_ms), paused)
    code, found = ask(tmp_path, *options)
    assert (code, found["paused"], found["healthy"]) == (0, True, True)
    put(folder_of(tmp_path).runs()[0].part(1), resumed)
    code, found = ask(tmp_path, *options)
    assert (code, found["paused"], len(found["problems"])) == (4, False, 2)


@pytest.mark.parametrize(
    ("how", "fields"), [("stopped", {"savepoint": "sp/1"}), ("failed", {"error": "boom"}), ("finished", {})]
)
def test_how_a_run_ended_is_told(
    tmp_path: Path, claim: Callable[[], DriverLease], how: Any, fields: dict[str, str]
) -> None:
    """A job whose run has ended does not run, whatever else is known: exit code 3, and how it ended."""
    claim().release()
    tell(tmp_path, began(NOW_MS), phase("live", NOW_MS), RunEnded(**common(NOW_MS), how=how, **fields))
    code, found = ask(tmp_path, "--max-silence", "1 h")
    assert (code, found["running"], found["healthy"], found["problems"]) == (3, False, False, [])
    assert found["run"]["outcome"] == how
    assert (found["run"]["error"], found["run"]["savepoint"]) == (fields.get("error"), fields.get("savepoint"))
    assert "not running" in CliRunner().invoke(app, ["status", str(tmp_path)]).stdout


def test_a_driver_that_was_killed_is_told(tmp_path: Path) -> None:
    """Its claim is still there, its process is not."""
    code = (
        "from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease; from pyarrow import fs; import os;"
        f"DriverLease(fs.LocalFileSystem(), {f'{tmp_path}/mixedmode'!r}, {RUN[:8]!r}).take(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 9
    tell(tmp_path, began(NOW_MS), phase("live", NOW_MS), live_epoch(NOW_MS))
    exit_code, found = ask(tmp_path)
    assert (exit_code, found["running"], found["run"]["outcome"], found["phase"]) == (3, False, "killed", "live")


def test_a_driver_elsewhere_runs_as_long_as_it_counts(
    tmp_path: Path, claim: Callable[[], DriverLease], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another host's process the age of its counter is all that is known; after the expiry it counts as dead."""
    monkeypatch.setenv(PLACE_VARIABLE, "other_host.1")
    claim()
    monkeypatch.delenv(PLACE_VARIABLE)
    tell(tmp_path, began(NOW_MS), phase("live", NOW_MS))
    code, found = ask(tmp_path)
    assert (code, found["running"], found["run"]["host"]) == (0, True, "other_host")
    _age_counter(tmp_path, 2 * EXPIRY_MS)
    code, found = ask(tmp_path)
    assert (code, found["running"], found["run"]["outcome"]) == (3, False, "killed")


def test_a_paused_process_is_stalled(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """One of this host that lives and does not count is there, but not healthy, whatever limits are given."""
    claim()
    tell(tmp_path, began(NOW_MS), phase("live", NOW_MS))
    _age_counter(tmp_path, 2 * EXPIRY_MS)
    code, found = ask(tmp_path)
    assert (code, found["running"]) == (4, True)
    assert "no sign of life" in found["problems"][0]


def _age_counter(location: Path, age_ms: int) -> None:
    (beat,) = (location / "mixedmode" / "lease").glob("*.beat")
    then_s = time.time() - age_ms / 1000
    os.utime(beat, (then_s, then_s))


def test_a_run_without_a_log_yet_recovers(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Between its claim and its first event a run is taken for one that recovers, not for the one before."""
    other = "22222222-0000-0000-0000-000000000000"
    put(a_run(tmp_path, other).part(1), began(1, other, 0), phase("live", 2, other))
    claim()
    code, found = ask(tmp_path, "--max-silence", "1 s")
    assert (code, found["phase"], found["run"]["id"], found["epoch"]) == (0, "recovery", CLAIMED, None)


def test_a_limit_of_a_run_without_an_event_log_cannot_be_checked(tmp_path: Path) -> None:
    """The phase is unknown, not recovery, and a probe with a limit fails instead of never seeing a stalled job."""
    lease = DriverLease(fs.LocalFileSystem(), f"{tmp_path}/mixedmode", CLAIMED, has_event_log=False)
    lease.take(heartbeat=False)
    try:
        code, found = ask(tmp_path)
        assert (code, found["running"], found["healthy"], found["phase"]) == (0, True, True, None)
        assert found["eventLog"] is False
        code, found = ask(tmp_path, "--max-silence", "10 min")
        assert code == 1 and "execution.event-log.enabled" in found["error"]["message"]
        text = CliRunner().invoke(app, ["status", str(tmp_path)])
        assert text.exit_code == 0 and "writes no event log" in text.stdout
    finally:
        lease.release()


def test_the_run_that_has_the_location_is_told_of(tmp_path: Path, claim: Callable[[], DriverLease]) -> None:
    """Not the one whose driver's clock was ahead."""
    claim()
    tell(tmp_path, began(NOW_MS - 90_000), phase("live", NOW_MS - 80_000), live_epoch(NOW_MS))
    ahead = NOW_MS + 3_600_000
    put(a_run(tmp_path, "earlier", ahead).part(1), began(ahead, "earlier", 0), phase("backlog", ahead, "earlier"))
    code, found = ask(tmp_path)
    assert (code, found["run"]["id"], found["phase"], found["epoch"]["id"]) == (0, RUN, "live", 7)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """A folder without a job, and a limit that is no duration: exit code 2, and what was expected."""
    nothing = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert nothing.exit_code == 2 and "is not a checkpointLocation" in nothing.output
    (tmp_path / "mixedmode").mkdir()
    for text in ("soon", "90", "0 s"):
        wrong = CliRunner().invoke(app, ["status", str(tmp_path), "--max-lag", text])
        assert wrong.exit_code == 2 and "--max-lag" in wrong.output and "90 s" in wrong.output
    code, found = ask(tmp_path)
    assert (code, found["run"]["outcome"], found["run"]["id"]) == (3, None, None)


def test_a_probe_needs_no_spark(tmp_path: Path) -> None:
    """What a health check imports is quickly there: neither PySpark nor pandas is."""
    (tmp_path / "mixedmode").mkdir()
    code = (
        "import sys; from mixedmode.planner.cli.app import app;"
        f"sys.argv = ['mixedmode', 'status', {str(tmp_path)!r}]\n"
        "try: app()\nexcept SystemExit as end: assert end.code == 3, end.code\n"
        "assert not {'pyspark', 'pandas', 'pyarrow.compute', 'jinja2'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_an_error_is_shown_as_it_is(tmp_path: Path) -> None:
    """Brackets and colons in it are no markup."""
    error = "no column a[/b] in [red]x:x: [upgrade:U9]"
    tell(tmp_path, began(0), RunEnded(**common(1), how="failed", error=error))
    done = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert (done.exit_code, done.exception.__class__) == (3, SystemExit)
    assert error in done.stdout
