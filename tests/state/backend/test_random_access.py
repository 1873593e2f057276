"""The random-access backend: overlay, reads, timers over the whole shard."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.segmented_log import SegmentedLog
from mixedmode.state.store.state_manifest import StateManifest
from state_support import NUMBER, WHOLE, Workspace, contents


def epoch(
    workspace: Workspace,
    registry: StateRegistry,
    manifest: StateManifest,
    work: Callable[[RandomAccessKeyedState], None],
) -> StateManifest:
    """The manifest after an epoch that does ``work``."""
    local_copy = workspace.local_copy(manifest) if manifest.files else None
    state = RandomAccessKeyedState(registry, local_copy, WHOLE, 0)
    work(state)
    writer = workspace.log()
    state.flush(writer)
    return manifest.append(writer.finish())


def test_keys_can_be_visited_again(workspace: Workspace, registry: StateRegistry) -> None:
    """A key finds what it wrote earlier in the epoch, and what earlier epochs wrote."""

    def first(state: RandomAccessKeyedState) -> None:
        for key in (b"a", b"b", b"a", b"b", b"a"):
            state.set_current_key(1, key)
            (count,) = state.value_state("v").get() or (0,)
            state.value_state("v").update((count + 1,))

    manifest = epoch(workspace, registry, StateManifest(WHOLE), first)
    manifest = epoch(workspace, registry, manifest, first)
    state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
    found = {}
    for key in (b"b", b"a"):
        state.set_current_key(1, key)
        found[key] = state.value_state("v").get()
    assert found == {b"a": (6,), b"b": (4,)}


def test_the_local_copy_is_not_written_to(workspace: Workspace, registry: StateRegistry) -> None:
    """An attempt that never flushes leaves no trace in local copy or pool."""
    manifest = epoch(workspace, registry, StateManifest(WHOLE), lambda state: _put(state, b"a", 1))
    local_copy = workspace.local_copy(manifest)
    before = contents(local_copy)
    _put(RandomAccessKeyedState(registry, local_copy, WHOLE, 0), b"a", 2)
    assert contents(local_copy) == before


def _put(state: RandomAccessKeyedState, key: bytes, number: int) -> None:
    state.set_current_key(1, key)
    state.value_state("v").update((number,))
    state.register_timer("event", number)


def test_reading_alone_writes_nothing(workspace: Workspace, registry: StateRegistry) -> None:
    """An epoch that only reads has an empty change log."""
    manifest = epoch(workspace, registry, StateManifest(WHOLE), lambda state: _put(state, b"a", 1))

    def read(state: RandomAccessKeyedState) -> None:
        state.set_current_key(1, b"a")
        assert state.value_state("v").exists()
        assert list(state.list_timers("event")) == [1]

    assert epoch(workspace, registry, manifest, read) == manifest


def test_a_cell_is_read_once_per_visit(workspace: Workspace, registry: StateRegistry) -> None:
    """What the local copy says of a key, also that there is nothing, is asked for once; later writes win over it."""
    manifest = epoch(workspace, registry, StateManifest(WHOLE), lambda state: _put(state, b"a", 1))
    state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
    database = state._database
    reads: list[bytes] = []

    class Counting:
        def get(self, key: bytes) -> bytes | None:
            reads.append(key)
            return database.get(key)  # type: ignore[union-attr]

    state._database = Counting()  # type: ignore[assignment]
    for key, expected in ((b"a", (1,)), (b"none", None), (b"other", None)):
        state.set_current_key(1, key)
        for _ in range(2):
            assert state.value_state("v").exists() is (expected is not None)
            assert state.value_state("v").get() == expected
        state.value_state("v").update((9,))
        assert state.value_state("v").get() == (9,)
    assert len(reads) == 3


def test_a_failing_read_says_what_is_wrong(workspace: Workspace, registry: StateRegistry) -> None:
    """A read that the local copy cannot serve is an error of the house that names the local copy."""
    manifest = epoch(workspace, registry, StateManifest(WHOLE), lambda state: _put(state, b"a", 1))
    local_copy = workspace.local_copy(manifest)
    state = RandomAccessKeyedState(registry, local_copy, WHOLE, 0)
    state.set_current_key(1, b"a")
    local_copy.close()
    with pytest.raises(CheckpointError, match=r"local copy at .* is closed"):
        state.value_state("v").get()


def test_due_timers_come_in_time_order_over_all_key_groups(workspace: Workspace, registry: StateRegistry) -> None:
    """Stored and new timers of all keys are merged; later ones stay."""

    def fill(state: RandomAccessKeyedState) -> None:
        for kg in range(0, 128, 5):
            state.set_current_key(kg, b"k%d" % kg)
            for i in range(3):
                state.register_timer("event", (kg * 37 + i * 101) % 500)

    manifest = epoch(workspace, registry, StateManifest(WHOLE), fill)
    state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
    state.set_current_key(7, b"new")
    state.register_timer("event", 250)
    due = [(ts_ms, key) for ts_ms, _, key in state.due_timers("event", 300)]
    everything = {((kg * 37 + i * 101) % 500, b"k%d" % kg) for kg in range(0, 128, 5) for i in range(3)}
    assert due == sorted({timer for timer in everything if timer[0] <= 300} | {(250, b"new")})
    assert state.next_timer("event") == min(ts_ms for ts_ms, _ in everything if ts_ms > 300)
    assert list(state.due_timers("event", 300)) == []


def test_handlers_can_change_what_fires_next(workspace: Workspace, registry: StateRegistry) -> None:
    """Timers registered meanwhile fire if due, deleted ones do not, and the one at hand cannot come back."""

    def fill(state: RandomAccessKeyedState) -> None:
        for key, ts_ms in ((b"a", 10), (b"b", 20), (b"c", 30)):
            state.set_current_key(1, key)
            state.register_timer("event", ts_ms)

    manifest = epoch(workspace, registry, StateManifest(WHOLE), fill)
    state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
    fired = []
    for ts_ms, key_group, key in state.due_timers("event", 100):
        fired.append((ts_ms, key))
        state.set_current_key(key_group, key)
        state.register_timer("event", ts_ms)
        if ts_ms == 10:
            state.register_timer("event", 25)
            state.register_timer("event", 101)
            state.set_current_key(1, b"b")
            state.delete_timer("event", 20)
    assert fired == [(10, b"a"), (25, b"a"), (30, b"c")]
    assert state.next_timer("event") == 101


def test_fired_timers_are_gone_in_the_next_epoch(workspace: Workspace, registry: StateRegistry) -> None:
    """Cell and index entry go together; nothing of a timer is left in the local copy."""
    manifest = epoch(workspace, registry, StateManifest(WHOLE), lambda state: _put(state, b"a", 1))

    def fire(state: RandomAccessKeyedState) -> None:
        assert [ts_ms for ts_ms, _, _ in state.due_timers("event", 5)] == [1]

    manifest = epoch(workspace, registry, manifest, fire)
    assert len(contents(workspace.local_copy(manifest))) == 1
    assert RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0).next_timer("event") is None


def test_many_timers_of_one_group_are_read_in_chunks(workspace: Workspace, registry: StateRegistry) -> None:
    """More timers than one read fetches come complete and in order."""

    def fill(state: RandomAccessKeyedState) -> None:
        for number in range(1000):
            state.set_current_key(1, number.to_bytes(2, "big"))
            state.register_timer("processing", number % 7)

    manifest = epoch(workspace, registry, StateManifest(WHOLE), fill)
    state = RandomAccessKeyedState(registry, workspace.local_copy(manifest), WHOLE, 0)
    due = [(ts_ms, int.from_bytes(key, "big")) for ts_ms, _, key in state.due_timers("processing", 5)]
    assert due == sorted((number % 7, number) for number in range(1000) if number % 7 <= 5)


def test_another_shards_key_group_is_an_error(registry: StateRegistry) -> None:
    """A misrouted key is noticed before it writes into the wrong shard."""
    state = RandomAccessKeyedState(registry, None, KeyGroupRange(0, 3), 0)
    with pytest.raises(ValueError, match="key group 4 is not of this shard, which has 0 to 3"):
        state.set_current_key(4, b"a")


ACTS = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(["put", "delete", "timer", "untimer"]))


@settings(max_examples=30)
@given(acts=st.lists(st.lists(ACTS, max_size=5), max_size=5), upto_ms=st.integers(0, 6), before=st.booleans())
def test_changes_may_be_written_while_the_epoch_runs(
    acts: list[list[tuple[bytes, str]]], upto_ms: int, before: bool
) -> None:
    """In any number of parts, over a copy that has been brought up to earlier ones: the state is the same, and the same
    timers fire."""
    declared = StateRegistry()
    declared.declare("v", "value", NUMBER)

    def do(state: RandomAccessKeyedState, key: bytes, act: str, number: int) -> None:
        state.set_current_key(key[0] % 2, key)
        if act == "put":
            state.value_state("v").update((number,))
        elif act == "delete":
            state.value_state("v").clear()
        elif act == "timer":
            state.register_timer("event", number % 7)
        else:
            state.delete_timer("event", (number - 1) % 7)

    def run(space: Workspace, *, in_parts: bool) -> tuple[list[tuple[int, int, bytes]], int | None, dict[bytes, bytes]]:
        manifest = StateManifest(WHOLE)
        if before:
            first = RandomAccessKeyedState(declared, None, WHOLE, 0)
            for number, key in enumerate((b"a", b"b")):
                do(first, key, "put", number)
                do(first, key, "timer", number)
            writer = space.log()
            first.flush(writer)
            manifest = manifest.append(writer.finish())
        local_copy = space.local_copy(manifest)
        state = RandomAccessKeyedState(declared, local_copy if before else None, WHOLE, 0)
        log = SegmentedLog(partial(LogWriter, space.filesystem, space.pool, space.local, epoch=2), "e2")
        numbers = count()
        for part in acts:
            for key, act in part:
                do(state, key, act, next(numbers))
            if in_parts:
                state.flush(log, more=True)
                log.cut()
                assert space.cache.follow("job", 0, manifest.append(log.durable()), space.pool)
        fired = []
        for timer in state.due_timers("event", upto_ms):
            fired.append(timer)
            do(state, timer[2], "put", timer[0])
        due = state.next_timer("event")
        state.flush(log)
        return fired, due, contents(space.local_copy(manifest.append(log.finish())))

    found = []
    for in_parts in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            space = Workspace(Path(folder))
            found.append(run(space, in_parts=in_parts))
            space.cache.close()
    assert found[0] == found[1]
