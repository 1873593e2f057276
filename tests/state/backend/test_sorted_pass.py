"""The batch backend: order, differences, bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.backend.timer_index import due_keys
from mixedmode.state.keys.key_space import TIMER_SLOTS, encode_ts, state_key, timer_index_key
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.local_copy import LocalStateCopy
from mixedmode.state.store.state_manifest import StateManifest
from state_support import WHOLE, Workspace

MAX = 2**63 - 1


class RecordingWriter:
    """A StateWriter that keeps what it gets, call by call."""

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.largest_call = 0

    def put(self, key: bytes, value: bytes) -> None:
        self.put_many([key], [value])

    def delete(self, key: bytes) -> None:
        self.put_many([key], [None])

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self.largest_call = max(self.largest_call, len(keys))
        self.entries += zip(keys, values, strict=True)

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        self.put_many(keys.to_pylist(), values.to_pylist())


def base_of(workspace: Workspace, registry: StateRegistry, count: int = 10) -> LocalStateCopy:
    """A local copy with a value and two timers for each of some keys, one key group each."""
    writer = workspace.sst()
    with BatchKeyedState(registry, writer, 0) as state:
        for number in range(count):
            state.set_current_key(number, b"k")
            state.value_state("v").update((number,))
            state.register_timer("event", 100 + number)
            state.register_timer("processing", 200 + number)
    return workspace.local_copy(StateManifest(WHOLE, tuple(writer.finish())))


def test_a_group_is_written_as_cells_then_indexes(registry: StateRegistry) -> None:
    """Entries reach the writer in strictly ascending stored order, each timer with its index entry."""
    writer = RecordingWriter()
    with BatchKeyedState(registry, writer, 0) as state:
        for kg, key in [(0, b"a"), (0, b"b"), (3, b"a")]:
            state.set_current_key(kg, key)
            state.register_timer("processing", 8)
            state.register_timer("event", 9 if key == b"a" else 7)
            state.list_state("l").put([(2,)])
            state.value_state("v").update((1,))
    keys = [key for key, _ in writer.entries]
    assert keys == sorted(set(keys))
    assert len(keys) == 3 * (1 + 2 + 2 + 2)
    first_group = [key for key in keys if key.startswith(b"\x00\x00")]
    assert first_group[-4:] == [
        timer_index_key("event", 0, 7, b"b"),
        timer_index_key("event", 0, 9, b"a"),
        timer_index_key("processing", 0, 8, b"a"),
        timer_index_key("processing", 0, 8, b"b"),
    ]
    assert state_key(0, b"a", TIMER_SLOTS["event"], encode_ts(9)) in first_group


@pytest.mark.parametrize("second", [(1, b"b"), (1, b"a"), (0, b"z")])
def test_keys_must_be_strictly_ascending(registry: StateRegistry, second: tuple[int, bytes]) -> None:
    """A key that comes again or too late is an error that names both."""
    state = BatchKeyedState(registry, RecordingWriter(), 0)
    state.set_current_key(1, b"b")
    with pytest.raises(ValueError, match="strictly ascending"):
        state.set_current_key(*second)


def test_only_differences_are_written(workspace: Workspace, registry: StateRegistry) -> None:
    """Over a base, unchanged values write nothing and removed ones write one tombstone."""
    base = base_of(workspace, registry)
    writer = RecordingWriter()
    with BatchKeyedState(registry, writer, 0, base) as state:
        value = state.value_state("v")
        for number in range(5):
            state.set_current_key(number, b"k")
            assert value.get() == (number,)
            value.update((number,))
        state.set_current_key(5, b"k")
        value.get()
        value.clear()
        state.set_current_key(6, b"k")
        value.update((value.get()[0] + 1,))  # type: ignore[index]
        state.set_current_key(7, b"missing")
        assert value.get() is None
        value.clear()
    encode = registry.get("v").row_codec().encode
    assert writer.entries == [(state_key(5, b"k", 0), None), (state_key(6, b"k", 0), encode((7,)))]


def test_forgotten_state_writes_nothing(registry: StateRegistry) -> None:
    """In batch mode a key's state and timers end with the key."""
    writer = RecordingWriter()
    with BatchKeyedState(registry, writer, 0, keep_state=False) as state:
        state.set_current_key(0, b"a")
        state.value_state("v").update((1,))
        state.register_timer("event", 5)
        assert list(state.pop_due_timers("event", 4)) == []
        state.set_current_key(0, b"b")
        assert state.value_state("v").get() is None
    assert writer.entries == []
    assert state.next_timer("event") is None


def test_due_timers_fire_once_in_order_and_see_new_ones(registry: StateRegistry) -> None:
    """Timers registered by a handler fire if due; the one being handled cannot register itself again."""
    writer = RecordingWriter()
    state = BatchKeyedState(registry, writer, 0)
    state.set_current_key(0, b"a")
    for ts_ms in (30, 10, 50):
        state.register_timer("event", ts_ms)
    fired = []
    for ts_ms in state.pop_due_timers("event", 40):
        fired.append(ts_ms)
        state.register_timer("event", ts_ms)
        if ts_ms == 10:
            state.register_timer("event", 20)
            state.register_timer("event", 5)
            state.register_timer("event", 45)
            state.delete_timer("event", 30)
    assert fired == [10, 5, 20]
    assert list(state.list_timers("event")) == [45, 50]
    state.close()
    assert state.next_timer("event") == 45


def test_an_abandoned_walk_keeps_the_timer_at_hand(registry: StateRegistry) -> None:
    """A timer is deleted only when the consumer comes back for the next one."""
    state = BatchKeyedState(registry, RecordingWriter(), 0)
    state.set_current_key(0, b"a")
    state.register_timer("event", 1)
    assert next(state.pop_due_timers("event", 5)) == 1
    assert list(state.list_timers("event")) == [1]


def test_keys_without_rows_are_found_by_their_timers(workspace: Workspace, registry: StateRegistry) -> None:
    """due_keys lists, sorted and once, the keys with a due timer of either kind."""
    base = base_of(workspace, registry)
    assert due_keys(base, 3, 102, 202) == []
    assert due_keys(base, 3, 103, 202) == [b"k"]
    assert due_keys(base, 3, -(2**63), 203) == [b"k"]
    assert due_keys(base, 3, MAX, MAX) == [b"k"]
    assert due_keys(base, 99, MAX, MAX) == []


def test_the_next_timer_is_that_of_the_whole_shard(workspace: Workspace, registry: StateRegistry) -> None:
    """Timers of untouched key groups and keys count, deleted ones do not."""
    base = base_of(workspace, registry)
    state = BatchKeyedState(registry, RecordingWriter(), 0, base)
    for number in (0, 1):
        state.set_current_key(number, b"k")
        assert list(state.pop_due_timers("event", 500)) == [100 + number]
    with pytest.raises(ValueError, match="after close"):
        state.next_timer("event")
    state.close()
    assert state.next_timer("event") == 102
    assert state.next_timer("processing") == 200


def test_large_keys_are_handed_on_in_pieces(registry: StateRegistry) -> None:
    """Neither many keys nor many or large values pile up before they reach the writer."""
    writer = RecordingWriter()
    with BatchKeyedState(registry, writer, 0) as state:
        for number in range(3000):
            state.set_current_key(0, number.to_bytes(4, "big"))
            state.value_state("v").update((number,))
        state.set_current_key(1, b"big")
        state.list_state("l").put([(number,) for number in range(5000)])
        state.set_current_key(1, b"next")
        assert len(writer.entries) >= 3000 + 4000
    assert writer.largest_call <= 1024
