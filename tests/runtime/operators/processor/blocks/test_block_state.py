"""Blocks of keys end where the state that they load passes a budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import StateSchemaError
from mixedmode.runtime.operators.columnar.key_batches import KeyRows
from mixedmode.runtime.operators.processor.blocks import block_state
from mixedmode.runtime.operators.processor.blocks.block_state import BlockState
from mixedmode.state.backend.blocks import BlockKeys
from mixedmode.state.codec.byte_arrays import array_of
from mixedmode.state.keys.registry import StateRegistry

_BUDGET = 1_000


class Stored:
    """State from before, by suffix and key; remembers what was read of it."""

    has_base = True

    def __init__(self, **cells: list[bytes | None]) -> None:
        self.registry = StateRegistry()
        self.registry.declare("count", "value", pa.schema([pa.field("n", pa.int64())]))
        self.registry.declare("log", "list", pa.schema([pa.field("text", pa.string())]))
        self.registry.declare("tags", "value", pa.schema([pa.field("list", pa.list_(pa.string()))]))
        for name in cells:
            self.registry.declare(name, "value", pa.schema([pa.field("n", pa.int64()), pa.field("text", pa.string())]))
        self._cells = {bytes([self.registry.get(name).slot]): values for name, values in cells.items()}
        self.read_bytes = 0

    def begin_block(self) -> None:
        pass

    def read_cells(self, keys: BlockKeys, suffix: bytes) -> pa.BinaryArray:
        found = [self._cells[suffix][int.from_bytes(key, "big")] for key in keys.keys.to_pylist()]
        self.read_bytes += sum(len(value) for value in found if value is not None)
        return array_of(found)


def piece_of(keys: int, rows_each: int = 2) -> KeyRows:
    """Some keys with their rows, which say of which key they are."""
    numbers = np.repeat(np.arange(keys), rows_each)
    batch = pa.record_batch({"key": pa.array(numbers)})
    encoded = pa.array([number.to_bytes(2, "big") for number in range(keys)], pa.binary())
    return KeyRows(batch, numbers.astype(np.int32) // 7, encoded, np.arange(keys) * rows_each)


def blocks_of(stored: Any, piece: KeyRows) -> list[tuple[KeyRows, dict[bytes, pa.BinaryArray]]]:
    return list(BlockState(stored).blocks(piece))


@given(
    sizes=st.lists(st.tuples(*[st.none() | st.integers(0, 700) | st.just(2_000)] * 2), min_size=1, max_size=300),
    rows_each=st.integers(1, 3),
)
def test_a_block_loads_no_more_than_its_budget(sizes: list[tuple[int | None, int | None]], rows_each: int) -> None:
    """But for one key that has more alone; together the blocks have all keys, with their rows and what is stored."""
    made = [[None if size is None else b"x" * size for size in one] for one in zip(*sizes, strict=True)]
    stored, piece = Stored(text=made[0], page=made[1]), piece_of(len(sizes), rows_each)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_state, "_BUDGET_BYTES", _BUDGET)
        blocks = blocks_of(stored, piece)
    slots = [bytes([stored.registry.get(name).slot]) for name in ("text", "page")]
    for part, read in blocks:
        loaded = sum(len(value) for array in read.values() for value in array.to_pylist() if value is not None)
        assert loaded <= _BUDGET or len(part.keys) == 1
        assert (
            part.batch["key"].to_pylist()
            == np.repeat([int.from_bytes(key, "big") for key in part.keys.to_pylist()], rows_each).tolist()
        )
        assert part.starts.tolist() == list(range(0, part.batch.num_rows, rows_each))
        assert part.groups.tolist() == [key // 7 for key in part.batch["key"].to_pylist()]
    assert [key for part, _ in blocks for key in part.keys.to_pylist()] == piece.keys.to_pylist()
    for slot, values in zip(slots, made, strict=True):
        assert [value for _, read in blocks for value in read[slot].to_pylist()] == values


def test_little_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many keys are read at a time follows what the ones before have taken."""
    monkeypatch.setattr(block_state, "_BUDGET_BYTES", _BUDGET)
    values: list[bytes | None] = [b"x" * 90] * 500
    stored = Stored(text=values)
    blocks = blocks_of(stored, piece_of(500))
    assert {len(part.keys) for part, _ in blocks[:-1]} == {11}
    assert stored.read_bytes < 1.05 * 500 * 90


def test_small_values_are_read_when_they_are_asked_for() -> None:
    """Numbers, and what a block has no columns for, are not read ahead; nothing is where there is no state."""
    piece = piece_of(10)
    ((part, read),) = blocks_of(Stored(), piece)
    assert part is piece and read == {}
    fresh = Stored(text=[b"x"] * 10)
    fresh.has_base = False
    ((part, read),) = blocks_of(fresh, piece)
    assert part is piece and read == {}


def test_what_fits_no_array_is_told_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys before it are handled, as are several that do not fit one array together."""
    monkeypatch.setattr("mixedmode.state.codec.byte_arrays.MOST_BYTES", 100)
    sizes = [60, 60, 60, 101, 1]
    blocks = BlockState(Stored(text=[b"x" * size for size in sizes])).blocks(piece_of(5))  # type: ignore[arg-type]
    monkeypatch.setattr(block_state, "_BUDGET_BYTES", 100)
    assert [len(next(blocks)[0].keys) for _ in range(3)] == [1, 1, 1]
    with pytest.raises(StateSchemaError, match=r"'text' .* encoded 0003\) is too large for handleArrowRows: 101 bytes"):
        next(blocks)
