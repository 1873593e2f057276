"""Local copies and their cache: caught up exactly, rebuilt when needed, never silently wrong."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError, CorruptStateError
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store import local_copy as local_copy_module
from mixedmode.state.store import pool
from mixedmode.state.store.compaction import compact
from mixedmode.state.store.cursor import LocalStateCursor
from mixedmode.state.store.folder_owner import own_folder, remove_folders_of_dead_processes
from mixedmode.state.store.local_copy import LocalStateCopy, process_cache
from mixedmode.state.store.rocksdb import RocksDB
from mixedmode.state.store.state_manifest import StateManifest, redeal
from pyarrow import fs
from state_support import CACHE_BYTES, WHOLE, Workspace, contents, stored

Read = Callable[[LocalStateCopy, Workspace, StateManifest], None]


def two_epochs(space: Workspace) -> tuple[StateManifest, StateManifest]:
    """A manifest after a sorted epoch and the same after a log on top."""
    base = space.written(space.sst(1), [(stored(i // 10, i), b"old") for i in range(1000)])
    log = space.written(space.log(2), [(stored(0, 1), b"new"), (stored(0, 2), None), (stored(127, 9), b"added")])
    first = StateManifest(WHOLE, tuple(base))
    return first, first.append(log)


def test_later_files_win(workspace: Workspace) -> None:
    """A log's puts and tombstones act on what older files hold."""
    _, manifest = two_epochs(workspace)
    held = workspace.local_copy(manifest)
    assert held.get(stored(0, 1)) == b"new"
    assert held.get(stored(0, 2)) is None
    wanted = [stored(127, 9), stored(0, 0), stored(0, 2), stored(9, 9)]
    assert held.multi_get(wanted) == [b"added", b"old", None, None]
    assert held.multi_get([]) == []
    assert len(contents(held)) == 1000


def test_a_tables_tombstones_act(workspace: Workspace) -> None:
    """A sorted epoch's differences delete what older files hold."""
    first, _ = two_epochs(workspace)
    manifest = first.append(workspace.written(workspace.sst(2), [(stored(0, i), None) for i in range(10)]))
    assert stored(0, 3) not in contents(workspace.local_copy(manifest))
    assert len(contents(workspace.local_copy(manifest))) == 990


def test_memory_is_that_of_tables_and_a_share_of_cached_blocks(workspace: Workspace) -> None:
    """Two copies share the blocks that both have cached; a closed one takes nothing of its own."""
    first, manifest = two_epochs(workspace)
    held = workspace.local_copy(manifest)
    contents(held)
    alone = workspace.cache.memory_of(held)
    assert alone > held.memory_bytes > 0
    workspace.local_copy(first, shard=1)
    assert held.memory_bytes < workspace.cache.memory_of(held) < alone
    held.close()
    assert held.memory_bytes == 0


def test_scans_are_bounded_and_point_in_time(workspace: Workspace) -> None:
    """A scan gives lower <= key < upper, and does not see files that are brought in while it runs."""
    first, second = two_epochs(workspace)
    held = workspace.local_copy(first)
    assert [key for key, _ in held.scan(stored(0, 3), stored(0, 6))] == [stored(0, 3), stored(0, 4), stored(0, 5)]
    running = held.scan(stored(0, b""), stored(1, b""))
    next(running)
    workspace.local_copy(second)
    assert [value for _, value in running] == [b"old"] * 9


def test_the_cache_applies_only_what_is_new(workspace: Workspace) -> None:
    """An unchanged manifest is a hit, an appended file is applied, anything else is a rebuild."""
    first, second = two_epochs(workspace)
    cache = workspace.cache
    workspace.local_copy(first)
    assert (cache.rebuilds, cache.applies, cache.hits, cache.files_brought) == (1, 0, 0, 1)
    workspace.local_copy(first)
    assert (cache.rebuilds, cache.applies, cache.hits) == (1, 0, 1)
    workspace.local_copy(second)
    assert (cache.rebuilds, cache.applies, cache.hits, cache.files_brought) == (1, 1, 1, 2)
    assert workspace.local_copy(first).get(stored(0, 2)) == b"old"
    assert cache.rebuilds == 2
    other = first.append(workspace.written(workspace.log(2), [(stored(0, 1), b"other attempt")]))
    workspace.local_copy(second)
    assert workspace.local_copy(other).get(stored(0, 1)) == b"other attempt"
    assert cache.rebuilds == 3


