"""The state reader shows a processor's state as Spark's ``statestore`` source shows that of stock Spark."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import StateReader
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from session_options import session_options
from support import World, by_value, live

by_value(__name__)

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FAR_MS = 10**12
TIMERS = (4 * FAR_MS, 4 * FAR_MS + 5)
EVENTS = [("a", 0, 1), ("b", 1, 2), ("b", 2, 2), ("a", 3, 1), ("c", 4, None)]
NAMES = ("value", "list", "map", "value_ttl", "list_ttl", "map_ttl")


class Everything(StatefulProcessor):
    """State of all kinds, with a TTL and without, and timers."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._values = [
            handle.getValueState("value", "n int, s struct<a:int,b:array<struct<c:string>>>"),
            handle.getValueState("value_ttl", "n int", FAR_MS),
        ]
        self._lists = [
            handle.getListState("list", "s struct<a:int>, t string"),
            handle.getListState("list_ttl", "s struct<a:int>, t string", FAR_MS),
        ]
        self._maps = [
            handle.getMapState("map", "k struct<a:int>, j string", "s struct<a:decimal(5,2)>"),
            handle.getMapState("map_ttl", "k struct<a:int>, j string", "s struct<a:decimal(5,2)>", FAR_MS),
        ]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        count = sum(1 for _ in rows)
        self._values[0].update((count, (1, [("x",), None])))
        self._values[1].update((count,))
        for state in self._lists:
            state.put([((place,), "t") for place in range(count)])
            state.appendValue((None, key[0]))
        for state in self._maps:
            for place in range(count):
                state.updateValue(((place,), key[0]), (None,))
        for ts_ms in TIMERS:
            self._handle.registerTimer(ts_ms)
        yield Row(key=key[0])


def keyed(frame: Any) -> Any:
    by = frame.groupBy("key", "value")
    return by.transformWithState(Everything(), "key string", "append", "processingTime")


@pytest.fixture(scope="module")
def ours(worlds: Callable[[], World], spark: SparkSession) -> StateReader:
    """Our state of the events."""
    world = worlds()
    world.land(EVENTS)
    query = live(world.start(keyed(world.read())))
    support.stop(query)
    return mixedmode.state_reader(str(world.checkpoints), spark)


@pytest.fixture(scope="module")
def stock(worlds: Callable[[], World], spark: SparkSession) -> Iterator[Callable[..., DataFrame]]:
    """Reads stock Spark's state of the events."""
    world = worlds()
    world.land(EVENTS)
    with session_options(spark, {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}):
        writer = keyed(world.live()).writeStream.format("noop").trigger(once=True)
        writer.option("checkpointLocation", str(world.checkpoints)).start().awaitTermination(300)
        yield lambda **options: spark.read.format("statestore").options(**options).load(str(world.checkpoints))


def told(frames: dict[str, DataFrame]) -> list[tuple[str, str]]:
    """All rows of all frames as text, found by one job; the time of an expiry is only looked at."""
    rows = [
        frame.drop("partition_id", "position", "timer_kind").select(F.lit(name), F.to_json(F.struct("*")))
        for name, frame in frames.items()
    ]
    found = functools.reduce(lambda one, other: one.union(other), rows).collect()
    expiry = r'"ttlExpirationMs":2\d{12}\b'
    return sorted((name, re.sub(expiry, '"ttlExpirationMs":"about 2*10^12"', text)) for name, text in found)


@pytest.mark.slow
def test_columns_and_rows_are_those_of_the_statestore_source(
    ours: StateReader, stock: Callable[..., DataFrame]
) -> None:
    """Names, order and types of the columns, structs, nulls and expiry; what we have more comes last."""
    theirs = {name: stock(stateVarName=name) for name in NAMES} | {"timers": stock(readRegisteredTimers=True)}
    mine = {name: ours.state(name) for name in NAMES} | {"timers": ours.timers()}
    for name, frame in theirs.items():
        assert mine[name].columns[: len(frame.columns)] == frame.columns
        assert mine[name].select(*frame.columns).schema == frame.schema, name
    assert mine["list"].columns[-1] == "position" and mine["timers"].columns[-1] == "timer_kind"
    assert told(mine) == told(theirs)
    assert "about 2*10^12" in str(told({"value_ttl": mine["value_ttl"]}))


def test_lookup_gives_values_without_their_expiry(ours: StateReader) -> None:
    """One key's state is what its processor sees."""
    found = ours.lookup("b", 2)
    assert found["state"]["value_ttl"] == Row(n=2)
    assert found["state"]["list_ttl"] == found["state"]["list"]
    assert found["state"]["map_ttl"] == found["state"]["map"]
    assert found["timers"] == {"processing": list(TIMERS)}
