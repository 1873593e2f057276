"""State variables and initial state: TransformWithListStateSuite, TransformWithMapStateSuite,
TransformWithStateInitialStateSuite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import functions as F

from ..case import CASES, Case, Read, case
from .processor_support import Steps, transformed
from .processors import LastTime, timed

LISTS, MAPS, INITIAL = (
    "TransformWithListStateSuite",
    "TransformWithMapStateSuite",
    "TransformWithStateInitialStateSuite",
)
COMMANDS = {"in": "key string, what string, value string"}
NAMED = {"in": "key string, what string, name string, value string"}


class ListCommands(Steps):
    """Does to a list what its rows say, in their order."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "text string")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found: list[str] = []
        for row in rows:
            parts = [(part,) for part in (row.value or "").split(",")]
            if row.what == "emit":
                found.append(row.value)
            elif row.what == "emit all":
                found += [one[0] for one in self.list.get()]
                self.list.clear()
            elif row.what == "append":
                self.list.appendValue(parts[0])
            elif row.what == "append all":
                self.list.appendList(parts)
            elif row.what == "put":
                self.list.put(parts)
            elif row.what == "clear":
                self.list.clear()
            elif row.what == "append null":
                self.list.appendValue(None)  # type: ignore[arg-type]
            elif row.what == "append null in list":
                self.list.appendList([None])  # type: ignore[list-item]
            elif row.what == "append no list":
                self.list.appendList(None)  # type: ignore[arg-type]
            elif row.what == "put no list":
                self.list.put(None)  # type: ignore[arg-type]
            elif row.what == "put null in list":
                self.list.put([None])  # type: ignore[list-item]
            elif row.what == "put empty":
                self.list.put([])
            elif row.what == "append empty":
                self.list.appendList([])
        return [{"key": key[0], "text": text} for text in found]


def listed(read: Read, time_mode: str = "none") -> Any:
    return transformed(read("in"), ["key"], ListCommands(), "key string, text string", time_mode=time_mode)


def _refused(test: str, *whats: str) -> None:
    for what in whats:
        CASES.append(
            Case(
                f"list_{what.replace(' ', '_')}",
                ((LISTS, test),),
                listed,
                COMMANDS,
                [{"in": [("k1", "append", "v1"), ("k1", what, "")]}],
                "update",
                refused="terminated with exception",
            )
        )


_refused("test appending null value in list state throw exception", "append null", "append null in list")
_refused("test putting null value in list state throw exception", "put null in list")
_refused("test putting null list in list state throw exception", "put no list")
_refused("test appending null list in list state throw exception", "append no list")
_refused("test putting empty list in list state throw exception", "put empty")
_refused("test appending empty list in list state throw exception", "append empty")


@case(
    LISTS,
    "test list state correctness",
    inputs=COMMANDS,
    mode="update",
    steps=[
        {"in": [("k1", "emit", "v1")]},
        {"in": [("k1", "append", "v2"), ("k1", "emit all", "")]},
        {"in": [("k2", "append", "v1"), ("k1", "append", "v4"), ("k2", "append", "v2"), ("k1", "emit", "v5")]},
        {"in": [("k1", "emit all", ""), ("k2", "emit all", "")]},
        {"in": [("k3", "append all", "v1,v2,v3"), ("k3", "emit", "v4"), ("k3", "append", "v5")]},
        {"in": [("k3", "emit all", "")]},
        {"in": [("k4", "append", "v2"), ("k4", "clear", ""), ("k4", "emit all", "")]},
        {"in": [("k5", "append all", "v1,v2,v3"), ("k5", "put", "v5,v6"), ("k5", "emit all", "")]},
    ],
)
def list_correctness(read: Read) -> Any:
    return listed(read)


