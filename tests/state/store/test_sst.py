"""State files and their writers."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from mixedmode.errors import CheckpointError, CorruptStateError
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store import disk_syncs
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.log import read_log
from mixedmode.state.store.pool import StatePool
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from state_support import WHOLE, Workspace, contents, stored

KINDS = ["sst", "log"]
ENTRIES = [(stored(0, b"a"), b"1"), (stored(0, b"b"), None), (stored(5, b"c"), b"")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_described_truly(workspace: Workspace, kind: str) -> None:
    """Size, checksum, counts, first and last key are those of the file in the pool."""
    (file,) = workspace.written(getattr(workspace, kind)(epoch=3), ENTRIES)
    data = (Path(workspace.pool) / file.name).read_bytes()
    assert file.name.endswith(f"-0.{kind}")
    assert (file.format, file.size_bytes, file.sha256) == (kind, len(data), hashlib.sha256(data).hexdigest())
    assert (file.entries, file.tombstones) == (2, 1)
    assert (file.first_key, file.last_key) == (ENTRIES[0][0], ENTRIES[-1][0])
    assert (file.first_epoch, file.last_epoch, file.key_groups) == (3, 3, KeyGroupRange(0, 5))
    assert StateFile.from_json(json.loads(json.dumps(file.to_json()))) == file


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("second", [b"a", b"b"])
def test_keys_must_be_strictly_ascending(workspace: Workspace, kind: str, second: bytes) -> None:
    """A repeated or smaller key is a ValueError that shows it, one by one and in bulk."""
    writer = getattr(workspace, kind)()
    writer.put(stored(0, b"b"), b"")
    with pytest.raises(ValueError, match=stored(0, second).hex()):
        writer.put(stored(0, second), b"")
    bulk = getattr(workspace, kind)()
    with pytest.raises(ValueError, match="strictly ascending"):
        bulk.put_many([stored(0, b"b"), stored(0, second)], [b"", b""])


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_written_as_lists_are(workspace: Workspace, kind: str) -> None:
    """The same files, whether entries come one by one, as lists or as Arrow arrays; nulls are tombstones; the order is
    checked."""
    entries = [
        (stored(0, b"%04d" % number), None if number % 7 == 0 else b"v" * (number % 3)) for number in range(5000)
    ]
    keys, values = [key for key, _ in entries], [value for _, value in entries]
    writer = getattr(workspace, kind)()
    writer.put(stored(0, b""), b"first")
    writer.put_arrays(pa.array(keys[:9], pa.binary()), pa.array(values[:9], pa.binary()))
    writer.put_many(keys[9:10], values[9:10])
    writer.put_arrays(pa.array([], pa.binary()), pa.array([], pa.binary()))
    writer.put_arrays(pa.array(keys, pa.binary())[10:], pa.array(values, pa.binary())[10:])
    with pytest.raises(ValueError, match=keys[-1].hex()):
        writer.put_arrays(pa.array(keys[-1:], pa.binary()), pa.array(values[-1:], pa.binary()))
    files = writer.finish()
    assert sum(file.entries for file in files) == 1 + len(keys) - values.count(None)
    assert sum(file.tombstones for file in files) == values.count(None)
    assert (files[0].first_key, files[-1].last_key) == (stored(0, b""), keys[-1])
    found = contents(workspace.local_copy(StateManifest(WHOLE, tuple(files))))
    assert found == {
        stored(0, b""): b"first",
        **{key: value for key, value in zip(keys, values, strict=True) if value is not None},
    }
    bulk = getattr(workspace, kind)()
    unsorted = pa.array([keys[1], keys[3], keys[2]], pa.binary())
    with pytest.raises(ValueError, match="strictly ascending"):
        bulk.put_arrays(unsorted, pa.array([b"", b"", b""], pa.binary()))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_written_is_no_file(workspace: Workspace, kind: str) -> None:
    """A writer without entries publishes nothing."""
    assert getattr(workspace, kind)().finish() == []
    assert not os.path.exists(workspace.pool) or os.listdir(workspace.pool) == []


@pytest.mark.parametrize("kind", KINDS)
def test_abort_leaves_nothing(workspace: Workspace, kind: str) -> None:
    """Before and after finish, abort removes every file of the writer."""
    writer = getattr(workspace, kind)()
    writer.put(stored(0, 1), b"")
    writer.abort()
    finished = getattr(workspace, kind)()
    finished.put(stored(0, 1), b"")
    finished.finish()
    finished.abort()
    assert not os.path.exists(workspace.pool) or os.listdir(workspace.pool) == []


@pytest.mark.parametrize("kind", KINDS)
def test_put_many_is_many_puts(workspace: Workspace, kind: str) -> None:
    """Bulk writes, with tombstones among them, describe and hold the same as single ones."""
    keys = [stored(1, number) for number in range(10_000)]
    values = [None if number % 4096 == 7 else b"%d" % number for number in range(10_000)]
    single = getattr(workspace, kind)()
    for key, value in zip(keys, values, strict=True):
        single.put(key, value) if value is not None else single.delete(key)
    bulk = getattr(workspace, kind)()
    bulk.put_many(keys[:3], values[:3])
    bulk.put_many(keys[3:], values[3:])
    one, other = single.finish(), bulk.finish()
    assert [(f.entries, f.tombstones, f.first_key, f.last_key) for f in one] == [
        (f.entries, f.tombstones, f.first_key, f.last_key) for f in other
    ]
    held = [
        contents(workspace.local_copy(StateManifest(WHOLE, tuple(files)), i)) for i, files in enumerate((one, other))
    ]
    assert held[0] == held[1] == {key: value for key, value in zip(keys, values, strict=True) if value is not None}


def test_large_output_is_cut_into_files(workspace: Workspace) -> None:
    """Files follow each other without overlap and together hold everything."""
    writer = workspace.sst(max_file_bytes=100_000)
    keys = [stored(number // 10_000, number) for number in range(40_000)]
    writer.put_many(keys, [os.urandom(12) for _ in keys])
    files = writer.finish()
    assert len(files) > 2
    assert [file.name[-6:] for file in files[:2]] == ["-0.sst", "-1.sst"]
    assert all(one.last_key < other.first_key for one, other in pairwise(files))
    assert sum(file.entries for file in files) == 40_000
    assert len(contents(workspace.local_copy(StateManifest(WHOLE, tuple(files))))) == 40_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_on_another_filesystem_works_the_same(tmp_path: Path, kind: str) -> None:
    """Files are uploaded and downloaded where no hard link is possible, and nothing stays in the local folder."""
    (tmp_path / "remote").mkdir()
    remote = Workspace(tmp_path, fs.SubTreeFileSystem(str(tmp_path / "remote"), fs.LocalFileSystem()))
    files = remote.written(getattr(remote, kind)(), ENTRIES)
    assert os.listdir(remote.local) == []
    held = contents(remote.local_copy(StateManifest(WHOLE, tuple(files))))
    assert held == {key: value for key, value in ENTRIES if value is not None}
    remote.cache.close()


def test_a_log_with_other_counts_than_recorded_is_corrupt(workspace: Workspace) -> None:
    """Entry counts are checked besides the checksum."""
    (file,) = workspace.written(workspace.log(), ENTRIES)
    wrong = StateFile.from_json({**file.to_json(), "entries": 3})
    with pytest.raises(CorruptStateError, match=f"{file.name}.* 2 entries"):
        list(read_log(StatePool(workspace.filesystem, workspace.pool), wrong))


def test_a_table_with_other_counts_than_recorded_is_corrupt(workspace: Workspace) -> None:
    """Entry counts are checked besides the checksum."""
    (file,) = workspace.written(workspace.sst(), ENTRIES)
    wrong = StateFile.from_json({**file.to_json(), "tombstones": 0, "entries": 3})
    with pytest.raises(CorruptStateError, match=f"{file.name}.* 2 entries and 1 tombstones"):
        workspace.local_copy(StateManifest(WHOLE, (wrong,)))


def test_tables_of_the_same_size_and_range_are_told_apart(workspace: Workspace) -> None:
    """A sorted pass's entries, and the tombstones of a later one, are not taken for each other."""
    keys = [stored(0, bytes([letter]) * 9) for letter in range(5)]
    tombstones = workspace.written(workspace.sst(2), [(key, None) for key in keys])
    for length in range(60):
        entries = workspace.written(workspace.sst(1), [(keys[0], bytes(range(length))), (keys[-1], b"")])
        if entries[0].size_bytes == tombstones[0].size_bytes:
            break
    else:
        pytest.fail("no two tables have the same size")
    assert contents(workspace.local_copy(StateManifest(WHOLE, tuple(entries + tombstones)))) == {}
    assert len(contents(workspace.local_copy(StateManifest(WHOLE, tuple(tombstones + entries))))) == 2


