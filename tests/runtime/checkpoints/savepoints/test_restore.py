"""Whether a location was begun from the savepoint that a job names: told before the job starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from failing import fail_at
from mixedmode.errors import CheckpointError
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.savepoints.restore import check_origin, restore_if_asked
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.support import failpoints
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.files import StateFile
from pyarrow import fs
from savepoint_support import write_savepoint

UID = "stage"
OPERATOR = SimpleNamespace(uid=UID, describe=lambda: {"uid": UID}, registry=(), aggregates_by_key=False)
IDENTITY = JobIdentity("job", ({"uid": UID},), 128)


def job(path: str | None) -> Any:
    """What a restore asks of a job."""
    return SimpleNamespace(
        keeps_state=True,
        settings=SimpleNamespace(savepoint_path=path, max_parallelism=128, savepoint_ignore_unclaimed=True),
        stages=(SimpleNamespace(uid=UID, operator=OPERATOR),),
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the savepoint sp/1, beside another one with another savepoint of that name."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def saved(
    here: Path, make_metadata: Callable[..., CheckpointMetadata], make_state_file: Callable[..., StateFile]
) -> None:
    origin = CheckpointStore(fs.LocalFileSystem(), str(here.parent / "origin"))
    origin.claim(IDENTITY)
    taken = make_metadata(1, make_state_file(origin, "e00000001-s0"), spark=None)
    (operator,) = taken.operators
    operator = operator.model_copy(update={"registry": StateRegistry().to_json()})
    taken = taken.model_copy(update={"operators": (operator,)})
    origin.write(taken)
    origin.mark_committed(1)
    for folder in (here, here.parent / "there"):
        write_savepoint(origin, taken, str(folder / "sp" / "1"), "{}")


@pytest.fixture
def begun(here: Path, saved: None) -> CheckpointStore:
    """A location that was begun from sp/1, given as a relative path."""
    store = CheckpointStore(fs.LocalFileSystem(), str(here.parent / "ck"))
    store.claim(IDENTITY)
    restore_if_asked(job("sp/1"), store, IDENTITY)
    assert store.known_ids() == [1]
    return store


@pytest.mark.parametrize(
    "spelling", ["sp/1", "sp/1/", "./sp/../sp/1", "{here}/sp/1", "{here}/sp/1/", "file://{here}/sp/1"]
)
@pytest.mark.parametrize("is_there", [True, False])
def test_the_same_savepoint_again(begun: CheckpointStore, here: Path, spelling: str, is_there: bool) -> None:
    """However its path is written, and whether or not it is still there."""
    if not is_there:
        shutil.rmtree("sp")
    check_origin(job(spelling.format(here=here)), begun, begun.known_ids())


def test_the_savepoint_has_moved(begun: CheckpointStore, here: Path) -> None:
    """Its id says that it is the same."""
    (here / "sp" / "1").rename(here / "elsewhere")
    check_origin(job("elsewhere"), begun, begun.known_ids())


@pytest.mark.parametrize("is_there", [True, False])
def test_the_same_words_elsewhere(
    begun: CheckpointStore, here: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """In another working folder sp/1 is another savepoint, which would not be restored."""
    monkeypatch.chdir(here.parent / "there")
    if not is_there:
        shutil.rmtree("sp")
    with pytest.raises(CheckpointError, match=rf"is 'sp/1', but .* was begun from savepoint '{here}/sp/1'"):
        check_origin(job("sp/1"), begun, begun.known_ids())


def test_another_savepoint_in_its_place(begun: CheckpointStore, here: Path) -> None:
    """The place alone does not make it the same."""
    shutil.rmtree(here / "sp" / "1")
    shutil.copytree(here.parent / "there" / "sp" / "1", here / "sp" / "1")
    with pytest.raises(CheckpointError, match=r"begun from savepoint .* use a new checkpointLocation"):
        check_origin(job("sp/1"), begun, begun.known_ids())


def test_a_filesystem_that_is_gone(begun: CheckpointStore) -> None:
    """A savepoint that cannot be reached is told by its place alone."""
    with pytest.raises(CheckpointError, match=r"is 'nowhere://sp/1', but .* was begun from savepoint"):
        check_origin(job("nowhere://sp/1"), begun, begun.known_ids())


def test_without_the_option(begun: CheckpointStore) -> None:
    """A location with checkpoints goes on from those."""
    check_origin(job(None), begun, begun.known_ids())


def test_a_location_of_its_own(saved: None, begun: CheckpointStore) -> None:
    """Checkpoints that come from no savepoint are not given up for one."""
    Path(begun.root, "savepoint.json").unlink()
    with pytest.raises(CheckpointError, match="was begun from no savepoint"):
        check_origin(job("sp/1"), begun, begun.known_ids())


def test_a_restore_that_was_cut_short(here: Path, saved: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has to be done again: the job does not begin without it."""
    store = CheckpointStore(fs.LocalFileSystem(), str(here.parent / "ck"))
    store.claim(IDENTITY)
    with monkeypatch.context() as patched:
        fail_at(patched, "restore-before-metadata=raise")
        with pytest.raises(failpoints.InjectedFailure):
            restore_if_asked(job("sp/1"), store, IDENTITY)
    check_origin(job("sp/1"), store, store.known_ids())
    with pytest.raises(CheckpointError, match=r"was cut short: set execution\.savepoint\.path again"):
        check_origin(job(None), store, store.known_ids())