class Toggle(Steps):
    """Keeps the rows of a call, gives them with those of the next."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "text string")
        self.keeps = handle.getValueState("keeps", "yes boolean")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        if not (self.keeps.get() or (False,))[0]:
            self.list.appendList([(row.key,) for row in rows])
            self.keeps.update((True,))
            return []
        self.keeps.clear()
        found = [row.key for row in rows] + [one[0] for one in self.list.get()]
        self.list.clear()
        return [{"text": text} for text in found]


@case(
    LISTS,
    "test ValueState And ListState in Processor",
    inputs={"in": "key string"},
    mode="update",
    steps=[{"in": ["k1", "k2"]}, {"in": ["k1", "k2"]}, {"in": ["k1", "k3"]}],
)
def value_and_list(read: Read) -> Any:
    return transformed(read("in"), ["key"], Toggle(), "text string")


class MapCommands(Steps):
    """Does to a map what its rows say, in their order."""

    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "name string", "text string")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found: list[tuple[str, Any]] = []
        for row in rows:
            name = (row.name,)
            if row.what == "exists":
                found.append(("exists", str(self.map.exists())))
            elif row.what == "get":
                value = self.map.getValue(name)
                found.append((row.name, None if value is None else value[0]))
            elif row.what == "contains":
                found.append((row.name, str(self.map.containsKey(name))))
            elif row.what == "update":
                self.map.updateValue(name, (row.value,))
            elif row.what == "update null":
                self.map.updateValue(name, None)  # type: ignore[arg-type]
            elif row.what == "iterator":
                found += sorted((k[0], v[0]) for k, v in self.map.iterator())
            elif row.what == "keys":
                found += sorted((k[0], "") for k in self.map.keys())  # noqa: SIM118
            elif row.what == "values":
                found += sorted(("", v[0]) for v in self.map.values())
            elif row.what == "remove":
                self.map.removeKey(name)
            elif row.what == "clear":
                self.map.clear()
            elif row.what == "no key":
                getattr(self.map, row.name)(None, *([("1",)] if row.name == "updateValue" else []))
        return [{"key": key[0], "name": name, "text": text} for name, text in found]


def mapped(read: Read) -> Any:
    return transformed(read("in"), ["key"], MapCommands(), "key string, name string, text string")


@case(
    MAPS,
    "Test retrieving value with non-existing user key",
    inputs=NAMED,
    mode="update",
    steps=[{"in": [("k1", "get", "v1", "")]}],
)
def map_value_that_is_not_there(read: Read) -> Any:
    return mapped(read)


for _method in ("getValue", "containsKey", "updateValue", "removeKey"):
    _steps = [{"in": [("k1", "update", "v1", "1"), ("k1", "no key", _method, "")]}]
    _tests = ((MAPS, f"Test {_method} with null user key"),)
    CASES.append(
        Case(f"map_{_method}_without_key", _tests, mapped, NAMED, _steps, "update", refused="terminated with exception")
    )
CASES.append(
    Case(
        "map_update_with_null",
        ((MAPS, "Test put value with null value"),),
        mapped,
        NAMED,
        [{"in": [("k1", "update null", "v1", "")]}],
        "update",
        refused="terminated with exception",
    )
)


@case(
    MAPS,
    "Test map state correctness",
    inputs=NAMED,
    mode="update",
    steps=[
        {"in": [("k1", "update", "v1", "10"), ("k1", "exists", "", ""), ("k2", "exists", "", "")]},
        {
            "in": [
                ("k1", "update", "v2", "5"),
                ("k2", "update", "v2", "3"),
                ("k2", "update", "v2", "12"),
                ("k2", "update", "v4", "1"),
                ("k1", "get", "v2", ""),
            ]
        },
        {"in": [("k2", "get", "v2", "")]},
        {"in": [("k2", "iterator", "", "")]},
        {"in": [("k2", "keys", "", "")]},
        {"in": [("k2", "values", "", "")]},
        {"in": [("k1", "remove", "v2", ""), ("k1", "contains", "v2", "")]},
        {"in": [("k2", "clear", "", ""), ("k2", "iterator", "", ""), ("k2", "exists", "", "")]},
    ],
)
def map_correctness(read: Read) -> Any:
    return mapped(read)


class Inventory(Steps):
    """A value, a list and a map of a key, all from its initial state, changed by commands."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n double")
        self.list = handle.getListState("list", "n double")
        self.map = handle.getMapState("map", "k double", "n int")

    def initial(self, key: Any, row: Any, times: Any) -> None:
        self.value.update((row.start,))
        self.list.appendList([(n,) for n in row.several])
        for k, n in dict(row.named).items():  # Spark gives pairs
            self.map.updateValue((k,), (n,))

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found: list[float] = []
        for row in rows:
            if row.what == "value":
                found.append((self.value.get() or (-1.0,))[0])
            elif row.what == "update":
                self.value.update((row.n,))
            elif row.what == "add":
                self.value.update(((self.value.get() or (0.0,))[0] + row.n,))
            elif row.what == "clear":
                self.value.clear()
            elif row.what == "list":
                found += [one[0] for one in self.list.get()]
            elif row.what == "append":
                self.list.appendValue((row.n,))
            elif row.what == "clear list":
                self.list.clear()
            elif row.what == "count":
                found.append(float(self.map.getValue((row.n,))[0] if self.map.containsKey((row.n,)) else 0))
            elif row.what == "more":
                before = self.map.getValue((row.n,))[0] if self.map.containsKey((row.n,)) else 0
                self.map.updateValue((row.n,), (before + 1,))
            elif row.what == "remove":
                self.map.removeKey((row.n,))
        return [{"key": key[0], "found": n} for n in found]


