"""What rocksdict does against its names: each trap is real, and the code stays clear of it.

Two more are where their guards are: iteration over a damaged block and use after fork in ``test_local_copy.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store import rocksdb
from mixedmode.state.store.rocksdb import RocksDB
from mixedmode.state.store.state_manifest import StateManifest
from rocksdict import Options, Rdict, ReadOptions
from state_support import Workspace

SOURCES = sorted(Path(rocksdb.__file__).resolve().parent.glob("*.py"))


def used_names() -> Iterator[tuple[str, str]]:
    """``(module, attribute or name)`` of everything that the code of state/ uses."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                yield path.stem, node.attr
            elif isinstance(node, ast.Name):
                yield path.stem, node.id


def modules_that_use(name: str) -> set[str]:
    return {module for module, used in used_names() if used == name}


def filled(path: Path, count: int = 9) -> RocksDB:
    """A database with keys 0 to count - 1."""
    database = RocksDB(str(path / "db"))
    database.write([bytes([number]) for number in range(count)], [b"old"] * count, deletes=False)
    return database


def test_a_snapshots_iterator_shows_later_writes(tmp_path: Path) -> None:
    """Iterating a snapshot is no point in time, so no code takes one; an iterator of the database is."""
    database = filled(tmp_path)
    snapshot, entries = database.rdict.snapshot(), database.scan(b"", b"\xff")
    first = next(entries)
    database.write([b"\x05"], [b"new"], deletes=False)
    assert dict(snapshot.items())[b"\x05"] == b"new", "the trap is gone"
    assert dict([first, *entries])[b"\x05"] == b"old"
    assert modules_that_use("snapshot") == modules_that_use("Snapshot") == set()


def test_the_lower_bound_is_the_upper_one(tmp_path: Path) -> None:
    """Setting an iterator's lower bound sets its upper one, so no code does; scans seek to where they begin."""
    database = filled(tmp_path)
    bounds = ReadOptions()
    bounds.set_iterate_lower_bound(b"\x04")
    assert [key for key in database.rdict.keys(read_opt=bounds)] == [bytes([n]) for n in range(4)], "the trap is gone"  # noqa: C416
    assert [key for key, _ in database.scan(b"\x04", b"\x07")] == [b"\x04", b"\x05", b"\x06"]
    assert modules_that_use("set_iterate_lower_bound") == set()


def test_only_one_place_iterates() -> None:
    """rocksdict's iterators end in silence over damage: one file makes them, and who is given one asks for the status
    afterwards."""
    for path in SOURCES:
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "iter"
        ]
        assert not calls or path.stem == "rocksdb", f"{path} iterates a database by itself"
        assert "status()" in path.read_text() or not (calls or ".position()" in path.read_text())


def test_a_closed_database_stays_locked_while_an_iterator_lives(tmp_path: Path) -> None:
    """close() returns with the lock still held, so nothing is ever opened twice: each local copy has a new folder."""
    database = filled(tmp_path)
    entries = database.scan(b"", b"\xff")
    next(entries)
    database.close()
    with pytest.raises(Exception, match="lock"):
        Rdict(str(tmp_path / "db"), Options(raw_mode=True))
    assert len(list(entries)) == 8, "and the iterator goes on"
    with pytest.raises(rocksdb.CheckpointError, match="exists"):
        RocksDB(str(tmp_path / "db"))


def test_a_local_copy_is_built_anew_while_an_old_scan_lives(tmp_path: Path) -> None:
    """A scan that nobody has finished does not hinder the next local copy of the shard, nor does it change."""
    space = Workspace(tmp_path)
    writer = space.sst()
    for number in range(5):
        writer.put(b"\x00\x00\x01" + bytes([number]), b"v")
    manifest = StateManifest(KeyGroupRange(0, 0), tuple(writer.finish()))
    old = space.local_copy(manifest)
    entries = old.scan(b"", b"\xff")
    next(entries)
    space.cache.close()
    again = space.local_copy(manifest)
    assert again.folder != old.folder
    assert len(list(again.scan(b"", b"\xff"))) == 5
    assert len(list(entries)) == 4
    space.cache.close()


def test_writes_leave_no_log(tmp_path: Path) -> None:
    """``disable_wal`` is a property, not the method that the stubs promise: set as one, nothing goes to a log."""
    database = filled(tmp_path, 200)
    logs = [path.stat().st_size for path in (tmp_path / "db").glob("*.log")]
    assert logs and not any(logs)
    database.rdict.put(b"logged", b"x" * 100)
    assert any(path.stat().st_size for path in (tmp_path / "db").glob("*.log"))


@pytest.mark.parametrize("name", ["with_ttl", "destroy"])
def test_what_does_not_hold_its_promise_is_not_used(name: str) -> None:
    """TTL of rocksdict shows expired values and changes stored bytes; destroy fails on an open database."""
    assert modules_that_use(name) == set()
