"""A job that is started again with a changed processor: state of both programs side by side, or a refusal in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import CheckpointMismatchError, MixedQuery, StateSchemaError
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
#: Keys k0 to k2 in the backlog, k1 to k3 before the change, k2 to k4 after it.
BACKLOG = [("k0", 0, 1), ("k1", 1, 2), ("k2", 2, 3)]
BEFORE = [("k1", 10, 4), ("k2", 11, 5), ("k3", 12, 6)]
AFTER = [("k2", 20, 7), ("k3", 21, 8), ("k4", 22, 9)]


class First(StatefulProcessor):
    """Count, list and map per key, and a variable that the next version does not have."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "count int, note string")
        self._seen = handle.getListState("seen", "value long")
        self._last = handle.getMapState("last", "parity long", "value int")
        self._old = handle.getValueState("old", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        count, _ = self._total.get() or (0, None)
        for row in rows:
            count += 1
            self._seen.appendValue((row.value,))
            self._last.updateValue((row.value % 2,), (row.value,))
        self._total.update((count, "first"))
        self._old.update((count,))
        yield (key[0], count)


class Second(First):
    """Drops, adds, widens fields in each kind of state, drops and adds a variable; tells what it finds of the past."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        handle.deleteIfExists("old")
        self._total = handle.getValueState("total", "mark string, count long")
        self._seen = handle.getListState("seen", "value long, version int")
        self._last = handle.getMapState("last", "parity long", "version int, value double")
        self._new = handle.getValueState("new", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        mark, count = self._total.get() or ("never seen", 0)
        assert mark in (None, "second", "never seen") and self._new.exists() == (mark == "second")
        assert all(version in (None, 2) for _, version in self._seen.get())
        for row in rows:
            count += 1
            self._seen.appendValue((row.value, 2))
            self._last.updateValue((row.value % 2,), (2, row.value))
        self._total.update(("second", count))
        self._new.update((count,))
        yield (key[0], count)


def start(world: World, processor: StatefulProcessor, **arguments: Any) -> MixedQuery:
    keyed = (world.read(BACKLOG).withWatermark("ts", "0 seconds")).groupBy(arguments.pop("key", "key"))
    time_mode = arguments.pop("time_mode", "eventTime")
    query = world.start(keyed.transformWithState(processor, "key string, count long", "append", time_mode), OBSERVED)
    query.wait_for("live", 300)
    return query


def lived(world: World, processor: StatefulProcessor, *parts: list[support.Event]) -> MixedQuery:
    query = start(world, processor)
    assert query.exception() is None, query.exception()
    world.feed(query, *parts)
    query.stop()
    assert query.exception() is None, query.exception()
    return query


@pytest.mark.slow
def test_old_and_new_values_live_side_by_side(world: World) -> None:
    """State of the backlog, of the stream and of the changed program is read as one; each key changes when touched."""
    lived(world, First(), BEFORE)
    query = lived(world, Second(), AFTER)
    changes = support.details(query, "state-evolved")
    assert "state 'old' is not declared any more: what it held is dropped" in changes
    assert "state 'total' lost field 'note' (string): its stored values are dropped" in changes
    assert "state 'seen' gained field 'version' (int32): None in older values" in changes
    assert "state 'new' is new" in changes
    assert "state 'total': field 'count' has become wider, int32 is int64 now; its values follow" in changes
    assert {("k2", 3), ("k3", 2), ("k4", 1)} <= set(world.output())
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    assert {(*row.key, *row.value) for row in reader.state("total").collect()} == {
        ("k0", None, 1),
        ("k1", None, 2),
        ("k2", "second", 3),
        ("k3", "second", 2),
        ("k4", "second", 1),
    }
    seen = reader.state("seen").orderBy("key", "position").collect()
    assert [(*row.key, *row.list_element) for row in seen] == [
        ("k0", 1, None),
        *[("k1", 2, None), ("k1", 4, None)],
        *[("k2", 3, None), ("k2", 5, None), ("k2", 7, 2)],
        *[("k3", 6, None), ("k3", 8, 2)],
        ("k4", 9, 2),
    ]
    last = {(*row.key, *row.user_map_key, *row.user_map_value) for row in reader.state("last").collect()}
    assert ("k2", 1, 2, 7) in last and ("k3", 0, 2, 8) in last and ("k1", 0, None, 4) in last
    assert {row.key.key for row in reader.state("new").collect()} == {"k2", "k3", "k4"}
    versions = {row.state: row.schema_version for row in reader.metadata().collect()}
    assert versions == {"total": 1, "seen": 1, "last": 1, "new": 0}
    again = lived(world, Second())
    assert support.details(again, "state-evolved") == [], "nothing changes a second time"


def other(init: Callable[[Any], Any]) -> StatefulProcessor:
    """First with another init."""

    class Other(First):
        def init(self, handle: Any) -> None:
            init(handle)

    return Other()


def test_what_state_cannot_follow_is_refused_before_anything_runs(world: World) -> None:
    """Changed types, kinds and keys are named one by one; location and output stay as they were."""
    lived(world, First(), BEFORE)
    before = world.output()
    cases: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
        (
            {"processor": other(lambda handle: handle.getValueState("total", "count string, note int"))},
            StateSchemaError,
            [
                "state 'total'",
                "field 'count' changed from int32 to string",
                "field 'note' changed from string to int32",
            ],
        ),
        (
            {"processor": other(lambda handle: handle.getListState("total", "count int, note string"))},
            StateSchemaError,
            ["kind 'value' became 'list'"],
        ),
        (
            {"processor": other(lambda handle: handle.getMapState("last", "parity string", "value int"))},
            StateSchemaError,
            ["user key schema (parity int64) became (parity string)"],
        ),
    ]
    for arguments, kind, parts in cases:
        error = support.refusal(lambda arguments=arguments: start(world, **arguments))  # type: ignore[misc]
        assert isinstance(error, kind), error
        assert all(part in str(error) for part in parts), str(error)
    for changes, parts in (
        ({"key": "value"}, ["its key is key string, this job's is value int64"]),
        ({"time_mode": "processingTime"}, ["its time mode is eventTime, this job's is processingTime"]),
    ):
        error = support.refusal(lambda changes=changes: start(world, First(), **changes))  # type: ignore[misc]
        assert isinstance(error, CheckpointMismatchError)
        assert all(part in str(error) for part in parts), str(error)
    assert world.output() == before
    lived(world, First(), AFTER)
    assert ("k2", 3) in world.output()
