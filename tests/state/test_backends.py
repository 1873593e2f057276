"""Both backends against a plain model: same answers, same timers, same state on disk.

A job of some epochs visits keys in any order.  The random-access backend runs the visits as they come, the batch
backend runs them key by key in order, a third world changes its style from epoch to epoch.  All must agree with the
model.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.state.backend.keyed import KeyedState
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.backend.sorted_pass import BatchKeyedState
from mixedmode.state.backend.timer_index import due_keys
from mixedmode.state.keys.key_space import TIMER_KINDS
from mixedmode.state.keys.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.keys.keys import KeyCodec
from mixedmode.state.keys.registry import StateRegistry
from mixedmode.state.store.compaction import compact
from mixedmode.state.store.local_copy import LocalStateCopy
from mixedmode.state.store.state_manifest import StateManifest, redeal
from state_support import NUMBER, Workspace, contents

TTL_MS = 10
GROUPS = KeyGroupRange(0, 3)
CODEC = KeyCodec(pa.schema([("k", pa.string())]))
USER_KEY = pa.schema([("u", pa.int8())])
Timer = tuple[str, int]


def registry() -> StateRegistry:
    """One variable of each kind, without and with TTL."""
    made = StateRegistry()
    for prefix, ttl_ms in (("", None), ("t", TTL_MS)):
        made.declare(prefix + "v", "value", NUMBER, ttl_ms=ttl_ms)
        made.declare(prefix + "l", "list", NUMBER, ttl_ms=ttl_ms)
        made.declare(prefix + "m", "map", NUMBER, USER_KEY, ttl_ms=ttl_ms)
    return made


REGISTRY = registry()
NAMES = st.sampled_from(["", "t"])
NUMBERS = st.integers(0, 9).map(lambda n: (n,))
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["v.get", "v.exists", "v.clear", "l.get", "l.exists", "l.clear"]), NAMES),
    st.tuples(st.sampled_from(["m.exists", "m.iterator", "m.keys", "m.values", "m.clear"]), NAMES),
    st.tuples(st.sampled_from(["v.update", "l.appendValue"]), NAMES, NUMBERS),
    st.tuples(st.sampled_from(["l.put", "l.appendList"]), NAMES, st.lists(NUMBERS, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["m.getValue", "m.containsKey", "m.removeKey"]), NAMES, NUMBERS),
    st.tuples(st.just("m.updateValue"), NAMES, NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["register", "delete"]), st.sampled_from(TIMER_KINDS), st.integers(-3, 30)),
    st.tuples(st.just("list"), st.sampled_from(TIMER_KINDS)),
)
KEYS = st.sampled_from(["", "a", "a\x00", "ab", "b", "zebra", None])
EPOCHS = st.lists(
    st.fixed_dictionaries(
        {
            "step_ms": st.integers(0, 12),
            "visits": st.lists(st.tuples(KEYS, st.lists(OPERATIONS, max_size=4)), max_size=8),
            "upto": st.fixed_dictionaries({kind: st.integers(-5, 25) for kind in TIMER_KINDS}),
            "sorted": st.booleans(),
            "compact": st.booleans(),
            "shards": st.integers(1, 4),
        }
    ),
    min_size=1,
    max_size=4,
)


def group_of(key: str | None) -> int:
    """Any fixed assignment of keys to the shard's key groups."""
    return len(key or "") % 4


