"""Values of many keys as columns are what rows of them are."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixedmode.errors import CorruptStateError, StateSchemaError
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.row_columns import RowColumns
from mixedmode.state.codec import byte_arrays
from mixedmode.state.codec.codec import RowCodec
from mixedmode.state.keys.key_space import encode_ts, state_key
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.compaction import dead_entries
from test_keys import VALUES


@given(st.data())
def test_columns_of_values_are_the_same_bytes_as_rows(data: st.DataObject) -> None:
    """For every type that has such a form, nulls and values of older schemas included."""
    flat = [one for one in VALUES if not pa.types.is_nested(one)]
    types = data.draw(st.lists(st.sampled_from(flat), min_size=1, max_size=3))
    schema = pa.schema([(f"c{i}", data_type) for i, data_type in enumerate(types)])
    a_row = st.tuples(*[st.none() | VALUES[data_type] for data_type in types])
    codec = RowCodec(schema)
    stored = [codec.encode(row) for row in data.draw(st.lists(a_row, max_size=4))]
    columns = RowColumns(codec, "state")
    found = columns.decode(pa.array([*stored, None], pa.binary()))
    assert found.is_null().to_pylist() == [*[False] * len(stored), True]
    parts = [found.slice(0, len(stored)).field(i) for i in range(len(types))]
    assert columns.encode(parts).to_pylist() == stored
    older = RowCodec(pa.schema([*schema, ("new", pa.int64())]), [schema])
    decoded = RowColumns(older, "state").decode(pa.array(stored, pa.binary()))
    assert decoded.field("new").null_count == len(stored)
    assert columns.encode([decoded.field(i) for i in range(len(types))]).to_pylist() == stored


def test_values_with_lists_inside_have_no_columns() -> None:
    """The error names the field, and says what to do."""
    codec = RowCodec(pa.schema([("tags", pa.list_(pa.string()))]))
    with pytest.raises(StateSchemaError, match=r"(?s)'tags' of state 'seen' is list.*handleInputRows"):
        RowColumns(codec, "seen")


#: Where the form of a number changes, or that of a length.
EDGES = [
    0,
    *(edge + by for bits in (5, 7, 8, 15, 16, 31, 32, 63) for edge in (2**bits, -(2**bits)) for by in (-1, 0, 1)),
]


def by_column(rows: list[tuple[Any, ...]], codec: RowCodec) -> Iterator[tuple[tuple[Any, ...], pa.Field]]:
    """The values of each field."""
    return zip(zip(*rows, strict=True), codec.schema, strict=True)


def test_numbers_take_the_shortest_form_on_both_sides_of_its_bounds() -> None:
    """Each alone, where all of a column are of one form, and all together, also with nulls between."""
    codec = RowCodec(pa.schema([("before", pa.int64()), ("n", pa.int64()), ("behind", pa.float64())]))
    columns = RowColumns(codec, "state")
    rows = [(edge, edge, float(edge)) for edge in EDGES if -(2**63) <= edge < 2**63]
    for some in [*([row] for row in rows), rows, [*rows, (None, 1, None), (2**40, None, 0.5)]]:
        stored = columns.encode([pa.array(column, field.type) for column, field in by_column(some, codec)])
        assert stored.to_pylist() == [codec.encode(row) for row in some]
        assert [tuple(row.values()) for row in columns.decode(stored).to_pylist()] == some


@pytest.mark.parametrize("length", [0, 1, 31, 32, 255, 256, 65_535, 65_536, 70_000])
def test_strings_and_bytes_of_any_length_are_what_rows_have(length: int) -> None:
    """On both sides of where the form of their length changes, behind one another and beside short ones."""
    codec = RowCodec(pa.schema([("text", pa.string()), ("data", pa.binary()), ("n", pa.int8())]))
    columns = RowColumns(codec, "state")
    rows = [("é" * (length // 2) + "x" * (length % 2), bytes(length), 5), ("", b"a", None), (None, None, -7)]
    stored = columns.encode([pa.array(column, field.type) for column, field in by_column(rows, codec)])
    assert stored.to_pylist() == [codec.encode(row) for row in rows]
    assert [tuple(row.values()) for row in columns.decode(stored.slice(1)).to_pylist()] == rows[1:]
    assert [tuple(row.values()) for row in columns.decode(stored).to_pylist()] == rows


def test_many_fields_are_counted_as_rows_count_them() -> None:
    """From sixteen on the count has another form."""
    for count in (15, 16, 40):
        codec = RowCodec(pa.schema([(f"c{i}", pa.int32()) for i in range(count)]))
        columns = RowColumns(codec, "state")
        stored = columns.encode([pa.array([i, -i], pa.int32()) for i in range(count)])
        assert stored.to_pylist() == [codec.encode(tuple(range(count))), codec.encode(tuple(-i for i in range(count)))]
        assert columns.decode(stored).field(count - 1).to_pylist() == [count - 1, 1 - count]


DAMAGED = pa.schema(
    [
        pa.field("n", pa.int16(), nullable=False),
        ("text", pa.string()),
        ("x", pa.float64()),
        ("cents", pa.decimal128(9, 2)),
        ("ok", pa.bool_()),
        ("data", pa.binary()),
    ]
)


@settings(max_examples=300)
@given(
    row=st.tuples(
        st.integers(-(2**15), 2**15 - 1),
        st.none() | st.text(max_size=40),
        st.none() | st.floats(allow_nan=False),
        st.none() | st.decimals("-9999999.99", "9999999.99", places=2),
        st.none() | st.booleans(),
        st.none() | st.binary(max_size=40),
    ),
    cut=st.none() | st.integers(0, 60),
    place=st.integers(0, 60),
    byte=st.integers(0, 255),
)
@example((0, None, None, Decimal("0.10"), None, b""), None, 6, ord("."))
@example((0, None, None, Decimal("0.10"), None, b""), None, 6, ord("+"))
@example((0, None, None, Decimal("1.23"), None, b""), None, 7, ord("e"))
def test_what_is_damaged_is_an_error_where_it_is_one_of_rows(
    row: tuple[Any, ...], cut: int | None, place: int, byte: int
) -> None:
    """Bytes changed, left away or added: columns read what rows read, and refuse what rows refuse."""
    codec = RowCodec(DAMAGED)
    whole = codec.encode(row)
    place %= len(whole)
    changed = whole[:place] + bytes([byte]) + whole[place + 1 :]
    changed = changed[:cut] if cut is not None and cut < len(changed) else changed + bytes(cut or 0)
    stored = pa.array([whole, None, changed, whole], pa.binary())
    try:
        expected = codec.decode(changed)
        codec.encode(expected)  # numbers of more digits than there may be are read there, and could not be written
    except (CorruptStateError, StateSchemaError):
        with pytest.raises(CorruptStateError):
            RowColumns(codec, "state").decode(stored)
        return
    found = RowColumns(codec, "state").decode(stored).to_pylist()
    assert found[1] is None
    assert [codec.encode(tuple(found[at].values())) for at in (0, 2, 3)] == [whole, codec.encode(expected), whole]


def test_what_has_expired_is_null() -> None:
    """By the time that is asked for, value by value; what is written lives from its own time on."""
    codec = RowCodec(pa.schema([("n", pa.int64())]))
    columns = RowColumns(codec, "state", ttl_ms=10)
    stored = pa.concat_arrays(
        [columns.encode([pa.array([number])], now_ms) for number, now_ms in [(1, 0), (200, 5), (3, -20), (4, 2**63)]]
    )
    assert stored[0].as_py() == encode_ts(10) + codec.encode((1,))
    with_null = pa.concat_arrays([stored.slice(0, 2), pa.nulls(1, pa.binary()), stored.slice(2)])
    assert columns.decode(with_null, 9).field("n").to_pylist() == [1, 200, None, None, 4]
    assert columns.decode(with_null, 10).field("n").to_pylist() == [None, 200, None, None, 4]
    assert columns.decode(with_null.slice(0, 4), 15).null_count == 4


@pytest.mark.parametrize("size", range(8))
def test_a_value_too_short_for_its_time_to_live_is_damaged(size: int) -> None:
    """It has not expired: columns say so as rows do, as does what removes expired values."""
    registry = StateRegistry()
    item = registry.declare("state", "value", pa.schema([("n", pa.int64())]), ttl_ms=10)
    columns = RowColumns(item.row_codec(), "state", item.ttl_ms)
    short = encode_ts(99)[:size]
    whole = columns.encode([pa.array([1])], 0)
    for stored in ([short], [whole[0].as_py(), short], [short, None, whole[0].as_py()]):
        with pytest.raises(CorruptStateError, match=f"has {size} bytes"):
            columns.decode(pa.array(stored, pa.binary()))
    state = RandomAccessKeyedState(registry, None, KeyGroupRange(0, 2), 0)
    state.set_current_key(1, b"k")
    state.write_cell(bytes([item.slot]), short)
    for read in (state.value_state("state").get, state.value_state("state").exists):
        with pytest.raises(CorruptStateError, match=f"has {size} bytes"):
            read()
    keys = KeyCodec(pa.schema([("k", pa.int64())]))
    is_dead = dead_entries(registry, keys, 0)
    cell = state_key(1, keys.encode((5,)), item.slot)
    assert is_dead(cell, encode_ts(0)) and not is_dead(cell, whole[0].as_py())
    with pytest.raises(CorruptStateError, match=f"has {size} bytes"):
        is_dead(cell, short)


def test_more_than_an_array_holds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is read or written."""
    columns = RowColumns(RowCodec(pa.schema([("text", pa.string())])), "state")
    texts = pa.array(["x" * 40, "x" * 50])
    stored = columns.encode([texts])
    monkeypatch.setattr(byte_arrays, "MOST_BYTES", stored.nbytes - 20)
    with pytest.raises(StateSchemaError, match="values of 2 keys for state 'state' are too large"):
        columns.encode([texts])
    with pytest.raises(pa.lib.ArrowCapacityError, match="one binary array holds"):
        byte_arrays.array_of([*stored.to_pylist(), None])
    assert byte_arrays.array_of([*stored.to_pylist()[:1], None]).to_pylist() == [*stored.to_pylist()[:1], None]
