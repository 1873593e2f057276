"""Compaction: fewer files, same content, dead entries gone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import CorruptStateError
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.compaction import compact, dead_entries
from mixedmode.state.store.state_manifest import ShardLineage
from state_support import NUMBER, WHOLE, Workspace, contents, stored


def compacted(space: Workspace, lineage: ShardLineage, kind: str | None, name: str = "c") -> ShardLineage:
    """Compact with the workspace's pool."""
    return compact(lineage, space.replica(lineage), space.filesystem, space.pool, space.local, name, kind=kind)


def with_logs(space: Workspace, count: int) -> ShardLineage:
    """A base of 100 entries and logs that change, add and delete."""
    lineage = ShardLineage(WHOLE, tuple(space.written(space.sst(1), [(stored(i, i), b"0") for i in range(100)])))
    for epoch in range(2, 2 + count):
        changes = [(stored(epoch, epoch), None), (stored(epoch + 1, epoch + 1), b"%d" % epoch)]
        lineage = lineage.append(space.written(space.log(epoch), changes))
    return lineage


def test_nothing_due_is_nothing_done(workspace: Workspace) -> None:
    """A lineage that needs no compaction comes back as it is."""
    lineage = with_logs(workspace, 3)
    assert compacted(workspace, lineage, None) is lineage


def test_logs_are_merged_and_the_base_is_kept(workspace: Workspace) -> None:
    """Sixteen logs become one with their tombstones; content is the same, also for a replica built anew."""
    lineage = with_logs(workspace, 16)
    merged = compacted(workspace, lineage, None)
    assert [file.format for file in merged.files] == ["sst", "log"]
    assert merged.files[0] is lineage.files[0]
    assert (merged.files[1].first_epoch, merged.files[1].last_epoch) == (2, 17)
    assert merged.files[1].tombstones == 16
    assert contents(workspace.replica(merged, shard=1)) == contents(workspace.replica(lineage))


def test_a_full_rewrite_has_no_tombstones(workspace: Workspace) -> None:
    """Everything becomes one table of live entries."""
    lineage = with_logs(workspace, 5)
    rewritten = compacted(workspace, lineage, "full")
    assert [(file.format, file.tombstones) for file in rewritten.files] == [("sst", 0)]
    assert rewritten.base_files == 1
    assert sum(file.entries for file in rewritten.files) == len(contents(workspace.replica(lineage)))
    assert contents(workspace.replica(rewritten, shard=1)) == contents(workspace.replica(lineage))


def test_a_replica_outlives_compaction(workspace: Workspace) -> None:
    """The replica from before the compaction is current after it, and applies what comes next."""
    lineage = with_logs(workspace, 16)
    for kind in ("logs", "full"):
        replaced = compacted(workspace, lineage, kind, kind)
        rebuilds = workspace.cache.rebuilds
        later = replaced.append(workspace.written(workspace.log(99), [(stored(0, 0), b"later")]))
        assert workspace.replica(later).get(stored(0, 0)) == b"later"
        assert workspace.cache.rebuilds == rebuilds
        lineage = later.append([])
        again = compacted(workspace, lineage, "full", kind + "2")
        assert contents(workspace.replica(again, shard=1)) == contents(workspace.replica(later))
        lineage = with_logs(workspace, 16)


def test_a_full_rewrite_of_nothing_has_no_files(workspace: Workspace) -> None:
    """A shard whose entries were all deleted ends up without files."""
    lineage = ShardLineage(WHOLE, tuple(workspace.written(workspace.sst(1), [(stored(1, 1), b"")])))
    lineage = lineage.append(workspace.written(workspace.log(2), [(stored(1, 1), None)]))
    assert compacted(workspace, lineage, "full").files == ()


def test_a_damaged_log_is_not_merged(workspace: Workspace) -> None:
    """Compaction checks what it reads and leaves nothing behind."""
    lineage = with_logs(workspace, 16)
    held = workspace.replica(lineage)
    path = workspace.root / "pool" / lineage.files[5].name
    path.write_bytes(path.read_bytes()[:-9])
    before = sorted(entry.name for entry in path.parent.iterdir())
    with pytest.raises(CorruptStateError, match=lineage.files[5].name):
        compact(lineage, held, workspace.filesystem, workspace.pool, workspace.local, "c")
    assert sorted(entry.name for entry in path.parent.iterdir()) == before


def test_expired_values_and_removed_variables_are_dropped(workspace: Workspace) -> None:
    """A full compaction forgets what can no longer be seen and keeps the rest, timers included."""
    keys = KeyCodec(pa.schema([("k", pa.int64())]))
    registry = StateRegistry()
    registry.declare("keeps", "value", NUMBER)
    registry.declare("expires", "list", NUMBER, ttl_ms=10)
    registry.declare("removed", "value", NUMBER)
    writer = workspace.sst()
    with BatchKeyedState(registry, writer, 100) as state:
        for number in range(20):
            state.set_current_key(0, keys.encode((number,)))
            state.value_state("keeps").update((number,))
            state.value_state("removed").update((number,))
            state.list_state("expires").put([(1,), (2,)])
            state.register_timer("event", 5)
    lineage = ShardLineage(WHOLE, tuple(writer.finish()))
    assert lineage.files[0].entries == 20 * (1 + 1 + 3 + 2)
    program = StateRegistry()
    program.declare("keeps", "value", NUMBER)
    program.declare("expires", "list", NUMBER, ttl_ms=10)
    evolved = program.evolve(registry)

    def entries_at(now_ms: int) -> int:
        replica = workspace.replica(lineage)
        result = compact(
            lineage,
            replica,
            workspace.filesystem,
            workspace.pool,
            workspace.local,
            f"at{now_ms}",
            kind="full",
            is_dead=dead_entries(evolved, keys, now_ms),
        )
        return sum(file.entries for file in result.files)

    assert entries_at(109) == 20 * (1 + 3 + 2)
    assert entries_at(110) == 20 * (1 + 2)


@given(
    st.lists(st.dictionaries(st.integers(0, 20), st.none() | st.binary(max_size=3), min_size=1), min_size=2, max_size=6)
)
@settings(max_examples=15)
def test_merging_logs_is_applying_them_in_order(tmp_path_factory, epochs: list[dict[int, bytes | None]]) -> None:  # type: ignore[no-untyped-def]
    """For any sequence of change logs the merged log has the same effect and each key once."""
    space = Workspace(tmp_path_factory.mktemp("merge"))
    lineage = ShardLineage(WHOLE)
    newest: dict[int, bytes | None] = {}
    for epoch, changes in enumerate(epochs):
        newest.update(changes)
        entries = sorted((stored(0, key), value) for key, value in changes.items())
        lineage = lineage.append(space.written(space.log(epoch), entries))
    merged = compacted(space, lineage, "logs")
    if lineage.trailing_logs == len(lineage.files):
        (file,) = merged.files
        assert file.entries + file.tombstones == len(newest)
    expected = {stored(0, key): value for key, value in newest.items() if value is not None}
    assert contents(space.replica(merged, shard=1)) == expected
    space.cache.close()