def test_a_log_of_this_process_is_brought_in_without_reading_it_back(workspace: Workspace) -> None:
    """The next epoch of a shard finds what the last one has written; whoever has to build a local copy reads files,
    and so does whoever comes once more."""
    first, second = two_epochs(workspace)
    workspace.local_copy(first)
    log = Path(workspace.pool) / second.files[1].name
    whole = log.read_bytes()
    log.unlink()
    assert workspace.local_copy(second).get(stored(0, 1)) == b"new"
    with pytest.raises(CorruptStateError, match=f"{log.name} is missing"):
        workspace.local_copy(second, shard=1)
    log.write_bytes(whole)
    assert workspace.local_copy(first).get(stored(0, 1)) == b"old"
    log.unlink()
    with pytest.raises(CorruptStateError, match=f"{log.name} is missing"):
        workspace.local_copy(second)


def test_few_bytes_of_logs_are_kept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many logs that nobody brings in here the oldest are let go, and a large one is not kept at all."""
    kept: dict[str, pa.Buffer] = {}
    monkeypatch.setattr(pool, "_kept", kept)
    monkeypatch.setattr(pool, "_KEPT_BYTES", 3_000)
    monkeypatch.setattr(pool, "_KEPT_FILE_BYTES", 2_000)
    names = [workspace.written(workspace.log(epoch), [(stored(0, epoch), b"x")])[0].name for epoch in range(1, 20)]
    assert sum(data.size for data in kept.values()) <= 3_000
    assert [path.rpartition("/")[2] for path in kept] == names[-len(kept) :] and len(kept) > 1
    large = workspace.written(workspace.log(20), [(stored(0, 1), os.urandom(2_000))])[0].name
    assert not any(path.endswith(large) for path in kept)


def test_other_key_groups_are_another_local_copy(workspace: Workspace) -> None:
    """The same files under another range are clipped to it."""
    first, _ = two_epochs(workspace)
    workspace.local_copy(first)
    narrow = workspace.local_copy(StateManifest(KeyGroupRange(1, 2), first.files))
    assert len(contents(narrow)) == 20
    assert workspace.cache.rebuilds == 2


def test_a_clipped_file_is_never_just_applied(workspace: Workspace) -> None:
    """A shard that gets its old range back after re-dealing is built anew, so that stale keys do not come along."""
    part = KeyGroupRange(1, 2)
    workspace.local_copy(StateManifest(part), shard=1)
    first, _ = two_epochs(workspace)
    (dealt,) = redeal([first], [part])
    assert dealt.files[0].clip == part
    assert len(contents(workspace.local_copy(dealt, shard=1))) == 20
    assert workspace.cache.rebuilds == 2


def test_least_recently_used_local_copies_are_closed(workspace: Workspace) -> None:
    """At most max_open local copies are open; a closed one says so and its folder is gone."""
    first, _ = two_epochs(workspace)
    workspace.cache._max_open = 2
    oldest = workspace.local_copy(first, shard=0)
    for shard in (1, 2):
        workspace.local_copy(first, shard=shard)
    assert workspace.cache.evictions == 1
    assert not os.path.exists(oldest.folder)
    with pytest.raises(CheckpointError, match="is closed"):
        oldest.get(b"x")
    assert workspace.local_copy(first, shard=0).get(stored(0, 1)) == b"old"


def test_shards_in_turn_keep_their_local_copies(workspace: Workspace) -> None:
    """A process that works on 32 shards, epoch by epoch, builds the copy of each once."""
    first, second = two_epochs(workspace)
    for manifest in (first, first, second):
        for shard in range(32):
            workspace.local_copy(manifest, shard=shard)
    assert (workspace.cache.rebuilds, workspace.cache.evictions) == (32, 0)


@pytest.mark.parametrize(
    ("may_open", "held"), [(256, 8), (64, 8), (512, 16), (1024, 32), (1 << 20, 32), (resource.RLIM_INFINITY, 32)]
)
def test_fewer_copies_are_held_where_few_files_may_be_open(
    monkeypatch: pytest.MonkeyPatch, may_open: int, held: int
) -> None:
    """By the process's own limit, as ``ulimit -n`` says it."""
    monkeypatch.setattr(resource, "getrlimit", lambda what: (may_open, may_open))
    assert local_copy_module.most_open() == held


