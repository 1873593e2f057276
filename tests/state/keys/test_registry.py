"""Declarations of state variables and their evolution."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from mixedmode.errors import CheckpointError, StateSchemaError
from mixedmode.state.keys.registry import StateRegistry

NUMBER = pa.schema([("n", pa.int64())])
TEXT = pa.schema([("s", pa.string())])


def registry(**schemas: pa.Schema) -> StateRegistry:
    """A registry of value states."""
    made = StateRegistry()
    for name, schema in schemas.items():
        made.declare(name, "value", schema)
    return made


def test_slots_follow_the_order_of_declaration() -> None:
    """Each variable has its own slot, and declaring it again the same way changes nothing."""
    made = registry(a=NUMBER, b=TEXT)
    assert [(item.name, item.slot) for item in made] == [("a", 0), ("b", 1)]
    assert made.declare("a", "value", NUMBER) is made.get("a")
    assert len(made) == 2


def test_declaring_a_name_differently_is_an_error() -> None:
    """The error spells out the difference."""
    made = registry(a=NUMBER)
    with pytest.raises(StateSchemaError, match=r"value schema \(n int64\) became \(s string\)"):
        made.declare("a", "value", TEXT)
    with pytest.raises(StateSchemaError, match="kind 'value' became 'list'"):
        made.declare("a", "list", NUMBER)
    with pytest.raises(StateSchemaError, match="ttl None ms became 5 ms"):
        made.declare("a", "value", NUMBER, ttl_ms=5)


def test_bad_declarations_are_refused_at_once() -> None:
    """Kinds, map keys, TTLs and types are checked when declared."""
    made = StateRegistry()
    with pytest.raises(StateSchemaError, match="allowed are value, list, map"):
        made.declare("a", "set", NUMBER)
    with pytest.raises(StateSchemaError, match="user key schema"):
        made.declare("a", "map", NUMBER)
    with pytest.raises(StateSchemaError, match="ttl_ms=0"):
        made.declare("a", "value", NUMBER, ttl_ms=0)
    with pytest.raises(StateSchemaError, match="'x' has type month_day_nano_interval"):
        made.declare("a", "value", pa.schema([("x", pa.month_day_nano_interval())]))
    with pytest.raises(StateSchemaError, match="is a map"):
        made.declare("a", "map", NUMBER, pa.schema([("k", pa.map_(pa.int8(), pa.int8()))]))
    assert len(made) == 0


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A typo is easy to see."""
    with pytest.raises(StateSchemaError, match="'countt' is not declared; declared are: 'count'"):
        registry(count=NUMBER).get("countt")


def test_json_and_pickle_keep_everything() -> None:
    """A registry survives both, with histories and retired slots."""
    made = StateRegistry()
    made.declare("m", "map", pa.schema([("x", pa.list_(pa.decimal128(9, 2)))]), TEXT, ttl_ms=7)
    made.declare("gone", "value", NUMBER)
    changed = StateRegistry()
    changed.declare("m", "map", pa.schema([("x", pa.list_(pa.decimal128(9, 2))), ("y", pa.int8())]), TEXT, ttl_ms=8)
    evolved = changed.evolve(made)
    assert StateRegistry.from_json(json.loads(json.dumps(evolved.to_json()))) == evolved
    assert pickle.loads(pickle.dumps(evolved)) == evolved
    assert evolved.retired_slots == {"gone#0": 1}
    with pytest.raises(CheckpointError, match="format 99"):
        StateRegistry.from_json({**evolved.to_json(), "format": 99})


def test_a_variable_keeps_its_slot_and_old_slots_are_never_given_again() -> None:
    """Removing, adding and re-adding variables never lets one read another's cells."""
    evolved = registry(c=NUMBER, b=TEXT).evolve(registry(a=NUMBER, b=TEXT))
    assert {item.name: item.slot for item in evolved} == {"b": 1, "c": 2}
    again = registry(a=NUMBER, c=NUMBER).evolve(evolved)
    assert {item.name: item.slot for item in again} == {"a": 3, "c": 2}
    assert sorted(again.retired_slots.values()) == [0, 1]


