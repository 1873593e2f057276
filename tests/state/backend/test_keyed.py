"""What both backends have in common: PySpark's conventions, TTL, timers and errors."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest
from mixedmode.errors import PlanError, StateSchemaError
from mixedmode.state.backend.keyed import KeyedState
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.backend.variables import ListState, MapState, ValueState
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.local_copy import LocalStateCopy
from mixedmode.state.store.state_manifest import StateManifest
from state_support import NUMBER, WHOLE, Workspace

KEY = b"\x01key"
Make = Callable[..., KeyedState]


@pytest.fixture
def registry() -> StateRegistry:
    """A variable of each kind."""
    made = StateRegistry()
    made.declare("value", "value", pa.schema([("n", pa.int64()), ("s", pa.string())]))
    made.declare("list", "list", NUMBER)
    made.declare("map", "map", NUMBER, pa.schema([("k", pa.string())]))
    made.declare("expiring", "value", NUMBER, ttl_ms=10)
    made.declare("expiring_list", "list", NUMBER, ttl_ms=10)
    return made


@pytest.fixture(params=["sorted pass", "random access"])
def make(request: pytest.FixtureRequest, registry: StateRegistry, workspace: Workspace) -> Make:
    """Builds a state of either backend, its key set unless asked otherwise."""

    def build(base: LocalStateCopy | None = None, now_ms: int = 0, keyed: bool = True) -> KeyedState:
        state: KeyedState
        if request.param == "sorted pass":
            state = BatchKeyedState(registry, workspace.sst(), now_ms, base)
        else:
            state = RandomAccessKeyedState(registry, base, WHOLE, now_ms)
        if keyed:
            state.set_current_key(5, KEY)
        return state

    return build


def saved(workspace: Workspace, registry: StateRegistry, fill: Callable[[KeyedState], None]) -> LocalStateCopy:
    """A local copy that holds what ``fill`` wrote for the key at time 0."""
    writer = workspace.sst()
    with BatchKeyedState(registry, writer, 0) as state:
        state.set_current_key(5, KEY)
        fill(state)
    return workspace.local_copy(StateManifest(WHOLE, tuple(writer.finish())))


@pytest.mark.parametrize(
    ("ours", "theirs"), [(ValueState, "ValueState"), (ListState, "ListState"), (MapState, "MapState")]
)
def test_methods_and_arguments_are_pysparks(ours: type, theirs: str) -> None:
    """Every public method of PySpark's class exists with the same parameter names."""
    module = pytest.importorskip("pyspark.sql.streaming.stateful_processor")

    def methods(kind: type) -> dict[str, list[str]]:
        public = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(f).parameters) for name, f in public if not name.startswith("_")}

    assert methods(ours) == methods(getattr(module, theirs))


def test_a_new_key_has_nothing(make: Make) -> None:
    """Absence is False, None and empty iterators."""
    state = make()
    assert state.value_state("value").get() is None
    assert not state.value_state("value").exists()
    assert not state.list_state("list").exists()
    assert list(state.list_state("list").get()) == []
    assert not state.map_state("map").exists()
    assert state.map_state("map").getValue(("a",)) is None
    assert list(state.list_timers("event")) == []


def test_values_are_tuples(make: Make) -> None:
    """What is read is a tuple whatever sequence was written, and clear removes it."""
    value = make().value_state("value")
    value.update([1, None])
    assert value.get() == (1, None)
    assert type(value.get()) is tuple
    value.clear()
    assert not value.exists()


def test_list_methods_take_lists_and_refuse_empty_ones(make: Make) -> None:
    """put replaces, append extends; an empty or missing list is an error as in stock Spark."""
    items = make().list_state("list")
    items.put([(3,), (1,)])
    items.appendValue((2,))
    items.appendList(iter([(9,), (8,)]))  # type: ignore[arg-type]
    assert list(items.get()) == [(3,), (1,), (2,), (9,), (8,)]
    items.put([(7,)])
    assert list(items.get()) == [(7,)]
    for refused in ([], None, "ab"):
        with pytest.raises(StateSchemaError, match="list state 'list' got"):
            items.put(refused)  # type: ignore[arg-type]
        with pytest.raises(StateSchemaError, match="list state 'list' got"):
            items.appendList(refused)  # type: ignore[arg-type]
    with pytest.raises(StateSchemaError):
        items.appendValue(None)  # type: ignore[arg-type]
    assert list(items.get()) == [(7,)]


def test_a_refused_list_changes_nothing(make: Make) -> None:
    """One bad element leaves the whole list as it was."""
    items = make().list_state("list")
    items.put([(1,), (2,)])
    with pytest.raises(StateSchemaError, match="'n'"):
        items.put([(5,), ("x",)])
    assert list(items.get()) == [(1,), (2,)]


def test_map_entries_come_in_key_order(make: Make, workspace: Workspace, registry: StateRegistry) -> None:
    """Iteration merges stored and new entries in key order."""
    base = saved(workspace, registry, lambda s: [s.map_state("map").updateValue((k,), (0,)) for k in "dbf"])  # type: ignore[arg-type, func-returns-value, return-value]
    entries = make(base).map_state("map")
    entries.updateValue(("c",), (1,))
    entries.updateValue(("b",), (2,))
    entries.removeKey(("d",))
    assert list(entries.iterator()) == [(("b",), (2,)), (("c",), (1,)), (("f",), (0,))]
    assert list(entries.keys()) == [("b",), ("c",), ("f",)]
    assert list(entries.values()) == [(2,), (1,), (0,)]
    with pytest.raises(StateSchemaError, match="'k'"):
        entries.updateValue(([5],), (1,))


