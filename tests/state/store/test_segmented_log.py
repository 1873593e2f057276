"""A change log in segments: each has what has changed since the one before, and is told of when it is durable."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.state.store import log as log_module
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.segmented_log import SegmentedLog
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from state_support import WHOLE, Workspace, contents, stored


def segmented(space: Workspace, name: str = "e00000001-s0000-a") -> SegmentedLog:
    """A log of the workspace's pool."""
    return SegmentedLog(partial(LogWriter, space.filesystem, space.pool, space.local, epoch=1), name)


def test_later_segments_win(workspace: Workspace) -> None:
    """Keys ascend within a segment only; an empty one is no file."""
    log = segmented(workspace)
    log.put_many([stored(0, 1), stored(0, 2)], [b"old", b"old"])
    log.cut()
    log.cut()
    log.delete(stored(0, 1))
    log.put(stored(0, 3), b"new")
    files = log.finish()
    assert [(file.entries, file.tombstones) for file in files] == [(2, 0), (1, 1)]
    assert len({file.name for file in files}) == 2
    found = contents(workspace.local_copy(StateManifest(WHOLE, tuple(files))))
    assert found == {stored(0, 2): b"old", stored(0, 3): b"new"}


def test_a_large_segment_is_written_beside_what_follows(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one takes entries meanwhile; whoever asks for files waits for it."""
    may_write, finish = threading.Event(), log_module.LogWriter.finish

    def held_up(writer: log_module.LogWriter) -> object:
        assert may_write.wait(60)
        return finish(writer)

    monkeypatch.setattr(log_module.LogWriter, "finish", held_up)
    log = segmented(workspace)
    log.put(stored(0, 1), bytes(300_000))
    log.cut()
    log.put(stored(0, 0), b"small")
    log.cut()
    may_write.set()
    assert [file.entries for file in log.durable()] == [1, 1]
    assert [file.last_key for file in log.finish()] == [stored(0, 1), stored(0, 0)]


def test_a_file_is_told_of_when_it_is_durable(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the disk raises what has gone wrong there."""

    def failing(path: str) -> object:
        def ended() -> None:
            raise OSError(28, "No space left on device", path)

        return ended

    monkeypatch.setattr(log_module, "begin_new_file_sync", failing)
    log = segmented(workspace)
    log.put(stored(0, 1), b"value")
    log.cut()
    for asks in (log.durable, log.finish):
        with pytest.raises(CheckpointError, match="No space left"):
            asks()


def test_a_copy_follows_an_epoch_that_is_not_committed_yet(workspace: Workspace) -> None:
    """When it is committed, there is nothing left to do."""
    base = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(0), [(stored(0, 1), b"base")])))
    copy, log = workspace.local_copy(base), segmented(workspace)
    log.put(stored(0, 2), b"new")
    log.cut()
    assert workspace.cache.follow("job", 0, base.append(log.durable()), workspace.pool)
    assert contents(copy) == {stored(0, 1): b"base", stored(0, 2): b"new"}
    hits, files = workspace.cache.hits, workspace.cache.files_brought
    assert workspace.local_copy(base.append(log.finish())) is copy
    assert (workspace.cache.hits, workspace.cache.files_brought) == (hits + 1, files)


@pytest.mark.parametrize("others", [False, True])
def test_what_was_followed_and_not_committed_is_gone(workspace: Workspace, others: bool) -> None:
    """Another attempt of the epoch begins with the committed state, and nothing newer."""
    base = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(0), [(stored(0, 1), b"base")])))
    workspace.local_copy(base)
    torn = segmented(workspace)
    torn.put_many([stored(0, 1), stored(0, 2)], [b"torn", b"torn"])
    torn.cut()
    assert workspace.cache.follow("job", 0, base.append(torn.durable()), workspace.pool)
    wanted, expected = base, {stored(0, 1): b"base"}
    if others:
        log = segmented(workspace, "e00000001-s0000-b")
        log.put(stored(0, 3), b"whole")
        wanted, expected = base.append(log.finish()), expected | {stored(0, 3): b"whole"}
    assert not workspace.cache.follow("job", 0, wanted, workspace.pool), "it would have to be built anew"
    assert contents(workspace.local_copy(wanted)) == expected


def test_a_process_without_a_copy_follows_nothing(workspace: Workspace) -> None:
    """It builds one when a shard comes to it."""
    base = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(0), [(stored(0, 1), b"base")])))
    assert not workspace.cache.follow("job", 0, base, workspace.pool)
    assert workspace.cache.rebuilds == 0


def test_a_copy_that_cannot_be_brought_on_is_not_kept(workspace: Workspace) -> None:
    """A segment that is missing is an error, and the copy is closed; the next one is made from committed files."""
    base = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(0), [(stored(0, 1), b"base")])))
    workspace.local_copy(base)
    other = SegmentedLog(
        partial(LogWriter, fs.LocalFileSystem(), f"{workspace.root}/elsewhere", workspace.local, epoch=1), "e1"
    )
    other.put(stored(0, 2), b"new")
    with pytest.raises(CheckpointError, match="missing"):
        workspace.cache.follow("job", 0, base.append(other.finish()), workspace.pool)
    assert workspace.cache.known("job", 0, workspace.pool) is None
    assert contents(workspace.local_copy(base)) == {stored(0, 1): b"base"}
