"""Requests to a running driver, and the wait for its answer, with a folder and without a job."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError, QueryError
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata, DueSavepoint
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.driver.requests.remote_client import RequestClock, ask
from mixedmode.runtime.driver.requests.remote_requests import Answer, Request, RequestFolder, Requests
from mixedmode.runtime.storage.checksummed import seal, unseal
from mixedmode.state.store.files import StateFile
from pyarrow import fs

RUN = "run-1"
#: What is begun at once.
_QUICK = ("pause", "resume", "rescale", "stop")
NOW_MS = 1_700_000_000_000


@pytest.fixture
def location(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints" / "mixedmode").mkdir(parents=True)
    return tmp_path / "checkpoints"


@pytest.fixture
def folder(location: Path) -> RequestFolder:
    return RequestFolder(fs.LocalFileSystem(), f"{location}/mixedmode")


@dataclass
class Driver:
    """A driver whose work is a list."""

    folder: RequestFolder
    run: str = RUN
    fails: str | None = None
    seen: list[Request] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    #: What it does takes until this is set; None: no time.
    waits: threading.Event | None = None

    def __post_init__(self) -> None:
        self.requests = Requests(self.folder, self.run, self.execute)

    def execute(self, request: Request) -> str | None:
        self.seen.append(request)
        self.threads.append(threading.current_thread())
        if self.waits is not None:
            assert self.waits.wait(60)
        if self.fails is not None:
            raise CheckpointError(self.fails)
        return request.path

    def poll(self, now_ms: int) -> None:
        """Look, and finish what was begun."""
        # The watcher is such a thread: what it starts would be one too, were it not told otherwise.
        watcher = threading.Thread(target=self.requests.poll, args=(now_ms,), daemon=True)
        watcher.start()
        watcher.join()
        if self.requests._busy is not None:
            self.requests._busy.join()


def request(**changes: object) -> Request:
    body = {"action": "savepoint", "path": "/sp", "drain": False, "run": RUN, "expires_ms": NOW_MS + 1000}
    return Request(**{**body, **changes})  # type: ignore[arg-type]


def files(folder: RequestFolder) -> list[str]:
    return sorted(path.suffix for path in Path(folder.path).iterdir())


def test_request_is_executed_and_answered(folder: RequestFolder) -> None:
    """What is asked reaches the driver as it was asked; its answer replaces the request."""
    driver, asked = Driver(folder), request(drain=True, action="stop")
    folder.put(asked)
    driver.poll(NOW_MS)
    assert driver.seen == [asked]
    assert folder.answer_to(asked.id) == Answer("done", path="/sp")
    assert files(folder) == [".answer"]
    assert not driver.threads[0].daemon, "the process must not end before the answer is written"


def test_failure_is_an_answer(folder: RequestFolder) -> None:
    """What the driver could not do is told in its words."""
    driver, asked = Driver(folder, fails="no room"), request()
    folder.put(asked)
    driver.poll(NOW_MS)
    code = "MIXEDMODE_CHECKPOINT_FAILED"
    assert folder.answer_to(asked.id) == Answer("failed", error="CheckpointError: no room", code=code)


def test_a_later_version_may_answer_more(folder: RequestFolder) -> None:
    """What this one does not know of an answer is left out."""
    folder.answer("1", Answer("done", path="/sp"))
    path = Path(folder.path, "1.answer")
    path.write_bytes(seal(json.dumps({**json.loads(unseal(path.read_bytes())), "mood": "good"}).encode()))
    assert folder.answer_to("1") == Answer("done", path="/sp")


def test_what_a_later_version_asks_is_refused(folder: RequestFolder) -> None:
    """Nothing is done instead, least of all a stop."""
    driver, asked = Driver(folder), request(action="sleep")
    folder.put(asked)
    driver.poll(NOW_MS)
    answer = folder.answer_to(asked.id)
    assert answer is not None and answer.error is not None and answer.error.endswith("knows no 'sleep'")
    assert driver.seen == []


@pytest.mark.parametrize("stale", [{"run": "an earlier run"}, {"expires_ms": NOW_MS - 1}])
def test_stale_request_is_dropped(folder: RequestFolder, stale: dict[str, object]) -> None:
    """What was asked of an earlier run, or by somebody who has given up, is removed and never executed."""
    driver = Driver(folder)
    folder.put(request(**stale))
    driver.poll(NOW_MS)
    assert driver.seen == []
    assert files(folder) == []


def test_damaged_request_is_dropped(folder: RequestFolder) -> None:
    """A request that does not match its checksum is removed, and the next one is executed."""
    driver, damaged = Driver(folder), request(path="/secret")
    folder.put(damaged)
    path = Path(folder.path, f"{damaged.id}.request")
    path.write_bytes(path.read_bytes().replace(b"/secret", b"/sacred"))
    folder.put(request())
    driver.poll(NOW_MS)
    assert [one.path for one in driver.seen] == ["/sp"]


def test_one_after_the_other(folder: RequestFolder) -> None:
    """The next savepoint waits for the one in hand, and is begun by a later look."""
    waits = threading.Event()
    driver = Driver(folder, waits=waits)
    folder.put(request(path="/first"))
    folder.put(request(path="/second", expires_ms=NOW_MS + 5000))
    driver.requests.poll(NOW_MS)
    waits.set()
    driver.poll(NOW_MS + 999)
    assert [one.path for one in driver.seen] == ["/first"], "the folder is looked at once a second"
    driver.poll(NOW_MS + 1000)
    assert [one.path for one in driver.seen] == ["/first", "/second"]


def test_what_older_drivers_do_not_know_is_left_out(folder: RequestFolder) -> None:
    """A request that is no rescale has the fields that it has always had; one that is has its own."""
    for asked, more in ((request(), set()), (request(action="rescale", parallelism=4), {"parallelism"})):
        folder.put(asked)
        body = json.loads(unseal(Path(folder.path, f"{asked.id}.request").read_bytes()))
        assert body.keys() == {"action", "path", "drain", "run", "expires_ms", "id"} | more
        assert asked in folder.requests()


def test_only_savepoints_wait_for_savepoints(folder: RequestFolder) -> None:
    """A pause, its end, other shards and a plain stop are begun while a savepoint waits, for the end of a backlog
    perhaps.  A program that has come to its end stays for none but the stop."""
    waits, seen, staying = threading.Event(), [], set()

    def execute(asked: Request) -> str | None:
        seen.append(asked.action)
        if not threading.current_thread().daemon:
            staying.add(asked.action)
        if asked.action == "savepoint":
            waits.wait(60)
        return asked.path

    requests = Requests(folder, RUN, execute)
    first, second = request(), request(path="/other", expires_ms=NOW_MS + 5000)
    quick = [request(action=action, path=None, expires_ms=NOW_MS + 9000) for action in _QUICK]
    for one in (first, second, *quick):
        folder.put(one)
    requests.poll(NOW_MS)
    while any((answer := folder.answer_to(one.id)) is None or answer.status != "done" for one in quick):
        assert requests._busy is not None and requests._busy.is_alive()
    assert sorted(seen) == sorted(["savepoint", *_QUICK])
    assert staying == {"savepoint", "stop"}
    assert folder.answer_to(second.id) is None
    waits.set()
    requests._busy.join()
    assert folder.answer_to(first.id) == Answer("done", path="/sp")
    assert all(folder.answer_to(one.id) == Answer("done") for one in quick)


def test_nothing_asked_costs_no_file(folder: RequestFolder) -> None:
    """A driver that nobody asks makes no folder."""
    Driver(folder).poll(NOW_MS)
    assert not Path(folder.path).exists()


class Waiting:
    """A clock on which somebody else acts between two looks of the one who waits."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.now_s = NOW_MS / 1000
        self.acts = list(acts)

    def sleep(self, duration_s: float) -> None:
        self.now_s += 1.0
        if self.acts:
            self.acts.pop(0)()

    @property
    def clock(self) -> RequestClock:
        return RequestClock(lambda: self.now_s, self.sleep)