def test_evicting_a_local_copy_whose_folder_is_gone(workspace: Workspace) -> None:
    """Whoever evicts another job's local copy is not concerned by what has become of its folder, even if that is a file
    or another folder now; the job itself gets a new local copy."""
    first, manifest = two_epochs(workspace)
    workspace.cache._max_open = 1
    for number, becomes in enumerate(("nothing", "file", "folder", "folder without permission")):
        other = workspace.local_copy(manifest, job=f"other {number}")  # its log is in memory only
        shutil.rmtree(other.folder)
        if becomes == "file":
            Path(other.folder).touch()
        elif becomes.startswith("folder"):
            Path(other.folder, "db").mkdir(parents=True, mode=0o700 if becomes == "folder" else 0o500)
        assert len(contents(workspace.local_copy(first, job="mine"))) == 1000
        assert workspace.cache.evictions == 3 * number + 1
        assert len(contents(workspace.local_copy(manifest, job=f"other {number}"))) == 1000


def test_a_local_copy_whose_folder_is_gone_is_built_anew(workspace: Workspace) -> None:
    """It may be the disk of all local copies that is gone: what can be read is not enough to go on."""
    first, manifest = two_epochs(workspace)
    held = workspace.local_copy(first)
    shutil.rmtree(workspace.local)
    workspace.root.joinpath("local").mkdir()
    again = workspace.local_copy(manifest)
    assert (again.get(stored(0, 1)), len(contents(again))) == (b"new", 1000)
    assert workspace.cache.rebuilds == 2
    with pytest.raises(CheckpointError, match="is closed"):
        held.get(b"x")


