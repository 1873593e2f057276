"""Reading a shard's state key by key: the same values and timers that a running processor would find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.reader import ShardView, StoredKeyCells
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.state_manifest import StateManifest
from state_support import NUMBER, Workspace

GROUPS = KeyGroupRange(2, 5)
CODEC = KeyCodec(pa.schema([("k", pa.string())]))
#: Keys of which one is the beginning of another, over several groups.
KEYS = {"": 2, "a": 2, "a\x00": 3, "ab": 5}


@pytest.fixture
def registry() -> StateRegistry:
    made = StateRegistry()
    made.declare("v", "value", NUMBER)
    made.declare("l", "list", NUMBER, ttl_ms=10)
    made.declare("m", "map", NUMBER, NUMBER)
    return made


@pytest.fixture
def views(tmp_path: Path, registry: StateRegistry) -> Any:
    """Makes views of a shard in which every key holds its length in everything, and timers at it."""
    space = Workspace(tmp_path)
    manifest = StateManifest(GROUPS)
    for epoch, now_ms in ((1, 100), (2, 105)):
        state = RandomAccessKeyedState(registry, space.local_copy(manifest) if manifest.files else None, GROUPS, now_ms)
        for key, group in KEYS.items():
            state.set_current_key(group, CODEC.encode((key,)))
            state.value_state("v").update((len(key),))
            state.list_state("l").appendValue((epoch,))
            state.map_state("m").updateValue((-epoch,), (len(key),))
            state.register_timer("event", 1000 * epoch + len(key))
        writer = space.log(epoch)
        state.flush(writer)
        manifest = manifest.append(writer.finish())

    def make(now_ms: int = 0, only: tuple[int, bytes] | None = None) -> ShardView:
        return ShardView(space.local_copy(manifest), GROUPS, CODEC, now_ms, only)

    yield make
    space.cache.close()


def encoded(key: str) -> bytes:
    return CODEC.encode((key,))


def test_every_kind_is_read(views: Any, registry: StateRegistry) -> None:
    """Rows come by key group and key: values, positions with elements, user keys with values."""
    view = views()
    assert [(key, row) for key, row, _ in view.rows(registry.get("v"))] == [
        (encoded(key), ((len(key),),)) for key in KEYS
    ]
    assert [(key, row) for key, row, _ in view.rows(registry.get("l"))] == [
        (encoded(key), (place, ((place + 1,), 110 + 5 * place))) for key in KEYS for place in (0, 1)
    ]
    assert [(key, row) for key, row, _ in view.rows(registry.get("m"))] == [
        (encoded(key), ((number,), (len(key),))) for key in KEYS for number in (-2, -1)
    ]


def test_timers_come_by_group_and_time(views: Any) -> None:
    """All pending timers of a kind, none of the other."""
    assert list(views().timers("event")) == [
        *[(encoded(""), 1000), (encoded("a"), 1001), (encoded(""), 2000), (encoded("a"), 2001)],
        *[(encoded("a\x00"), 1002), (encoded("a\x00"), 2002), (encoded("ab"), 1002), (encoded("ab"), 2002)],
    ]
    assert list(views().timers("processing")) == []


def test_one_key_alone(views: Any, registry: StateRegistry) -> None:
    """Of the whole shard only the key that is asked for, and not one that begins as it does; a stranger has nothing."""
    view = views(only=(2, encoded("a")))
    assert [key for key, _, _ in view.rows(registry.get("m"))] == [encoded("a")] * 2
    assert list(view.timers("event")) == [(encoded("a"), 1001), (encoded("a"), 2001)]
    stranger = views(only=(2, encoded("b")))
    assert list(stranger.rows(registry.get("v"))) == list(stranger.timers("event")) == []


def test_what_has_expired_is_not_there(views: Any, registry: StateRegistry) -> None:
    """An element is shown until its time is up; the ones that are left move up."""
    assert [row for _, row, _ in views(now_ms=109, only=(5, encoded("ab"))).rows(registry.get("l"))] == [
        (0, ((1,), 110)),
        (1, ((2,), 115)),
    ]
    after = views(now_ms=110, only=(5, encoded("ab")))
    assert [row for _, row, _ in after.rows(registry.get("l"))] == [(0, ((2,), 115))]
    assert list(views(now_ms=115).rows(registry.get("l"))) == []


def test_what_is_read_cannot_be_changed() -> None:
    """The reader's cells refuse writes: a checkpoint stays what it is."""
    cells = StoredKeyCells()
    with pytest.raises(TypeError, match="cannot be changed"):
        cells.write_cell(b"\x00", b"")
    with pytest.raises(TypeError, match="cannot be changed"):
        cells.delete_cell(b"\x00")