def test_iterators_are_points_in_time(make: Make, workspace: Workspace, registry: StateRegistry) -> None:
    """State may be changed while it is iterated; the iterator does not notice."""
    base = saved(workspace, registry, lambda s: [s.map_state("map").updateValue((k,), (0,)) for k in "abc"])  # type: ignore[arg-type, func-returns-value, return-value]
    state = make(base)
    entries, seen = state.map_state("map"), []
    at_the_start = entries.keys()
    for key in at_the_start:
        entries.removeKey(key)
        entries.updateValue((key[0] * 2,), (1,))
        seen.append(key)
    assert seen == [("a",), ("b",), ("c",)]
    assert list(entries.keys()) == [("aa",), ("bb",), ("cc",)]


def test_keys_share_nothing(make: Make) -> None:
    """A key that extends another key's bytes sees none of its cells."""
    state = make()
    state.value_state("value").update((1, "x"))
    state.list_state("list").put([(1,)])
    state.register_timer("event", 5)
    state.set_current_key(5, KEY + b"\x00")
    assert state.value_state("value").get() is None
    assert not state.list_state("list").exists()
    assert list(state.list_timers("event")) == []


def test_expired_values_are_never_returned(make: Make, workspace: Workspace, registry: StateRegistry) -> None:
    """A value lives until just before now + ttl of its last update; an update starts its time again."""
    base = saved(workspace, registry, lambda s: s.value_state("expiring").update((1,)))
    assert make(base, now_ms=9).value_state("expiring").get() == (1,)
    late = make(base, now_ms=10).value_state("expiring")
    assert late.get() is None
    assert not late.exists()
    late.update((2,))
    assert late.get() == (2,)


def test_list_elements_expire_one_by_one(make: Make, workspace: Workspace, registry: StateRegistry) -> None:
    """Elements appended later outlive earlier ones, and a list whose elements have all expired does not exist."""
    base = saved(workspace, registry, lambda s: s.list_state("expiring_list").put([(1,), (2,)]))
    items = make(base, now_ms=9).list_state("expiring_list")
    items.appendValue((3,))
    assert list(items.get()) == [(1,), (2,), (3,)]
    items = make(base, now_ms=10).list_state("expiring_list")
    assert not items.exists()
    items.appendValue((4,))
    assert list(items.get()) == [(4,)]
    assert items.exists()


def test_timers_are_a_set_in_time_order(make: Make) -> None:
    """Registering twice is once, deleting what is not there is nothing, kinds are apart, times may be negative."""
    state = make()
    for ts_ms in (7, -5, 7, 2**63 - 1):
        state.register_timer("event", ts_ms)
    state.register_timer("processing", 1)
    state.delete_timer("event", 99)
    assert list(state.list_timers("event")) == [-5, 7, 2**63 - 1]
    state.delete_timer("event", 7)
    assert list(state.list_timers("event")) == [-5, 2**63 - 1]
    assert list(state.list_timers("processing")) == [1]


@pytest.mark.parametrize("ts_ms", [2**63, 1.5, None, True])
def test_a_bad_timer_is_an_error(make: Make, ts_ms: object) -> None:
    """The error shows the value and what is allowed."""
    with pytest.raises(StateSchemaError, match=r"timer got .*an int between"):
        make().register_timer("event", ts_ms)  # type: ignore[arg-type]


def test_timers_at_the_end_of_input_are_ignored_and_counted(make: Make) -> None:
    """With ignore_new_timers nothing is registered, and each call is counted."""
    state = make()
    state.ignore_new_timers = True
    for ts_ms in (1, 2, 3):
        state.register_timer("event", ts_ms)
    assert state.ignored_timers == 3
    state.ignore_new_timers = False
    assert list(state.list_timers("event")) == []


def test_the_wrong_kind_or_name_is_an_error(make: Make) -> None:
    """A variable is only handed out as what it was declared."""
    state = make()
    with pytest.raises(StateSchemaError, match="'value' is declared as value state, not as list state"):
        state.list_state("value")
    with pytest.raises(StateSchemaError, match="'nope' is not declared"):
        state.value_state("nope")
    assert state.value_state("value") is state.value_state("value")


def test_state_without_a_key_is_an_error(make: Make) -> None:
    """Using state objects or timers before there is a key says where they belong."""
    state = make(keyed=False)
    for use in (
        lambda: state.value_state("value").get(),
        lambda: state.value_state("value").update((1, "x")),
        lambda: list(state.list_state("list").get()),
        lambda: state.map_state("map").exists(),
        lambda: state.register_timer("event", 1),
    ):
        with pytest.raises(PlanError, match="without a current key"):
            use()


def test_the_registry_travels(registry: StateRegistry) -> None:
    """Tasks get the registry by pickle."""
    assert pickle.loads(pickle.dumps(registry)) == registry