def test_a_local_copy_that_cannot_be_closed(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that refuses to close is given up all the same, and its folder with it."""
    first, _ = two_epochs(workspace)
    held = workspace.local_copy(first)

    class Refusing:
        def close(self) -> None:
            raise RuntimeError("IO error: No such file or directory")

    held._database.close()  # type: ignore[union-attr]
    held._database = Refusing()  # type: ignore[assignment]
    held.close()
    assert not os.path.exists(held.folder)


def test_the_pool_is_never_written_to(workspace: Workspace) -> None:
    """Ingested hard links leave the pool's files byte for byte as they were, and survive the local copy's end."""
    first, second = two_epochs(workspace)
    before = {path.name: path.read_bytes() for path in Path(workspace.pool).iterdir()}
    held = workspace.local_copy(second)
    assert isinstance(held.database, RocksDB)
    held.database.rdict.compact_range(None, None)
    workspace.cache.close()
    assert {path.name: path.read_bytes() for path in Path(workspace.pool).iterdir()} == before
    assert len(contents(workspace.local_copy(first))) == 1000


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_flip, _truncate, _empty, os.remove])
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_file_is_named(workspace: Workspace, damage, which: int) -> None:  # type: ignore[no-untyped-def]
    """A flipped bit, a truncation, an empty or a missing file is a CorruptStateError with its name, table or log."""
    first, second = two_epochs(workspace)
    damage(Path(workspace.pool) / second.files[which].name)
    with pytest.raises(CorruptStateError, match=second.files[which].name):
        workspace.local_copy(second)
    if which == 1:  # the undamaged beginning can still be read
        assert len(contents(workspace.local_copy(first))) == 1000


def test_a_failed_catch_up_does_not_leave_half_a_replica(workspace: Workspace) -> None:
    """After a damaged file the local copy is discarded, and a later whole manifest is built anew."""
    first, second = two_epochs(workspace)
    workspace.local_copy(first)
    third = second.append(workspace.written(workspace.log(3), [(stored(0, 5), b"third")]))
    pool._kept.clear()  # another process has written it
    path = Path(workspace.pool) / third.files[2].name
    data = path.read_bytes()
    _flip(path)
    with pytest.raises(CorruptStateError):
        workspace.local_copy(third)
    path.write_bytes(data)
    assert workspace.local_copy(first).get(stored(0, 1)) == b"old"
    assert workspace.cache.rebuilds == 2
    assert workspace.local_copy(third).get(stored(0, 5)) == b"third"


def _read_by_scan(held: LocalStateCopy, workspace: Workspace, manifest: StateManifest) -> None:
    list(held.scan(b"", b"\xff"))


def _read_one_by_one(held: LocalStateCopy, workspace: Workspace, manifest: StateManifest) -> None:
    for i in range(20_000):
        held.get(stored(0, i))


def _read_many(held: LocalStateCopy, workspace: Workspace, manifest: StateManifest) -> None:
    held.multi_get([stored(0, i) for i in range(20_000)])


def _read_by_cursor(held: LocalStateCopy, workspace: Workspace, manifest: StateManifest) -> None:
    held.cursor().read_prefix(b"\x00\x00")


def _compact(held: LocalStateCopy, workspace: Workspace, manifest: StateManifest) -> None:
    compact(manifest, held, workspace.filesystem, workspace.pool, workspace.local, "e2-compacted", kind="full")


def _damaged(workspace: Workspace) -> tuple[LocalStateCopy, StateManifest]:
    """A local copy whose table was altered on the disk after it was checked."""
    entries = [(stored(0, i), os.urandom(64)) for i in range(20_000)]
    manifest = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(), entries)))
    held = workspace.local_copy(manifest)
    (table,) = Path(held.folder).glob("db/*.sst")
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(bytes(64))
    return held, manifest


@pytest.mark.parametrize("read", [_read_by_scan, _read_one_by_one, _read_many, _read_by_cursor, _compact])
def test_a_read_of_a_damaged_block_names_the_pools_file(workspace: Workspace, read: Read) -> None:
    """Bits that flip under an open local copy are an error with the file's name, never fewer rows; compaction too."""
    held, manifest = _damaged(workspace)  # the table is the pool's file: a hard link
    with pytest.raises(CorruptStateError, match=f"^state file .*{manifest.files[0].name} has been altered"):
        read(held, workspace, manifest)
    assert held.damaged
    assert os.listdir(workspace.pool) == [manifest.files[0].name]
    with pytest.raises(CorruptStateError, match=f"{manifest.files[0].name} has been altered"):
        workspace.local_copy(manifest)


def test_damage_of_the_local_copy_alone_is_told_apart(tmp_path: Path) -> None:
    """With the pool elsewhere the local copy is named, the checkpoint's files are not blamed, and a rebuild helps."""
    (tmp_path / "remote").mkdir()
    remote = Workspace(tmp_path, fs.SubTreeFileSystem(str(tmp_path / "remote"), fs.LocalFileSystem()))
    held, manifest = _damaged(remote)
    with pytest.raises(CorruptStateError, match="files are whole, this local copy is not") as caught:
        list(held.scan(b"", b"\xff"))
    assert not str(caught.value).startswith("state file")
    assert len(contents(remote.local_copy(manifest))) == 20_000
    remote.cache.close()


def test_an_unchecked_iteration_would_have_been_short(tmp_path: Path) -> None:
    """The trap that scan() guards against is real: rocksdict's items() ends early and silently over damage."""
    found = RocksDB(str(tmp_path / "db"))
    database = found.rdict
    for i in range(20_000):
        database[stored(0, i)] = os.urandom(64)
    database.flush()
    (table,) = (tmp_path / "db").glob("*.sst")
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(bytes(64))
    assert len(list(database.items())) < 20_000
    with pytest.raises(CorruptStateError):
        list(found.scan(b"", b"\xff"))
    database.close()


def test_a_cursor_reads_prefixes_in_any_order(workspace: Workspace) -> None:
    """Stepping and seeking give the same entries as scans, forwards and backwards."""
    entries = [(stored(kg, i), b"%d" % i) for kg in range(4) for i in range(0, 90, 3)]
    held = workspace.local_copy(StateManifest(WHOLE, tuple(workspace.written(workspace.sst(), entries))))
    cursor = held.cursor()
    for kg, i in [(0, 0), (0, 1), (0, 3), (0, 60), (1, 87), (2, 50), (0, 3), (3, 87), (3, 88), (0, 0), (7, 0)]:
        prefix = stored(kg, i)
        assert cursor.read_prefix(prefix) == [(k, v) for k, v in entries if k.startswith(prefix)]
    assert [value for _, value in cursor.read_from(stored(1, 4), stored(1, b""), 3)] == [b"6", b"9", b"12"]
    assert len(cursor.read_prefix(stored(1, b""))) == 30
    assert cursor.read_prefix(b"\xff") == []
    assert len(cursor.read_prefix(b"")) == 120


@given(
    st.sets(st.binary(max_size=3), max_size=30),
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 3) | st.none()), max_size=20),
)
@settings(max_examples=150)
def test_a_cursor_never_loses_its_place(keys: set[bytes], reads: list[tuple[bytes, int | None]]) -> None:
    """Any sequence of reads, limited or not, over any keys gives what a search in a sorted list gives."""
    cursor = LocalStateCursor(_ListDatabase(sorted(keys)), lambda error, doing: error)  # type: ignore[arg-type]
    for prefix, limit in reads:
        expected = [(key, key) for key in sorted(keys) if key.startswith(prefix)]
        assert cursor.read_from(prefix, prefix, limit) == expected[:limit]


