"""The contract of local databases: every state backend passes these tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.store.database import LocalDatabase, StateBackend
from mixedmode.state.store.rocksdb import RocksDBBackend
from state_support import CACHE_BYTES, Workspace

#: A new backend joins here.
BACKENDS = [RocksDBBackend]
KEYS = st.binary(min_size=1, max_size=3)
ENTRIES = st.dictionaries(KEYS, st.binary(max_size=3))
STEPS = st.one_of(
    st.tuples(st.just("write"), st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1)),
    st.tuples(st.just("ingest"), ENTRIES),
    st.tuples(st.just("ingest_tables"), ENTRIES),
    st.tuples(st.just("delete_range"), st.tuples(KEYS, KEYS).map(sorted)),
)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> StateBackend:
    """Each of them, for all databases of the module."""
    made: StateBackend = request.param(CACHE_BYTES)
    return made


@pytest.fixture
def database(backend: StateBackend, tmp_path: Path) -> Iterator[LocalDatabase]:
    """One with the keys 0 to 8."""
    opened = backend.open(str(tmp_path / "db"))
    opened.write([bytes([number]) for number in range(9)], [b"old"] * 9, deletes=False)
    yield opened
    opened.close()


def table_of(folder: Path, entries: dict[bytes, bytes | None]) -> list[str]:
    """The table of a pool with these entries."""
    folder.mkdir()
    space = Workspace(folder)
    return [f"{space.pool}/{file.name}" for file in space.written(space.sst(), sorted(entries.items()))]


@given(st.lists(STEPS, max_size=6))
def test_a_database_is_a_sorted_map(
    backend: StateBackend, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """Whatever comes later wins: single changes, entries, tables and ranges that are deleted."""
    folder, model, numbers = tmp_path_factory.mktemp("database"), dict[bytes, bytes](), count()
    database = backend.open(str(folder / "db"))
    for name, given_to in steps:
        if name == "write":
            keys, values = zip(*given_to, strict=True)
            database.write(keys, values, deletes=None in values)
            model |= dict(given_to)
        elif name == "delete_range":
            database.delete_range(*given_to)
            model = {key: value for key, value in model.items() if not given_to[0] <= key < given_to[1]}
        elif name == "ingest":
            database.ingest(iter(sorted(given_to.items())))
            model |= given_to
        elif given_to:
            database.ingest_tables(table_of(folder / str(next(numbers)), given_to))
            model |= given_to
        model = {key: value for key, value in model.items() if value is not None}
    asked = sorted({*model, b"\x00", b"absent"})
    assert [database.get(key) for key in asked] == database.multi_get(asked) == [model.get(key) for key in asked]
    assert list(database.scan(b"", b"\xff" * 4)) == sorted(model.items())
    database.close()


def test_a_scan_is_bounded_and_a_point_in_time(database: LocalDatabase) -> None:
    """It begins with its lower bound, ends before its upper one, and shows nothing that is written meanwhile."""
    entries = database.scan(b"\x04", b"\x07")
    first = next(entries)
    database.write([b"\x05", b"\x06"], [b"new", None], deletes=True)
    assert [first, *entries] == [(bytes([number]), b"old") for number in (4, 5, 6)]
    assert list(database.scan(b"\x04", b"\x07")) == [(b"\x04", b"old"), (b"\x05", b"new")]


def test_a_position_goes_from_entry_to_entry(database: LocalDatabase) -> None:
    """It is placed at the first key that is not less, and is valid until the last one is behind it."""
    position = database.position()
    position.seek(b"\x06\x00")
    found = []
    while position.valid():
        found.append((position.key(), position.value()))
        position.next()
    position.status()
    assert found == [(b"\x07", b"old"), (b"\x08", b"old")]


def test_tombstones_of_a_table_act_and_its_file_stays(database: LocalDatabase, tmp_path: Path) -> None:
    """A table deletes what is below it; the pool's file may be linked, but is never written."""
    paths = table_of(tmp_path / "pool", {b"\x03": None, b"\x04": b"new"})
    link, content = tmp_path / "linked.sst", Path(paths[0]).read_bytes()
    link.hardlink_to(paths[0])
    database.ingest_tables([str(link)])
    assert database.multi_get([b"\x03", b"\x04", b"\x05"]) == [None, b"new", b"old"]
    assert Path(paths[0]).read_bytes() == content


def test_a_database_knows_that_its_files_are_gone(backend: StateBackend, tmp_path: Path) -> None:
    """Nothing can be brought in then."""
    database = backend.open(str(tmp_path / "db"))
    assert not database.is_lost
    shutil.rmtree(tmp_path / "db")
    assert database.is_lost
