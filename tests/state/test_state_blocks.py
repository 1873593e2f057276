"""Blocks of keys are written as their keys would be one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mixedmode.state.backend.blocks import BlockCells, BlockKeys
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.keys.key_space import TIMER_SLOTS, encode_all_ts
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.registry import StateRegistry
from state_support import NUMBER
from test_sorted_pass import RecordingWriter

TIMED: Any = ({0: b"x"}, {1: True, 2: False})
EARLY: Any = ({0: b"x"}, {-2: True, -1: False})
PLAIN: Any = ({0: b"x"}, {})
#: What becomes of one key: its cells by slot (None: deleted), and whether its timers are registered, by their times.
Change = tuple[dict[int, "bytes | None"], dict[int, bool]]
CHANGES = st.tuples(
    st.dictionaries(st.integers(0, 1), st.none() | st.binary(max_size=3)),
    st.just({}) | st.dictionaries(st.integers(-2, 2), st.booleans(), max_size=2),
)
#: Self-delimiting, as encoded keys are: none begins with another one.
ENCODED = st.binary(min_size=1, max_size=2).map(lambda data: bytes([len(data)]) + data)
KEYS = st.dictionaries(st.tuples(st.integers(0, 2), ENCODED), CHANGES, min_size=1, max_size=8)


def registry() -> StateRegistry:
    made = StateRegistry()
    made.declare("v", "value", NUMBER)
    made.declare("w", "value", NUMBER)
    return made


def one_by_one(state: Any, keys: list[tuple[tuple[int, bytes], Change]]) -> None:
    for key, (cells, timers) in keys:
        state.set_current_key(*key)
        for slot, value in cells.items():
            state.changes[bytes([slot])] = value
        for ts_ms, registered in timers.items():
            (state.register_timer if registered else state.delete_timer)("event", ts_ms)


def at_once(state: Any, keys: list[tuple[tuple[int, bytes], Change]]) -> None:
    block = BlockKeys(
        np.array([group for (group, _), _ in keys], dtype=np.int32),
        pa.array([key for (_, key), _ in keys], pa.binary()),
    )
    cells = []
    for slot in (1, 0):
        places = [place for place, (_, (own, _)) in enumerate(keys) if slot in own]
        values = pa.array([keys[place][1][0][slot] for place in places], pa.binary())
        cells.append(BlockCells(bytes([slot]), np.array(places, dtype=np.int64), values))
    timers = [
        (place, ts_ms, b"" if registered else None)
        for place, (_, (_, own)) in enumerate(keys)
        for ts_ms, registered in sorted(own.items())
    ]
    if timers:
        places, times_ms, values = (list(column) for column in zip(*timers, strict=True))
        subs = encode_all_ts(np.array(times_ms, dtype=np.int64))
        values = pa.array(values, pa.binary())
        cells.append(BlockCells(bytes([TIMER_SLOTS["event"]]), np.array(places), values, subs))
    # Nobody begins a block here: keys with due timers come one by one between others of their block.
    state.write_cells(block, cells)


@example(keys={(0, b"a"): TIMED, (0, b"b"): PLAIN, (1, b"a"): PLAIN}, cuts=[(1, True)], fresh=True)
@example(keys={(0, b"a"): TIMED, (0, b"b"): PLAIN, (1, b"a"): PLAIN}, cuts=[(0, False), (1, True)], fresh=True)
@example(keys={(0, b"a"): TIMED, (0, b"b"): PLAIN, (1, b"a"): PLAIN}, cuts=[(0, False), (1, True)], fresh=False)
@example(keys={(0, b"a"): EARLY, (0, b"b"): TIMED, (1, b"a"): TIMED}, cuts=[(1, True)], fresh=True)
@example(keys={(0, b"a"): TIMED, (0, b"b"): EARLY, (1, b"a"): TIMED}, cuts=[(1, True)], fresh=True)
@example(keys={(0, b"a"): EARLY, (0, b"b"): TIMED, (1, b"a"): TIMED}, cuts=[(1, True)], fresh=False)
@given(keys=KEYS, cuts=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=4), fresh=st.booleans())
def test_a_sorted_pass_writes_blocks_as_it_writes_keys(
    keys: dict[tuple[int, bytes], Change], cuts: list[tuple[int, bool]], fresh: bool
) -> None:
    """Entry by entry, in the same order: cells, and behind those of a group its timers, whichever keys come together
    and whichever alone."""
    ordered = sorted(keys.items())

    def entries(parts: list[tuple[list[Any], bool]]) -> list[Any]:
        writer = RecordingWriter()
        state = BatchKeyedState(registry(), writer, 0)
        if not fresh:
            state._base = NoState()  # type: ignore[assignment]
        for part, together in parts:
            (at_once if together and part else one_by_one)(state, part)
        state.close()
        assert state.next_timer("event") == min(
            (ts_ms for _, (_, timers) in ordered for ts_ms, registered in timers.items() if registered), default=None
        )
        return writer.entries

    places = sorted(min(place, len(ordered)) for place, _ in cuts)
    bounds = zip([0, *places], [*places, len(ordered)], [True, *(together for _, together in cuts)], strict=True)
    parts = [(ordered[low:high], together) for low, high, together in bounds]
    found = entries(parts)
    assert found == entries([(ordered, False)])
    assert [name for name, _ in found] == sorted(name for name, _ in found)


class NoState:
    """State from before that nobody reads: what is deleted might be there."""

    key_groups = KeyGroupRange(0, 2)


@given(st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=3))
def test_a_live_epoch_writes_blocks_as_it_writes_keys(
    parts: list[tuple[dict[tuple[int, bytes], Change], bool]],
) -> None:
    """Also keys that come again; what is read in between is what was written."""

    def outcome(together: bool) -> list[Any]:
        writer = RecordingWriter()
        state = RandomAccessKeyedState(registry(), None, KeyGroupRange(0, 2), 0)
        read: list[Any] = []
        for keys, as_block in parts:
            ordered = sorted((key, (cells, {})) for key, (cells, _) in keys.items())
            block = BlockKeys(
                np.array([group for (group, _), _ in ordered], dtype=np.int32),
                pa.array([key for (_, key), _ in ordered], pa.binary()),
            )
            state.begin_block()
            read.append(state.read_cells(block, b"\x00").to_pylist())
            state.end_block()
            (at_once if together and as_block else one_by_one)(state, ordered)
        state.flush(writer)
        return [read, writer.entries]

    assert outcome(True) == outcome(False)


def test_keys_of_a_block_come_after_those_before(workspace: Any) -> None:
    """A block that begins with a key that has been there is refused."""
    state = BatchKeyedState(registry(), RecordingWriter(), 0)
    at_once(state, [((1, b"a"), ({0: b"x"}, {})), ((1, b"c"), ({0: b"x"}, {}))])
    with pytest.raises(ValueError, match="strictly ascending"):
        at_once(state, [((1, b"c"), ({0: b"x"}, {}))])