class _ListDatabase:
    """An iterator over a sorted list, with the methods of RocksDB's."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._place = 0

    def position(self) -> _ListDatabase:
        return self

    def seek(self, key: bytes) -> None:
        self._place = bisect_left(self._keys, key)

    def valid(self) -> bool:
        return self._place < len(self._keys)

    def next(self) -> None:
        assert self.valid(), "RocksDB does not allow next() on an invalid iterator"
        self._place += 1

    def key(self) -> bytes:
        return self._keys[self._place]

    value = key

    def status(self) -> None:
        pass


def test_compaction_does_not_force_a_rebuild(workspace: Workspace) -> None:
    """A local copy that embodies what was compacted goes on with the files appended since."""
    _, second = two_epochs(workspace)
    third = second.append(workspace.written(workspace.log(3), [(stored(1, 10), b"third")]))
    workspace.local_copy(third)
    fresh = workspace.written(workspace.sst(3), sorted(contents(workspace.local_copy(second)).items()))
    compacted = StateManifest(WHOLE, tuple(fresh), tuple(file.name for file in second.files), len(fresh))
    later = compacted.append([third.files[-1]]).append(
        workspace.written(workspace.log(4), [(stored(9, 90), b"fourth")])
    )
    rebuilds = workspace.cache.rebuilds
    expected = contents(workspace.local_copy(later))
    assert expected[stored(9, 90)] == b"fourth"
    assert workspace.cache.rebuilds == rebuilds  # from what was compacted
    workspace.local_copy(third)
    rebuilds = workspace.cache.rebuilds
    assert contents(workspace.local_copy(later)) == expected
    assert workspace.cache.rebuilds == rebuilds  # from a file beyond it
    assert contents(workspace.local_copy(later, shard=1)) == expected


def test_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """What a killed process left is deleted by the next one; living processes and strangers are left alone."""
    code = (
        "import sys, os; from mixedmode.state.store.folder_owner import own_folder;"
        "folder = own_folder(sys.argv[1]); os.makedirs(folder); print(folder)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    dead = done.stdout.strip()
    mine = own_folder(str(tmp_path))
    for folder in (mine, str(tmp_path / "something-else"), str(tmp_path / "replicas.otherhost.1-999999-5")):
        os.makedirs(folder)
    assert remove_folders_of_dead_processes(str(tmp_path)) == [os.path.basename(dead)]
    assert sorted(os.listdir(tmp_path)) == sorted(
        [os.path.basename(mine), "something-else", "replicas.otherhost.1-999999-5"]
    )


def _in_child(root: Path, manifest: StateManifest, answer: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    space = Workspace(root, cache=process_cache())
    held = space.local_copy(manifest)
    answer.put((len(contents(held)), held.folder, space.cache.rebuilds))


def test_a_forked_child_has_replicas_of_its_own(workspace: Workspace) -> None:
    """After fork the parent's databases are not touched: the child's cache is empty and works."""
    first, second = two_epochs(workspace)
    workspace.cache = process_cache()
    parents = workspace.local_copy(first, job="fork-test")
    answers = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(workspace.root, second, answers))
    child.start()
    count, folder, rebuilds = answers.get(timeout=300)
    child.join(timeout=300)
    assert child.exitcode == 0
    assert (count, rebuilds) == (1000, 1)
    assert folder != parents.folder
    assert parents.get(stored(0, 2)) == b"old"
    assert local_copy_module.process_cache() is workspace.cache


def test_acquire_is_private_to_its_pool(workspace: Workspace, tmp_path: Path) -> None:
    """Jobs, shards and pools do not share local copies."""
    first, second = two_epochs(workspace)
    one = workspace.local_copy(first, job="a")
    other = workspace.local_copy(second, job="b")
    assert one.get(stored(0, 2)) == b"old"
    assert other.get(stored(0, 2)) is None
    again = workspace.cache.acquire(
        "a", 0, first, workspace.filesystem, workspace.pool + "/", workspace.local, CACHE_BYTES
    )
    assert again.get(stored(0, 2)) == b"old"


def test_shards_that_a_stage_has_no_more_are_let_go(workspace: Workspace) -> None:
    """Only those of this stage and job whose numbers are beyond; the others stay as they are."""
    first, _ = two_epochs(workspace)
    kept, gone = (workspace.local_copy(first, shard=shard) for shard in (1, 2))
    (job, _, pool), *_ = workspace.cache._held
    workspace.cache.retire(job, f"{pool}-another", 0)
    workspace.cache.retire(job, pool, 2)
    assert not os.path.exists(gone.folder) and os.path.exists(kept.folder)
    assert workspace.local_copy(first, shard=1) is kept
