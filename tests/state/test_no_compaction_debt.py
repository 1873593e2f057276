"""What migration leaves in RocksDB: everything at the bottom, nothing to compact, no write held back."""

from __future__ import annotations

import pytest
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.local_copy import LocalStateCopy
from mixedmode.state.store.state_manifest import StateManifest
from state_support import NUMBER, WHOLE, Workspace

KEYS_PER_GROUP = 200
BOTTOM_LEVEL = 6
#: RocksDB's own defaults: from here on it slows writes down.
SLOWDOWN_LEVEL0_FILES = 20


@pytest.fixture
def registry() -> StateRegistry:
    """A number, and something large."""
    made = StateRegistry()
    made.declare("v", "value", NUMBER)
    return made


def migrated(workspace: Workspace, registry: StateRegistry, max_file_bytes: int = 64 << 20) -> StateManifest:
    """A sorted pass over all key groups, in as many tables as ``max_file_bytes`` asks for."""
    writer = workspace.sst(1, max_file_bytes)
    with BatchKeyedState(registry, writer, 0) as state:
        for group in WHOLE:
            for number in range(KEYS_PER_GROUP):
                state.set_current_key(group, number.to_bytes(4, "big"))
                state.value_state("v").update((group * number,))
                state.register_timer("event", number)
    return StateManifest(WHOLE, tuple(writer.finish()))


def number(local_copy: LocalStateCopy, name: str) -> int:
    """A property of the local copy's database."""
    found = local_copy.database.rdict.property_value(f"rocksdb.{name}")
    assert found is not None, f"there is no property {name}"
    return int(found)


def files_by_level(local_copy: LocalStateCopy) -> list[int]:
    """How many tables each level has."""
    return [number(local_copy, f"num-files-at-level{level}") for level in range(BOTTOM_LEVEL + 1)]


def assert_no_debt(local_copy: LocalStateCopy) -> None:
    """RocksDB has nothing to compact and holds no write back."""
    properties = ("estimate-pending-compaction-bytes", "compaction-pending", "is-write-stopped")
    assert {name: number(local_copy, name) for name in properties} == dict.fromkeys(properties, 0)
    assert number(local_copy, "actual-delayed-write-rate") == 0


@pytest.mark.parametrize("max_file_bytes", [64 << 20, 128 << 10])
def test_migrated_state_is_at_the_bottom_level(
    workspace: Workspace, registry: StateRegistry, max_file_bytes: int
) -> None:
    """All tables of a sorted pass, one or many, are ingested into the last level, with nothing left to compact."""
    manifest = migrated(workspace, registry, max_file_bytes)
    assert (len(manifest.files) > 1) == (max_file_bytes < 1 << 20)
    local_copy = workspace.local_copy(manifest)
    assert files_by_level(local_copy) == [0] * BOTTOM_LEVEL + [len(manifest.files)]
    assert number(local_copy, "num-running-compactions") == 0
    assert_no_debt(local_copy)


def test_the_first_live_epochs_find_no_debt(workspace: Workspace, registry: StateRegistry) -> None:
    """Epochs right after the migration neither stall nor pile up tables at level 0, and the base stays where it is."""
    manifest = migrated(workspace, registry)
    for epoch in range(2, 30):
        state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
        for group in WHOLE:
            state.set_current_key(group, (epoch % KEYS_PER_GROUP).to_bytes(4, "big"))
            state.value_state("v").update((epoch,))
        writer = workspace.log(epoch)
        state.flush(writer)
        manifest = manifest.append(writer.finish())
        local_copy = workspace.local_copy(manifest)
        assert_no_debt(local_copy)
        assert files_by_level(local_copy)[0] < SLOWDOWN_LEVEL0_FILES
        assert files_by_level(local_copy)[BOTTOM_LEVEL] == 1
    assert workspace.cache.rebuilds == 1


def test_writes_beyond_the_memtable_reach_level_0(workspace: Workspace, registry: StateRegistry) -> None:
    """The figures are live ones: writes that outgrow the write buffer do show up as a table above the bottom."""
    manifest = migrated(workspace, registry)
    local_copy = workspace.local_copy(manifest)
    for epoch in range(2, 6):
        large = [(group.to_bytes(2, "big") + b"\x01large", b"%d" % epoch * 200_000) for group in WHOLE]
        manifest = manifest.append(workspace.written(workspace.log(epoch), large))
        local_copy = workspace.local_copy(manifest)
    local_copy.database.rdict.flush()
    assert sum(files_by_level(local_copy)[:BOTTOM_LEVEL]) > 0
    assert_no_debt(local_copy)