def test_large_values_count_by_their_bytes(workspace: Workspace) -> None:
    """Tables are cut and logs are batched by size, not only by number of entries."""
    entries = [(stored(0, number), os.urandom(1 << 20)) for number in range(40)]
    keys, values = [key for key, _ in entries], [value for _, value in entries]
    for bulk in (True, False):
        tables, log = workspace.sst(max_file_bytes=10 << 20), workspace.log()
        for writer in (tables, log):
            for start in range(0, 40, 20):
                if bulk:
                    writer.put_many(keys[start : start + 20], values[start : start + 20])
                else:
                    for key, value in entries[start : start + 20]:
                        writer.put(key, value)
        assert len(tables.finish()) >= 2
        (file,) = log.finish()
        batches = list(read_log(StatePool(workspace.filesystem, workspace.pool), file))
        assert max(batch.nbytes for batch in batches) < 40 << 20
        assert [key for batch in batches for key in batch.column(0).to_pylist()] == keys


@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_log_that_does_not_become_durable_is_not_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, which: str, soon: bool
) -> None:
    """Its bytes and its name are written to the disk side by side; whichever fails is the writer's failure."""

    def sync(path: str) -> None:
        synced.append(path)
        if (which == "folder") == (path == workspace.pool):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    synced: list[str] = []
    monkeypatch.setattr(disk_syncs, "sync_path", sync)
    writer = workspace.log(1)
    writer.put(stored(0, 1), b"x")
    ended = writer.finish_soon() if soon else writer.finish
    assert ended is not None, "it is small, and its pool is local"
    with pytest.raises(CheckpointError, match="No space left on device"):
        ended()
    assert sorted(synced)[0] == workspace.pool and len(synced) == 2
    writer.abort()
    assert os.listdir(workspace.pool) == []


def test_a_small_log_is_written_at_once_and_durable_later(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it says which file it is; a large one, or one without entries, writes nothing at once."""
    may_end = threading.Event()
    monkeypatch.setattr(disk_syncs, "sync_path", lambda path: None if may_end.wait(60) else pytest.fail("never"))
    writer = workspace.log(1)
    writer.put(stored(0, 1), b"x")
    ended = writer.finish_soon()
    assert ended is not None
    (name,) = os.listdir(workspace.pool)
    waiting = ThreadPoolExecutor(1).submit(ended)
    assert not waiting.done()
    may_end.set()
    (file,) = waiting.result(60)
    assert file.name == name
    assert [batch.num_rows for batch in read_log(StatePool(workspace.filesystem, workspace.pool), file)] == [1]
    nothing = workspace.log(2).finish_soon()
    assert nothing is not None and nothing() == []
    large = workspace.log(3)
    large.put(stored(0, 1), b"x" * (1 << 20))
    assert large.finish_soon() is None
    assert os.listdir(workspace.pool) == [name]
    assert len(large.finish()) == 1