INVENTORY = {"in": "key string, what string, n double"}
STARTS = [("i1", 40.0, [40.0], {40.0: 1}), ("i2", 100.0, [100.0], {100.0: 1})]


def inventory(read: Read) -> Any:
    rows = read("in")
    schema = "key string, start double, several array<double>, named map<double, int>"
    initial = rows.sparkSession.createDataFrame(STARTS, schema)
    return transformed(rows, ["key"], Inventory(), "key string, found double", initial=initial)


@case(
    INITIAL,
    "transformWithStateWithInitialState - correctness test, run with multiple state variables - in-memory type",
    inputs=INVENTORY,
    mode="update",
    steps=[
        {"in": [("k1", "update", 37.0), ("k2", "update", 40.0), ("none", "value", -1.0)]},
        {"in": [("k1", "append", 37.0), ("k2", "append", 40.0), ("none", "list", -1.0), ("none", "count", -1.0)]},
        {"in": [("k2", "more", 40.0), ("k2", "more", 40.0), ("k2", "count", 40.0)]},
        {"in": [("i1", "value", 0.0), ("i2", "value", 0.0), ("i1", "list", 0.0), ("i2", "list", 0.0)]},
        {"in": [("i1", "count", 40.0), ("i2", "count", 100.0)]},
        {"in": [("i1", "update", 50.0), ("i1", "value", 0.0), ("i1", "clear", 0.0), ("i1", "value", 0.0)]},
        {"in": [("i1", "append", 50.0), ("i1", "list", 0.0), ("i1", "more", 40.0), ("i1", "count", 40.0)]},
        {"in": [("k1", "clear", 0.0), ("k1", "value", 0.0), ("i1", "remove", 40.0), ("i1", "count", 40.0)]},
        {"in": [("i1", "clear list", 0.0), ("i1", "list", 0.0)]},
    ],
)
def initial_state_of_three_variables(read: Read) -> Any:
    return inventory(read)


@case(
    INITIAL,
    "transformWithStateWithInitialState - correctness test, processInitialState should only run once",
    inputs=INVENTORY,
    mode="update",
    steps=[
        {"in": [("i1", "add", 50.0), ("i2", "add", 60.0), ("i1", "add", 50.0)]},
        {"in": [("i1", "value", 0.0), ("i2", "value", 0.0)]},
    ],
)
def initial_state_once(read: Read) -> Any:
    return inventory(read)


@case(
    INITIAL,
    "transformWithStateWithInitialState - streaming with event time timer, can emit expired initial state rows when"
    " grouping key is not received for new input rows",
    inputs={"in": "key string, seconds long"},
    mode="update",
    keys=("key",),
    steps=[{"in": [("a", 13), ("a", 15)]}, {"in": [("c", 7)]}, {"in": [("d", 31)]}],
)
def initial_state_and_event_timers(read: Read) -> Any:
    initial = read("in").sparkSession.createDataFrame([("a", 11), ("b", 5)], "key string, seconds long")
    initial = initial.withColumn("time", F.timestamp_seconds("seconds"))
    schema = "key string, last long"
    return transformed(timed(read("in")), ["key"], LastTime(), schema, time_mode="eventTime", initial=initial)
