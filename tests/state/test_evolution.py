"""State of several schema versions side by side: read, changed and compacted together, in both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.state.backend.keyed import KeyedState
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.reader import ShardView
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.compaction import compact, dead_entries
from mixedmode.state.store.state_manifest import StateManifest
from state_support import Workspace

GROUPS = KeyGroupRange(0, 0)
CODEC = KeyCodec(pa.schema([("k", pa.int64())]))
USER_KEY = pa.schema([("u", pa.int8())])
FIELDS = ("a", "b", "c")
SCHEMAS = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True)
#: One life of a program: its fields, its style, the keys it writes, whether all is compacted at its end.
LIVES = st.lists(
    st.tuples(SCHEMAS, st.booleans(), st.lists(st.integers(0, 4), unique=True, max_size=4), st.booleans()),
    min_size=1,
    max_size=5,
)


def declared(fields: list[str]) -> StateRegistry:
    """A program with one variable of each kind over the same fields."""
    made = StateRegistry()
    schema = pa.schema([(name, pa.int64()) for name in fields])
    made.declare("v", "value", schema)
    made.declare("l", "list", schema)
    made.declare("m", "map", schema, USER_KEY)
    return made


def write(state: KeyedState, key: int, row: tuple[int, ...]) -> None:
    state.set_current_key(0, CODEC.encode((key,)))
    state.value_state("v").update(row)
    state.list_state("l").appendValue(row)
    state.map_state("m").updateValue((row[0] % 3,), row)


def view(space: Workspace, manifest: StateManifest) -> ShardView:
    return ShardView(space.local_copy(manifest), GROUPS, CODEC, 0)


@given(LIVES)
@settings(max_examples=25)
def test_any_history_of_fields_reads_like_a_dict(tmp_path_factory: Any, lives: list[Any]) -> None:
    """Fields come and go in any order over sorted and random epochs: a value has what was written and never removed."""
    space = Workspace(tmp_path_factory.mktemp("evolution"))
    manifest, registry = StateManifest(GROUPS), None
    values: dict[int, dict[str, Any]] = {}
    lists: dict[int, list[dict[str, Any]]] = {}
    maps: dict[tuple[int, int], dict[str, Any]] = {}
    for number, (fields, in_order, keys, compacted) in enumerate(lives):
        registry = declared(fields) if registry is None else declared(fields).evolve(registry)
        for row in (*values.values(), *(row for rows in lists.values() for row in rows), *maps.values()):
            for gone in row.keys() - set(fields):
                del row[gone]
        base = space.local_copy(manifest) if manifest.files else None
        writer: Any = space.sst(number) if in_order else space.log(number)
        state: Any = (
            BatchKeyedState(registry, writer, 0, base)
            if in_order
            else RandomAccessKeyedState(registry, base, GROUPS, 0)
        )
        for key in sorted(keys):
            row = {name: 100 * number + 10 * key + place for place, name in enumerate(fields)}
            write(state, key, tuple(row.values()))
            values[key] = dict(row)
            lists.setdefault(key, []).append(dict(row))
            maps[key, row[fields[0]] % 3] = dict(row)
        if in_order:
            state.close()
        else:
            state.flush(writer)
        manifest = manifest.append(writer.finish())
        if compacted and manifest.files:
            dead = dead_entries(registry, CODEC, 0)
            local_copy = space.local_copy(manifest)
            manifest = compact(
                manifest, local_copy, space.filesystem, space.pool, space.local, f"c{number}", kind="full", is_dead=dead
            )
        if not manifest.files:
            continue

        def full(row: dict[str, Any], fields: list[str] = fields) -> tuple[Any, ...]:
            return tuple(row.get(name) for name in fields)

        found = view(space, manifest)
        assert {key: row[0] for key, row, _ in found.rows(registry.get("v"))} == {
            CODEC.encode((key,)): full(row) for key, row in values.items()
        }
        assert [(key, *row) for key, row, _ in found.rows(registry.get("l"))] == [
            (CODEC.encode((key,)), place, full(row)) for key in sorted(lists) for place, row in enumerate(lists[key])
        ]
        assert {(key, *row[0]): row[1] for key, row, _ in found.rows(registry.get("m"))} == {
            (CODEC.encode((key,)), user_key): full(row) for (key, user_key), row in maps.items()
        }
    space.cache.close()


def test_a_variable_of_a_reused_name_starts_empty(tmp_path: Path) -> None:
    """A variable that was removed and is declared again, as another kind too, does not see what it once held."""
    space = Workspace(tmp_path)
    first = declared(["a"])
    writer = space.log(1)
    state = RandomAccessKeyedState(first, None, GROUPS, 0)
    write(state, 1, (5,))
    state.flush(writer)
    manifest = StateManifest(GROUPS).append(writer.finish())
    empty = StateRegistry().evolve(first)
    again = StateRegistry()
    again.declare("v", "list", pa.schema([("a", pa.string())]))
    evolved = again.evolve(empty)
    assert list(view(space, manifest).rows(evolved.get("v"))) == []
    smaller = compact(
        manifest,
        space.local_copy(manifest),
        space.filesystem,
        space.pool,
        space.local,
        "c",
        kind="full",
        is_dead=dead_entries(evolved, CODEC, 0),
    )
    assert sum(file.entries for file in smaller.files) == 0, "what removed variables held is gone from the files"
    space.cache.close()
