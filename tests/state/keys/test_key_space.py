"""The key space: sections, timer order, parsing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.keys import key_space
from mixedmode.state.keys.keys import KeyCodec

TS = st.integers(-(2**63), 2**63 - 1)
GROUPS = st.integers(0, 32_767)
CODEC = KeyCodec(pa.schema([("k", pa.string())]))
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(lambda text: CODEC.encode((text,)))


@given(st.lists(st.tuples(GROUPS, TS, KEYS), min_size=2, max_size=6))
def test_index_entries_sort_by_group_time_and_key(timers: list[tuple[int, int, bytes]]) -> None:
    """Byte order of index entries is the order of (key group, time, key), before the epoch too."""
    by_bytes = sorted(key_space.timer_index_key("event", kg, ts_ms, key) for kg, ts_ms, key in timers)
    assert [key_space.parse_timer_index(stored) for stored in by_bytes] == sorted(timers)


@given(GROUPS, KEYS, st.integers(0, key_space.MAX_VARIABLE_SLOT), st.binary(max_size=9))
def test_a_cell_key_parses_back(kg: int, key: bytes, slot: int, sub: bytes) -> None:
    """Group, key, slot and sub come back, whatever bytes sub has."""
    stored = key_space.state_key(kg, key, slot, sub)
    assert key_space.parse_state_key(stored, CODEC) == (kg, key, slot, sub)
    assert stored.startswith(key_space.state_prefix(kg, key, slot))


def test_a_key_group_is_one_range_with_cells_before_indexes() -> None:
    """In stored order come the cells of a group, its event timers, its processing timers, the next group."""
    key = CODEC.encode(("\U0010ffff",))
    in_order = [
        key_space.state_key(7, key, 0),
        key_space.state_key(7, key, key_space.TIMER_SLOTS["processing"], key_space.encode_ts(5)),
        key_space.timer_index_key("event", 7, 2**63 - 1, key),
        key_space.timer_index_key("processing", 7, -(2**63), b""),
        key_space.state_key(8, b"", 0),
    ]
    assert sorted(in_order) == in_order


@pytest.mark.parametrize("prefix", [b"a", b"a\xff", b"\x00\xff\xff"])
def test_after_prefix_is_just_beyond(prefix: bytes) -> None:
    """The bound is above everything with the prefix and not above what follows."""
    bound = key_space.after_prefix(prefix)
    assert prefix + b"\xff" * 20 < bound
    assert not bound.startswith(prefix)


def test_a_timer_out_of_range_is_refused() -> None:
    """Timestamps beyond 64 bits do not wrap around."""
    with pytest.raises(OverflowError):
        key_space.encode_ts(2**63)
