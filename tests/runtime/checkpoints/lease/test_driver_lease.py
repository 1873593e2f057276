"""Who drives a checkpoint location: by pids where they mean something, by counters elsewhere; time is the tests'."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError, CheckpointMismatchError
from mixedmode.runtime.checkpoints.lease import driver_lease
from mixedmode.runtime.checkpoints.lease.claims import ClaimFolder, Holder, LeaseClaim
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease, LeaseClock
from mixedmode.runtime.storage.checksummed import seal, unseal
from mixedmode.state.store.folder_owner import PLACE_VARIABLE, place, process_start_time
from pyarrow import fs

LOCAL = fs.LocalFileSystem()
EXPIRY_MS = 1000


class Time:
    """A clock that goes on when somebody sleeps; ``during`` is called in each sleep."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.during: Callable[[], object] = lambda: None

    def sleep(self, ms: float) -> None:
        self.now_ms += round(ms)
        self.during()

    @property
    def clock(self) -> LeaseClock:
        return LeaseClock(lambda: self.now_ms, self.sleep)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has this process count as one of another host from now on."""

    def go(host: str) -> None:
        monkeypatch.setenv(PLACE_VARIABLE, host)

    return go


def lease(folder: Path, run: str, time: Time) -> DriverLease:
    return DriverLease(LOCAL, str(folder), run, expiry_ms=EXPIRY_MS, clock=time.clock)


def take(folder: Path, run: str, time: Time, view: Callable[[], driver_lease.View] | None = None) -> DriverLease:
    """A lease that is kept alive by hand."""
    made = lease(folder, run, time)
    made.take(view, heartbeat=False)
    return made


def forget(run: str) -> None:
    """The run is not one of this process any more, as if it were another one's."""
    driver_lease._held_here.discard(run)


def old_file(folder: Path, **changes: object) -> Path:
    """``driver.json`` as the first version wrote it."""
    path = folder / "driver.json"
    path.write_text(json.dumps({"run": "first", "place": place(), "pid": 1, "started": 1, **changes}))
    return path


def test_a_living_driver_keeps_the_location(tmp_path: Path, time: Time) -> None:
    """A second run is refused at once while the first one lives, and admitted once it has released the location."""
    first, second = take(tmp_path, "first", time), lease(tmp_path, "second", time)
    with pytest.raises(CheckpointError, match=r"another driver \(run first, in this process\)"):
        second.take()
    with pytest.raises(CheckpointError, match="another driver"):
        second.check_free()
    second.release()
    first.check(look=True)
    first.release()
    second.check_free()
    assert second.take(heartbeat=False).generation == 2
    second.check(look=True)
    assert time.now_ms == 0, "pids of one host decide at once"


def test_another_process_is_named(tmp_path: Path, time: Time) -> None:
    """The refusal says which process has the location; a dead process has nothing, and is not waited for."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        path = next_claim_of(tmp_path, time, pid=other.pid, started=process_start_time(other.pid) or 0)
        with pytest.raises(CheckpointError, match=f"process {other.pid} on this host"):
            take(tmp_path, "second", time)
        other.kill()
        other.wait()
        assert take(tmp_path, "second", time).claim is not None
    assert time.now_ms == 0 and not path.exists()


def next_claim_of(folder: Path, time: Time, **holder: object) -> Path:
    """A claim of run ``first`` by another process."""
    made = take(folder, "first", time)
    assert made.claim is not None
    path = folder / "lease" / f"{made.claim.name}.claim"
    body = json.loads(unseal(path.read_bytes()))
    path.write_bytes(seal(json.dumps({**body, "holder": {**body["holder"], **holder}}).encode()))
    return path


def test_a_run_that_could_not_say_that_it_ended(tmp_path: Path, time: Time) -> None:
    """A run of this process that has ended, and whose location was read-only then, does not keep it."""
    first = take(tmp_path, "first", time)
    first._folder = ClaimFolder(fs.SubTreeFileSystem("/proc/nowhere", LOCAL), "x")
    first.release()
    assert take(tmp_path, "second", time).claim is not None
    assert time.now_ms == 0


def test_a_claim_that_fails_half_way_keeps_nothing(tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is written, but not ``driver.json`` beside its folder: the next run of this process gets the place."""
    with monkeypatch.context() as patch:
        patch.setattr(ClaimFolder, "tell_old_versions", refuse)
        with pytest.raises(PermissionError):
            take(tmp_path, "first", time)
    assert take(tmp_path, "second", time).claim is not None
    assert time.now_ms == 0


def refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_silent_driver_elsewhere_is_waited_out(tmp_path: Path, time: Time, elsewhere: Callable[[str], None]) -> None:
    """Of a run on another host only its counter is seen: one that stands still for an expiry has lost the location.

    The newcomer begins a branch of its own from what it sees then, and the old run does nothing any more.
    """
    first = take(tmp_path, "first", time)
    elsewhere("there")
    second = take(tmp_path, "second", time, lambda: (0, (3, 4)))
    assert time.now_ms >= EXPIRY_MS
    assert second.claim is not None and second.claim.generation == 2
    assert (second.claim.branch, second.claim.parent, second.claim.seed) == (2, 0, (3, 4))
    with pytest.raises(CheckpointError, match=r"run second.*has taken over"):
        first.check()
    assert first.is_lost
    first.release()
    second.check(look=True)