@dataclass
class ModelKey:
    """The state of one key in plain Python; TTL variables hold (value, expiry)."""

    value: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    maps: dict[str, dict[Any, Any]] = field(default_factory=lambda: defaultdict(dict))
    timers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def apply(self, now_ms: int, operation: tuple[Any, ...]) -> Any:
        """Do one operation and say what it answers."""
        method, name, *arguments = operation
        if method in ("register", "delete"):
            (self.timers[name].add if method == "register" else self.timers[name].discard)(arguments[0])
            return None
        if method == "list":
            return sorted(self.timers[name])
        expiry = now_ms + TTL_MS if name == "t" else None
        kind, verb = method.split(".")
        return getattr(self, f"_{kind}")(verb, name, now_ms, expiry, *arguments)

    def _v(self, verb: str, name: str, now_ms: int, expiry: int | None, new: Any = None) -> Any:
        if verb == "update":
            self.value[name] = (new, expiry)
        elif verb == "clear":
            self.value.pop(name, None)
        else:
            live = alive([self.value[name]] if name in self.value else [], now_ms)
            return bool(live) if verb == "exists" else (live[0] if live else None)
        return None

    def _l(self, verb: str, name: str, now_ms: int, expiry: int | None, new: Any = None) -> Any:
        if verb in ("put", "clear"):
            self.lists[name] = []
        if verb in ("put", "appendList", "appendValue"):
            self.lists[name] += [(value, expiry) for value in (new if isinstance(new, list) else [new])]
        live = alive(self.lists[name], now_ms)
        return {"get": live, "exists": bool(live)}.get(verb)

    def _m(self, verb: str, name: str, now_ms: int, expiry: int | None, key: Any = None, new: Any = None) -> Any:
        if verb == "updateValue":
            self.maps[name][key] = (new, expiry)
        elif verb == "removeKey":
            self.maps[name].pop(key, None)
        elif verb == "clear":
            self.maps[name].clear()
        else:
            live = {k: v[0] for k, v in sorted(self.maps[name].items()) if alive([v], now_ms)}
            return {
                "exists": bool(live),
                "iterator": list(live.items()),
                "keys": list(live),
                "values": list(live.values()),
                "getValue": live.get(key),
                "containsKey": key in live,
            }[verb]
        return None

    def fire(self, kind: str, upto_ms: int) -> list[int]:
        """Fire the due timers as :func:`handle` does."""
        fired = []
        while due := sorted(ts_ms for ts_ms in self.timers[kind] if ts_ms <= upto_ms):
            fired.append(due[0])
            if due[0] % 3 == 0:
                self.timers[kind].add(due[0] + 7)
            self.timers[kind].discard(due[0])
        return fired


def alive(entries: list[Any], now_ms: int) -> list[Any]:
    """The values that have not expired."""
    return [value for value, expiry in entries if expiry is None or expiry > now_ms]


def apply(state: KeyedState, operation: tuple[Any, ...]) -> Any:
    """Do one operation on a backend's current key."""
    method, name, *arguments = operation
    if method == "register":
        return state.register_timer(name, arguments[0])
    if method == "delete":
        return state.delete_timer(name, arguments[0])
    if method == "list":
        return list(state.list_timers(name))
    kind, verb = method.split(".")
    variable = {"v": state.value_state, "l": state.list_state, "m": state.map_state}[kind](name + kind)
    answer = getattr(variable, verb)(*arguments)
    return list(answer) if verb in ("iterator", "keys", "values") or method == "l.get" else answer


def handle(state: KeyedState, kind: Any, ts_ms: int) -> None:
    """What a fired timer's handler does: register the same time (lost) and, sometimes, a later one."""
    state.register_timer(kind, ts_ms)
    if ts_ms % 3 == 0:
        state.register_timer(kind, ts_ms + 7)