@pytest.fixture
def lease(folder: RequestFolder) -> DriverLease:
    made = DriverLease(folder.filesystem, folder.root, RUN)
    made.take()
    return made


def test_ask_waits_for_the_answer(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """Who asks gets the savepoint's path, hears when the driver begins, and leaves nothing in the folder."""
    driver, heard = Driver(folder), []
    waiting = Waiting(lambda: None, lambda: driver.poll(NOW_MS))
    target = location.parent / "sp"
    made = ask(str(location), "savepoint", str(target), on_status=heard.append, clock=waiting.clock)
    assert made == str(target)
    assert heard[0] == "waiting"
    assert files(folder) == []


def test_what_is_no_savepoint_has_no_path(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """A pause is asked for without a path, and one that comes in time is told in its own words."""
    driver = Driver(folder)
    assert ask(str(location), "pause", clock=Waiting(lambda: driver.poll(NOW_MS)).clock) is None
    assert [(one.action, one.path) for one in driver.seen] == [("pause", None)]
    begins = Waiting(lambda: folder.answer(folder.requests()[0].id, Answer("running")))
    with pytest.raises(CheckpointError, match=r"has not finished in time; it goes on with it\n"):
        ask(str(location), "stop", timeout_s=10, clock=begins.clock)


def test_relative_paths_are_the_askers(
    location: Path, folder: RequestFolder, lease: DriverLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is taken from where the question is asked, not from where the driver runs."""
    driver = Driver(folder)
    monkeypatch.chdir(location.parent)
    assert ask("checkpoints", "stop", "sp", clock=Waiting(lambda: driver.poll(NOW_MS)).clock) == str(
        location.parent / "sp"
    )


def test_the_drivers_failure_is_raised(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """The error of the driver reaches the one who asked, with its code."""
    driver = Driver(folder, fails="no room")
    with pytest.raises(QueryError, match="no room") as caught:
        ask(str(location), "savepoint", str(location.parent / "sp"), clock=Waiting(lambda: driver.poll(NOW_MS)).clock)
    assert caught.value.code == CheckpointError.code
    assert files(folder) == []


def test_a_savepoint_among_the_jobs_own_files_is_not_asked_for(
    location: Path, folder: RequestFolder, lease: DriverLease
) -> None:
    """The driver hears nothing of it."""
    with pytest.raises(CheckpointError, match="is among the files of checkpointLocation"):
        ask(str(location), "savepoint", str(location / "mixedmode" / "sp"), clock=Waiting().clock)
    assert not Path(folder.path).exists()


def test_no_driver(location: Path) -> None:
    """Without a driver nothing is asked."""
    with pytest.raises(CheckpointError, match="no job is running on"):
        ask(str(location), "savepoint", str(location.parent / "sp"))
    assert not (location / "mixedmode" / "requests").exists()


def test_dead_driver(location: Path, lease: DriverLease) -> None:
    """A driver whose process is gone is not waited for."""
    (path,) = (location / "mixedmode" / "lease").glob("*.claim")
    path.write_bytes(seal(unseal(path.read_bytes()).replace(b'"started": ', b'"started": 1')))
    with pytest.raises(CheckpointError, match=r"its driver \(process \d+\) died"):
        ask(str(location), "savepoint", str(location.parent / "sp"))


def test_driver_that_ends_meanwhile(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """A run that ends without an answer is noticed, and the request does not outlive it."""
    with pytest.raises(CheckpointError, match="ended without an answer"):
        ask(str(location), "savepoint", str(location.parent / "sp"), clock=Waiting(lease.release).clock)
    assert files(folder) == []


@pytest.mark.parametrize("made", [False, True])
def test_driver_that_dies_behind_the_checkpoint_of_a_stop(
    location: Path,
    lease: DriverLease,
    make_metadata: Callable[..., CheckpointMetadata],
    make_state_file: Callable[..., StateFile],
    made: bool,
) -> None:
    """Who asked for a stop is told that it has happened, and where its savepoint is or how to have it finished."""
    store, path = CheckpointStore(fs.LocalFileSystem(), str(location)), str(location.parent / "sp")
    wanted = DueSavepoint(savepoint_id="it", path=path, plan="{}")

    def dies() -> None:
        store.write(make_metadata(1, make_state_file(store, "e00000001-s0"), savepoint=wanted))
        if made:
            store.mark_savepoint_made(1, path)
        lease.release()

    said = f"its savepoint is complete: {path}" if made else f"savepoint {location} --complete"
    with pytest.raises(CheckpointError, match=f"ended without an answer.*{said}"):
        ask(str(location), "stop", path, clock=Waiting(dies).clock)


def test_nobody_takes_it_up(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """A request that is not begun in time is withdrawn: nobody executes it later."""
    with pytest.raises(CheckpointError, match="withdrawn"):
        ask(str(location), "savepoint", str(location.parent / "sp"), timeout_s=10, clock=Waiting().clock)
    assert files(folder) == []


def test_destination_is_looked_at_first(location: Path, folder: RequestFolder, lease: DriverLease) -> None:
    """A destination that is not empty is refused before the driver is asked."""
    with pytest.raises(CheckpointError, match="not empty"):
        ask(str(location), "savepoint", str(location))
    assert not Path(folder.path).exists()


def test_a_run_that_takes_no_requests_says_so(location: Path, folder: RequestFolder) -> None:
    """With execution.remote-control = off nobody waits for an answer; the next run of the location may take some."""
    lease = DriverLease(folder.filesystem, folder.root, RUN)
    lease.take()
    try:
        folder.turn_off("run-0")
        with pytest.raises(CheckpointError, match="has not taken up the request in time"):
            ask(str(location), "pause", timeout_s=0)
        folder.turn_off(RUN)
        with pytest.raises(QueryError, match=r"takes no requests: .*remote-control = off\nCall .* pause\(\)") as caught:
            ask(str(location), "pause", timeout_s=0)
        assert caught.value.code == "MIXEDMODE_REMOTE_CONTROL_OFF"
        assert folder.requests() == []
    finally:
        lease.release()
