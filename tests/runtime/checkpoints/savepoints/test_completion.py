"""Savepoints that a killed job was to stop with are made afterwards, however often that is cut short."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mixedmode.errors import CheckpointError, CorruptStateError
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata, DueSavepoint
from mixedmode.runtime.checkpoints.savepoints.completion import complete_offline, complete_pending
from mixedmode.runtime.checkpoints.savepoints.store import open_savepoint
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.support.failpoints import VARIABLE
from mixedmode.state.store.files import StateFile

UID = "stage"
COMPLETE = (
    "import sys; from mixedmode.runtime.checkpoints.savepoints.completion import complete_offline as c; c(sys.argv[1])"
)

MakeMetadata = Callable[..., CheckpointMetadata]
MakeFile = Callable[..., StateFile]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the savepoint was to be."""
    return tmp_path / "sp"


@pytest.fixture
def taken(store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, target: Path) -> int:
    """A visible checkpoint, the end of a drain whose savepoint nobody has begun with."""
    files = [make_state_file(store, f"e0000000{number}-s0") for number in (1, 2)]
    wanted = DueSavepoint(savepoint_id="the-one", path=str(target), plan='{"name": "job"}')
    store.write(make_metadata(2, *files).model_copy(update={"drained": True, "savepoint": wanted, "spark": None}))
    store.mark_committed(2)
    return 2


def _identity(path: Path) -> tuple[int, int]:
    """Tells a file from one that was written in its place; reading it changes nothing of this."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


@pytest.mark.slow
@pytest.mark.kill
def test_killed_at_each_step(store: CheckpointStore, taken: int, target: Path) -> None:
    """Killed before and between the copies, before and after the metadata: the next one ends in the one savepoint."""
    for point in ("completion-start=kill", "savepoint-copy=kill:2", "savepoint-before-metadata=kill"):
        command = [sys.executable, "-c", COMPLETE, store.location]
        killed = subprocess.run(command, env={**os.environ, VARIABLE: point}, check=False)
        assert killed.returncode == -signal.SIGKILL, point
        assert store.savepoint_made(taken) is None
        with pytest.raises(CheckpointError):
            open_savepoint(str(target))
    killed = subprocess.run(command, env={**os.environ, VARIABLE: "savepoint-after-metadata=kill"}, check=False)
    assert killed.returncode == -signal.SIGKILL and store.savepoint_made(taken) is None
    before = _identity(target / "_metadata")

    assert complete_pending(store, store.read(taken)) == str(target)
    assert _identity(target / "_metadata") == before, "it is not made twice"
    opened = open_savepoint(str(target))
    opened.check_files(opened.latest(), checksums=True)
    assert opened.savepoint.savepoint_id == "the-one"
    assert opened.latest().drained and opened.latest().savepoint is None
    assert sorted(path.name for path in target.iterdir()) == ["_metadata", "plan.json", "state"]
    assert complete_pending(store, store.read(taken)) is None


@pytest.mark.parametrize("left", ["_unfinished", "_unfinished.1a2b.tmp"])
def test_leftovers_of_its_own_are_no_obstacle(store: CheckpointStore, taken: int, target: Path, left: str) -> None:
    """A claim of this very savepoint, with debris around it, or a claim that was cut short is written over."""
    target.mkdir()
    (target / left).write_text('{"savepoint_id": "the-one", "job": "x"}')
    if left == "_unfinished":
        (target / "state").mkdir()
        (target / "state" / "debris").touch()
    assert complete_pending(store, store.read(taken)) == str(target)
    assert not (target / "state" / "debris").exists()
    assert not list(target.glob("_unfinished*"))


@pytest.mark.parametrize("held", ["_metadata", "_unfinished", "notes.txt"])
def test_what_is_not_its_own_is_left_alone(store: CheckpointStore, taken: int, target: Path, held: str) -> None:
    """Another savepoint, one that is being made, or a user's files at the path: the error names it, nothing is lost,
    and the savepoint can be made elsewhere."""
    target.mkdir()
    (target / held).write_text('{"savepoint_id": "another", "job": "x"}')
    with pytest.raises(
        CheckpointError, match=rf"cannot be written to '{target}'.* `mixedmode savepoint .* PATH --comp"
    ):
        complete_pending(store, store.read(taken))
    assert [path.name for path in target.iterdir()] == [held]
    elsewhere = str(target.with_name("elsewhere"))
    assert complete_offline(store.location, elsewhere).path == elsewhere
    assert complete_pending(store, store.read(taken)) is None
    assert complete_offline(store.location).path == elsewhere, "asking again is fine"
    with pytest.raises(CheckpointError, match=f"is complete: {elsewhere}"):
        complete_offline(store.location, str(target.with_name("third")))


def test_place_that_cannot_be_written_to(store: CheckpointStore, taken: int, target: Path) -> None:
    """A path below a file is an error that names it, with and without the job, until it can be written to."""
    target.touch()
    store.write(
        store.read(taken).model_copy(
            update={
                "checkpoint_id": 3,
                "savepoint": DueSavepoint(savepoint_id="below", path=f"{target}/below", plan="{}"),
            }
        )
    )
    store.mark_committed(3)
    for complete in (lambda: complete_pending(store, store.read(3)), lambda: complete_offline(store.location)):
        with pytest.raises(CheckpointError, match=rf"cannot be written to '{target}/below'.*Not a directory"):
            complete()
    target.unlink()
    assert complete_offline(store.location).path == f"{target}/below"


def test_damaged_state_is_said(store: CheckpointStore, taken: int, target: Path) -> None:
    """A flipped bit in a state file is not copied into the savepoint, and not taken for a bad path."""
    path = next(iter(sorted(Path(store.pool(UID)).iterdir())))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptStateError, match=f"{path.name} has been altered"):
        complete_pending(store, store.read(taken))
    assert not target.exists()


def test_only_what_was_asked_for(
    store: CheckpointStore, make_metadata: MakeMetadata, make_state_file: MakeFile, taken: int, target: Path
) -> None:
    """Without a job's stop, while a job runs, or before its output is visible, there is nothing to be finished."""
    lease = DriverLease(store.filesystem, store.root, "run")
    lease.take()
    with pytest.raises(CheckpointError, match="another driver"):
        complete_offline(store.location)
    lease.release()
    store.write(store.read(taken).model_copy(update={"checkpoint_id": 3}))
    with pytest.raises(CheckpointError, match=r"checkpoint 3 .* is not visible yet.* start it again"):
        complete_offline(store.location)
    store.write(make_metadata(4, make_state_file(store, "e00000003-s0")))
    with pytest.raises(CheckpointError, match="was not stopped with a savepoint"):
        complete_offline(store.location)
    assert not target.exists()
