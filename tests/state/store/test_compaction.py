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
from mixedmode.state.store.state_manifest import StateManifest
from state_support import NUMBER, WHOLE, Workspace, contents, stored


def compacted(space: Workspace, manifest: StateManifest, kind: str | None, name: str = "c") -> StateManifest:
    """Compact with the workspace's pool."""
    return compact(manifest, space.local_copy(manifest), space.filesystem, space.pool, space.local, name, kind=kind)


def with_logs(space: Workspace, count: int) -> StateManifest:
    """A base of 100 entries and logs that change, add and delete."""
    manifest = StateManifest(WHOLE, tuple(space.written(space.sst(1), [(stored(i, i), b"0") for i in range(100)])))
    for epoch in range(2, 2 + count):
        changes = [(stored(epoch, epoch), None), (stored(epoch + 1, epoch + 1), b"%d" % epoch)]
        manifest = manifest.append(space.written(space.log(epoch), changes))
    return manifest


def test_nothing_due_is_nothing_done(workspace: Workspace) -> None:
    """A manifest that needs no compaction comes back as it is."""
    manifest = with_logs(workspace, 3)
    assert compacted(workspace, manifest, None) is manifest


def test_logs_are_merged_and_the_base_is_kept(workspace: Workspace) -> None:
    """Sixteen logs become one with their tombstones; content is the same, also for a local copy built anew."""
    manifest = with_logs(workspace, 16)
    merged = compacted(workspace, manifest, None)
    assert [file.format for file in merged.files] == ["sst", "log"]
    assert merged.files[0] is manifest.files[0]
    assert (merged.files[1].first_epoch, merged.files[1].last_epoch) == (2, 17)
    assert merged.files[1].tombstones == 16
    assert contents(workspace.local_copy(merged, shard=1)) == contents(workspace.local_copy(manifest))


def test_a_full_rewrite_has_no_tombstones(workspace: Workspace) -> None:
    """Everything becomes one table of live entries."""
    manifest = with_logs(workspace, 5)
    rewritten = compacted(workspace, manifest, "full")
    assert [(file.format, file.tombstones) for file in rewritten.files] == [("sst", 0)]
    assert rewritten.base_files == 1
    assert sum(file.entries for file in rewritten.files) == len(contents(workspace.local_copy(manifest)))
    assert contents(workspace.local_copy(rewritten, shard=1)) == contents(workspace.local_copy(manifest))


def test_a_local_copy_outlives_compaction(workspace: Workspace) -> None:
    """The local copy from before the compaction is current after it, and applies what comes next."""
    manifest = with_logs(workspace, 16)
    for kind in ("logs", "full"):
        replaced = compacted(workspace, manifest, kind, kind)
        rebuilds = workspace.cache.rebuilds
        later = replaced.append(workspace.written(workspace.log(99), [(stored(0, 0), b"later")]))
        assert workspace.local_copy(later).get(stored(0, 0)) == b"later"
        assert workspace.cache.rebuilds == rebuilds
        manifest = later.append([])
        again = compacted(workspace, manifest, "full", kind + "2")
        assert contents(workspace.local_copy(again, shard=1)) == contents(workspace.local_copy(later))
        manifest = with_logs(workspace, 16)


def test_a_full_rewrite_of_nothing_has_no_files(workspace: Workspace) -> None:
    """A shard whose entries were all deleted ends up without files."""
    manifest = StateManifest(WHOLE, tuple(workspace.written(workspace.sst(1), [(stored(1, 1), b"")])))
    manifest = manifest.append(workspace.written(workspace.log(2), [(stored(1, 1), None)]))
    assert compacted(workspace, manifest, "full").files == ()


def test_a_damaged_log_is_not_merged(workspace: Workspace) -> None:
    """Compaction checks what it reads and leaves nothing behind."""
    manifest = with_logs(workspace, 16)
    held = workspace.local_copy(manifest)
    path = workspace.root / "pool" / manifest.files[5].name
    path.write_bytes(path.read_bytes()[:-9])
    before = sorted(entry.name for entry in path.parent.iterdir())
    with pytest.raises(CorruptStateError, match=manifest.files[5].name):
        compact(manifest, held, workspace.filesystem, workspace.pool, workspace.local, "c")
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
    manifest = StateManifest(WHOLE, tuple(writer.finish()))
    assert manifest.files[0].entries == 20 * (1 + 1 + 3 + 2)
    program = StateRegistry()
    program.declare("keeps", "value", NUMBER)
    program.declare("expires", "list", NUMBER, ttl_ms=10)
    evolved = program.evolve(registry)

    def entries_at(now_ms: int) -> int:
        local_copy = workspace.local_copy(manifest)
        result = compact(
            manifest,
            local_copy,
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
    manifest = StateManifest(WHOLE)
    newest: dict[int, bytes | None] = {}
    for epoch, changes in enumerate(epochs):
        newest.update(changes)
        entries = sorted((stored(0, key), value) for key, value in changes.items())
        manifest = manifest.append(space.written(space.log(epoch), entries))
    merged = compacted(space, manifest, "logs")
    if manifest.trailing_logs == len(manifest.files):
        (file,) = merged.files
        assert file.entries + file.tombstones == len(newest)
    expected = {stored(0, key): value for key, value in newest.items() if value is not None}
    assert contents(space.local_copy(merged, shard=1)) == expected
    space.cache.close()