def test_nullable_fields_come_and_go() -> None:
    """Values written by every version are read by the newest."""
    wide = pa.schema([("n", pa.int64()), ("s", pa.string())])
    first = registry(v=NUMBER)
    second = registry(v=wide).evolve(first)
    third = registry(v=TEXT).evolve(second)
    codec = third.get("v").row_codec()
    assert codec.decode(first.get("v").row_codec().encode((5,))) == (None,)
    assert codec.decode(second.get("v").row_codec().encode((5, "x"))) == ("x",)
    assert codec.decode(codec.encode(("y",))) == ("y",)
    assert third.get("v").history == (NUMBER, wide)


def test_a_field_that_comes_back_is_a_new_one() -> None:
    """Values of before its removal do not come back under its name, whatever type it has now."""
    wide = pa.schema([("n", pa.int64()), ("s", pa.string())])
    first = registry(v=wide)
    second = registry(v=NUMBER).evolve(first)
    third = registry(v=pa.schema([("n", pa.int64()), ("s", pa.int64())])).evolve(second)
    codec = third.get("v").row_codec()
    assert codec.decode(first.get("v").row_codec().encode((5, "x"))) == (5, None)
    assert codec.decode(second.get("v").row_codec().encode((6,))) == (6, None)
    assert codec.decode(codec.encode((7, 8))) == (7, 8)


def test_changes_are_told_in_words() -> None:
    """Whoever restarts a changed program can read what becomes of its state, above all what is dropped."""
    wide = pa.schema([("n", pa.int64()), ("s", pa.string())])
    renamed = pa.schema([("m", pa.int64()), ("s", pa.string())])
    assert registry(v=wide).changes_since(registry(v=wide)) == []
    assert registry(v=renamed, w=TEXT).changes_since(registry(v=wide, gone=TEXT)) == [
        "state 'gone' is not declared any more: what it held is dropped",
        "state 'v' lost field 'n' (int64): its stored values are dropped",
        "state 'v' gained field 'm' (int64): None in older values",
        "state 'v': a field that was renamed counts as lost and gained; its values are not taken over",
        "state 'w' is new",
    ]
    (reordered,) = registry(v=pa.schema([wide.field(1), wide.field(0)])).changes_since(registry(v=wide))
    assert "values go by name" in reordered
    old, new = StateRegistry(), StateRegistry()
    old.declare("v", "value", NUMBER, ttl_ms=5)
    new.declare("v", "value", NUMBER, ttl_ms=9)
    assert new.changes_since(old) == ["state 'v': ttl 5 ms became 9 ms for values written from now on"]


def test_an_unchanged_program_evolves_into_the_stored_registry() -> None:
    """Nothing changes if nothing changed."""
    stored = registry(v=TEXT).evolve(registry(v=NUMBER, w=TEXT))
    assert registry(v=TEXT).evolve(stored) == stored


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        (pa.schema([("n", pa.int32())]), "field 'n' changed from int64 to int32"),
        (pa.schema([("n", pa.int64()), pa.field("x", pa.int8(), nullable=False)]), "'x' was added but is not nullable"),
        (pa.schema([pa.field("n", pa.int64(), nullable=False)]), "'n' was nullable and is no longer"),
    ],
)
def test_other_changes_are_spelled_out(new: pa.Schema, difference: str) -> None:
    """A change that stored values cannot follow is refused with the variable and the difference."""
    with pytest.raises(StateSchemaError, match=f"state 'v' cannot take over.*{difference}"):
        registry(v=new).evolve(registry(v=NUMBER))


def test_kind_key_and_ttl_cannot_change() -> None:
    """All differences are named at once."""
    old, new = StateRegistry(), StateRegistry()
    old.declare("m", "map", NUMBER, TEXT)
    new.declare("m", "map", NUMBER, NUMBER, ttl_ms=5)
    with pytest.raises(StateSchemaError, match=r"user key schema \(s string\) became \(n int64\); ttl None ms"):
        new.evolve(old)
    with pytest.raises(StateSchemaError, match="kind 'map' became 'value'"):
        registry(m=NUMBER).evolve(old)