class World:
    """One job run with real files; ``style`` None follows the epochs' own choice, ``shards`` None their number."""

    def __init__(self, space: Workspace, style: bool | None, shards: int | None = None) -> None:
        self.space = space
        self.style = style
        self.shards = shards
        self.manifests = [StateManifest(GROUPS)]

    def run(self, number: int, epoch: dict[str, Any], now_ms: int) -> dict[str, Any]:
        """Run an epoch; answers by key, fired timers by key, next timers."""
        self.manifests = redeal(self.manifests, shard_ranges(self.shards or epoch["shards"], GROUPS.last + 1))
        answers: dict[Any, list[Any]] = defaultdict(list)
        fired: dict[Any, dict[str, list[int]]] = defaultdict(lambda: {kind: [] for kind in TIMER_KINDS})
        run = self._sorted if (epoch["sorted"] if self.style is None else self.style) else self._random
        following: dict[str, list[int]] = {kind: [] for kind in TIMER_KINDS}
        for shard, manifest in enumerate(self.manifests):
            groups = manifest.key_groups
            mine = {**epoch, "visits": [visit for visit in epoch["visits"] if group_of(visit[0]) in groups]}
            files, earliest = run(number, mine, now_ms, self.local_copy(shard), groups, answers, fired)
            self.manifests[shard] = manifest.append(files)
            if epoch["compact"]:
                self._compact(shard, f"c{number}-{shard}")
            for kind, ts_ms in earliest.items():
                following[kind] += [] if ts_ms is None else [ts_ms]
        first = {kind: min(times, default=None) for kind, times in following.items()}
        return {"answers": dict(answers), "fired": dict(fired), "next": first}

    def local_copy(self, shard: int) -> LocalStateCopy | None:
        manifest = self.manifests[shard]
        return self.space.local_copy(manifest, shard) if manifest.files else None

    def _compact(self, shard: int, name: str) -> None:
        space, local_copy = self.space, self.local_copy(shard)
        if local_copy is not None:
            self.manifests[shard] = compact(
                self.manifests[shard], local_copy, space.filesystem, space.pool, space.local, name, kind="full"
            )

    def contents(self) -> dict[bytes, bytes]:
        """What all shards hold."""
        held: dict[bytes, bytes] = {}
        for shard in range(len(self.manifests)):
            local_copy = self.local_copy(shard)
            held |= {} if local_copy is None else contents(local_copy)
        return held

    def _random(self, number, epoch, now_ms, base, groups, answers, fired):  # type: ignore[no-untyped-def]
        state = RandomAccessKeyedState(REGISTRY, base, groups, now_ms)
        visits = [(key, group_of(key), CODEC.encode((key,)), operations) for key, operations in epoch["visits"]]
        for key, group, encoded, operations in visits:
            state.set_current_key(group, encoded)
            answers[key] += [apply(state, operation) for operation in operations]
        for kind in TIMER_KINDS:
            order = []
            for ts_ms, group, encoded in state.due_timers(kind, epoch["upto"][kind]):
                (key,) = CODEC.decode(encoded)
                assert group == group_of(key)
                state.set_current_key(group, encoded)
                handle(state, kind, ts_ms)
                fired[key][kind].append(ts_ms)
                order.append((ts_ms, encoded))
            if not any(ts_ms % 3 == 0 for ts_ms, _ in order):
                assert order == sorted(order)
        writer = self.space.log(number)
        state.flush(writer)
        return writer.finish(), {kind: state.next_timer(kind) for kind in TIMER_KINDS}

    def _sorted(self, number, epoch, now_ms, base, groups, answers, fired):  # type: ignore[no-untyped-def]
        writer = self.space.sst(number)
        state = BatchKeyedState(REGISTRY, writer, now_ms, base)
        by_key: dict[Any, list[Any]] = defaultdict(list)
        for key, operations in epoch["visits"]:
            by_key[key] += operations
        upto = epoch["upto"]
        keys = {(group_of(key), CODEC.encode((key,))) for key in by_key}
        for group in groups:
            due = [] if base is None else due_keys(base, group, upto["event"], upto["processing"])
            assert due == sorted(set(due))
            keys |= {(group, encoded) for encoded in due}
        for group, encoded in sorted(keys):
            (key,) = CODEC.decode(encoded)
            state.set_current_key(group, encoded)
            answers[key] += [apply(state, operation) for operation in by_key.get(key, [])]
            for kind in TIMER_KINDS:
                for ts_ms in state.pop_due_timers(kind, upto[kind]):
                    handle(state, kind, ts_ms)
                    fired[key][kind].append(ts_ms)
        state.close()
        return writer.finish(), {kind: state.next_timer(kind) for kind in TIMER_KINDS}


def expected(model: dict[Any, ModelKey], epoch: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """What the model answers for an epoch."""
    answers: dict[Any, list[Any]] = defaultdict(list)
    for key, operations in epoch["visits"]:
        answers[key] += [model[key].apply(now_ms, operation) for operation in operations]
    fired = {key: {kind: state.fire(kind, epoch["upto"][kind]) for kind in TIMER_KINDS} for key, state in model.items()}
    pending = {kind: [ts_ms for state in model.values() for ts_ms in state.timers[kind]] for kind in TIMER_KINDS}
    return {
        "answers": {key: given for key, given in answers.items() if given},
        "fired": {key: timers for key, timers in fired.items() if any(timers.values())},
        "next": {kind: min(times, default=None) for kind, times in pending.items()},
    }


@given(EPOCHS)
@settings(max_examples=25)
def test_all_worlds_agree_with_the_model(tmp_path_factory, epochs: list[dict[str, Any]]) -> None:  # type: ignore[no-untyped-def]
    """Answers, fired timers and next timers are the model's, and the stored state is the same byte for byte."""
    spaces = [Workspace(tmp_path_factory.mktemp("world")) for _ in range(3)]
    worlds = [World(spaces[0], True, shards=1), World(spaces[1], False), World(spaces[2], None)]
    model: dict[Any, ModelKey] = defaultdict(ModelKey)
    now_ms = 1000
    for number, epoch in enumerate(epochs):
        now_ms += epoch["step_ms"]
        wanted = expected(model, epoch, now_ms)
        for world in worlds:
            found = world.run(number, epoch, now_ms)
            found["answers"] = {key: given for key, given in found["answers"].items() if given}
            found["fired"] = {key: timers for key, timers in found["fired"].items() if any(timers.values())}
            assert found == wanted
    held = [world.contents() for world in worlds]
    assert held[0] == held[1] == held[2]
    for space in spaces:
        space.cache.close()