def test_a_driver_elsewhere_that_counts_keeps_the_location(
    tmp_path: Path, time: Time, elsewhere: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """While a newcomer waits, which it says, with how long, it sees the holder count and is refused."""
    first = take(tmp_path, "first", time)
    elsewhere("there")

    def count() -> None:
        if time.now_ms > EXPIRY_MS * 0.9:
            first._renew()

    time.during = count
    with pytest.raises(CheckpointError, match=r"another driver \(run first, in process \d+ on"):
        take(tmp_path, "second", time)
    assert EXPIRY_MS * 0.9 < time.now_ms <= EXPIRY_MS * 1.3
    assert [record.message for record in caplog.records if "waiting 1 s for" in record.message]
    first.check(look=True)


def test_the_holders_own_expiry_counts(tmp_path: Path, time: Time, elsewhere: Callable[[str], None]) -> None:
    """A newcomer waits as long as the holder was told that it would, whatever its own option says."""
    DriverLease(LOCAL, str(tmp_path), "first", expiry_ms=9000, clock=time.clock).take(heartbeat=False)
    elsewhere("there")
    take(tmp_path, "second", time)
    assert time.now_ms >= 9000


def test_a_pause_without_a_newcomer_is_harmless(tmp_path: Path, time: Time) -> None:
    """A holder that has slept for long renews its claim before it goes on."""
    first = take(tmp_path, "first", time)
    time.now_ms += 100 * EXPIRY_MS
    first.check()
    first.release()


def test_a_claim_that_cannot_be_renewed(tmp_path: Path, time: Time) -> None:
    """Once half the expiry has passed without renewal, the holder may do nothing that others see."""
    first = take(tmp_path, "first", time)
    folder, first._folder = first._folder, ClaimFolder(fs.SubTreeFileSystem("/proc/nowhere", LOCAL), "x")
    time.now_ms += EXPIRY_MS // 2 - 1
    first.check()
    first.check(look=True)
    time.now_ms += 1
    with pytest.raises(CheckpointError, match=r"could not renew its claim .* execution\.lease\.expiry \(1000 ms\)"):
        first.check()
    first._folder = folder
    first.check()


def test_the_holder_wakes_while_it_is_taken_over(tmp_path: Path, time: Time, elsewhere: Callable[[str], None]) -> None:
    """A holder that counts between the newcomer's judgement and its claim keeps the location: never both have it."""
    first = take(tmp_path, "first", time)
    elsewhere("there")

    def view() -> driver_lease.View:
        first._renew()
        return 0, ()

    with pytest.raises(CheckpointError, match="another driver"):
        take(tmp_path, "second", time, view)
    first.check(look=True)


def test_two_newcomers(tmp_path: Path, time: Time, elsewhere: Callable[[str], None]) -> None:
    """Of two newcomers that meet one gives way; generations only grow."""
    take(tmp_path, "first", time)
    elsewhere("there")
    late: list[CheckpointError] = []

    def meet() -> driver_lease.View:
        time.during = lambda: None
        if not late:
            second = lease(tmp_path, "second", time)
            assert second.take(lambda: (0, ()), heartbeat=False).generation == 2
            late.append(CheckpointError())
        return 0, ()

    with pytest.raises(CheckpointError, match=r"another driver \(run second"):
        take(tmp_path, "third", time, meet)
    assert [name[:8] for name in ClaimFolder(LOCAL, str(tmp_path)).names()] == ["00000002"]


def test_a_claim_that_was_never_established_changes_nothing(
    tmp_path: Path, time: Time, elsewhere: Callable[[str], None]
) -> None:
    """A newcomer that dies between its claim and its first count leaves the branch that counts as it is."""
    first = take(tmp_path, "first", time)
    first.release()
    second = take(tmp_path, "second", time)
    assert second.claim is not None
    (tmp_path / "lease" / f"{second.claim.name}.beat").unlink()
    forget("second")
    third = take(tmp_path, "third", time, lambda: (7, ()))
    assert third.claim is not None
    assert (third.claim.generation, third.claim.branch) == (3, 0)


def test_a_visit_without_checkpoints_leaves_the_doubt(
    tmp_path: Path, time: Time, elsewhere: Callable[[str], None]
) -> None:
    """One that takes over and changes no checkpoint needs no branch; whoever comes after it still does."""
    take(tmp_path, "first", time)
    elsewhere("there")
    visitor = take(tmp_path, "visitor", time)
    assert visitor.claim is not None and visitor.claim.branch == 0
    visitor.release()
    third = take(tmp_path, "third", time, lambda: (0, (1,)))
    assert third.claim is not None and (third.claim.branch, third.claim.seed) == (3, (1,))
    third.release()
    fourth = take(tmp_path, "fourth", time, lambda: (9, (9,)))
    assert fourth.claim is not None and (fourth.claim.branch, fourth.claim.seed) == (3, (1,))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"run": "first"'])
def test_a_damaged_file_of_the_first_version_holds_nobody_off(tmp_path: Path, time: Time, body: bytes) -> None:
    """A ``driver.json`` that was cut off in a crash is no claim."""
    (tmp_path / "driver.json").write_bytes(body)
    take(tmp_path, "second", time).check(look=True)


def test_the_first_versions_file(tmp_path: Path, time: Time) -> None:
    """What the first version wrote is read: a living process keeps the location, a dead one does not, one elsewhere is
    waited for; what this version writes for it is what it reads."""
    old_file(tmp_path, pid=subprocess.os.getppid(), started=process_start_time(subprocess.os.getppid()))  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match=r"another driver \(run first, in process"):
        take(tmp_path, "second", time)
    old_file(tmp_path)
    second = take(tmp_path, "second", time)
    assert time.now_ms == 0
    told = json.loads((tmp_path / "driver.json").read_text())
    assert (told["run"], told["place"], told["started"]) == ("second", place(), process_start_time(told["pid"]))
    second.release()
    assert not (tmp_path / "driver.json").exists()
    old_file(tmp_path, place="elsewhere.1")
    third = take(tmp_path, "third", time, lambda: (0, (5,)))
    assert time.now_ms >= EXPIRY_MS
    assert third.claim is not None and third.claim.seed == (5,)


def test_a_claim_as_version_2_wrote_it(tmp_path: Path, time: Time) -> None:
    """The files are a contract: these stay readable, name, content and counter."""
    folder = tmp_path / "lease"
    folder.mkdir()
    holder = '{"run": "1f2e3d4c", "place": "there.4026531836", "pid": 7, "started": 99, "boot": "b7"}'
    body = f'{{"version": 2, "holder": {holder}, "expiry_ms": 30000, "parent": 2, "seed": [4, 5], "is_alone": true}}'
    name = "00000003-00000003-1f2e3d4c"
    (folder / f"{name}.claim").write_bytes(seal(body.encode()))
    (folder / f"{name}.beat").write_text('{"version": 2, "count": 12, "released": true}')
    (seen,) = ClaimFolder(LOCAL, str(tmp_path)).look()
    assert seen.is_released
    expected = Holder("1f2e3d4c", "there.4026531836", 7, 99, "b7")
    assert seen.claim == LeaseClaim(3, 3, expected, 30_000, 2, (4, 5), True, name)
    assert take(tmp_path, "next", time).claim == LeaseClaim(
        4, 3, Holder.here("next"), EXPIRY_MS, 2, (4, 5), True, "00000004-00000003-next"
    )


def test_a_claim_of_a_newer_version_is_refused(tmp_path: Path, time: Time) -> None:
    """It is refused with both versions."""
    first = take(tmp_path, "first", time)
    assert first.claim is not None
    path = tmp_path / "lease" / f"{first.claim.name}.claim"
    body = json.loads(unseal(path.read_bytes()))
    path.write_bytes(seal(json.dumps({**body, "version": 99}).encode()))
    with pytest.raises(CheckpointMismatchError, match="format version 99"):
        take(tmp_path, "second", time)


def test_the_heartbeat(tmp_path: Path) -> None:
    """A thread counts, as a daemon, until the location is given free; it tells when it has lost it."""
    first = DriverLease(LOCAL, str(tmp_path), "first", expiry_ms=60_000, heartbeat_ms=1)
    told = threading.Event()
    first.on_lost = told.set
    claim = first.take()
    thread = first._thread
    assert thread is not None and thread.daemon
    folder = ClaimFolder(LOCAL, str(tmp_path))
    beats = {one.beat for one in folder.look()}
    while len(beats) < 3:
        beats |= {one.beat for one in folder.look()}
    forget("first")
    second = DriverLease(LOCAL, str(tmp_path), "second")
    second.take(heartbeat=False)
    assert told.wait(60)
    thread.join(60)
    first.release()
    assert not thread.is_alive()
    assert claim.name not in folder.names()
    second.check(look=True)
    second.release()


def test_a_run_that_was_given_up_may_do_nothing_more(tmp_path: Path, time: Time) -> None:
    """Also when it has the location no more, and whoever comes next has it: a function of it may return at last."""
    first = take(tmp_path, "one", time)
    first.check()
    first.give_up()
    with pytest.raises(driver_lease.LocationLost, match="given this run up"):
        first.check()
    first.release()
    second = take(tmp_path, "two", time)
    with pytest.raises(driver_lease.LocationLost, match="given this run up"):
        first.check(look=True)
    second.check(look=True)
    second.release()


def test_to_count_on_a_local_disk_is_cheap(tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint counts: no file is made, and nothing waits for the disk, which nobody asks after a crash."""
    first = take(tmp_path, "first", time)
    (beat,) = (tmp_path / "lease").glob("*.beat")
    before, inode = beat.read_bytes(), beat.stat().st_ino
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: pytest.fail("it was made durable"))
        first.check(look=True)
    assert beat.read_bytes() != before and beat.stat().st_ino == inode
    first.release()
    assert json.loads(beat.read_bytes())["released"]
