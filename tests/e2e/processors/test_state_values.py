"""What a processor may put into state, and what it gets back: the same as from stock ``transformWithState``."""

from __future__ import annotations

import collections
import math
from array import array
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import support
from mixedmode.errors import StateSchemaError
from mixedmode.runtime.operators.processor.processor_handle import DeclaringHandle, TaskHandle
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.keys.keygroups import KeyGroupRange
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

support.by_value(__name__)

EAST = timezone(timedelta(hours=5))
NOON = datetime(2020, 1, 2, 12, 0, 0, 678901)
Pair = collections.namedtuple("Pair", ["a", "b"])


class Thing:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


#: Schema of a value state, and what is put into it (made anew each time: some are iterators).
TAKEN: list[tuple[str, Callable[[], Any]]] = [
    # structs: by place, or a dict or an object by name
    *[
        ("s struct<a:int,b:string>", lambda struct=struct: (struct,))
        for struct in (
            (1, "x"),
            [1, "x"],
            Row(a=1, b="x"),
            Row(z=1, a="x"),
            {"b": "x", "a": 1},
            {"a": 1, "z": 9},
            Pair(1, "x"),
            Thing(b="x", a=1, z=3),
            None,
        )
    ],
    ("s array<struct<a:int,b:string>>", lambda: ([(1, "x"), None, Row(a=2, b="y"), {"b": "z"}],)),
    ("s map<string,struct<a:struct<b:int>>>", lambda: ({"k": ((1,),), "n": None},)),
    ("s map<struct<a:int>,array<struct<b:date>>>", lambda: ({(1,): [(date(2020, 1, 1),)]},)),
    ("s struct<a:timestamp,b:array<int>,c:map<string,struct<d:double>>>", lambda: ((NOON, [1, None], {"k": (1.5,)}),)),
    # the row itself: anything with an order, by place
    *[
        ("a int, b string", make)
        for make in (
            lambda: [1, "x"],
            lambda: Row(a=1, b="x"),
            lambda: Row(b=1, a="x"),
            lambda: Pair(1, "x"),
            lambda: (part for part in (1, "x")),
            lambda: pd.Series([1, "x"]),
        )
    ],
    ("a int, b long", lambda: np.array([1, 2])),
    # numbers
    ("a byte, b short, c int, d long", lambda: (-128, 32767, -(2**31), 2**63 - 1)),
    ("a int, b long, c long", lambda: (np.int64(3), np.uint8(4), np.int32(5))),
    ("c decimal(5,2)", lambda: (Decimal("NaN"),)),
    ("a int, b string", lambda: (pd.NA, None)),
    ("a double, b double, c double, d float", lambda: (1.5, math.inf, np.float32(0.1), 0.1)),
    ("a float, b float", lambda: (1e300, np.float32(2.5))),
    ("a boolean, b boolean", lambda: (True, np.bool_(False))),
    *[("d decimal(10,2)", lambda digits=digits: (Decimal(digits),)) for digits in ("1.5", "1.005", "-1.025", "1E+3")],
    ("d decimal(38,10)", lambda: (Decimal("1234567890123456789012345678.0123456789"),)),
    # text and bytes
    ("a string, b string, c string", lambda: (1, True, Decimal("1.50"))),
    ("a string, b string, c string", lambda: (np.str_("x"), np.int64(5), Decimal("1E+3"))),
    ("a string, b string, c string, d string", lambda: (1.5, 1e10, -12345678.5, 2.5e-7)),
    ("a string, b string, c string, d string", lambda: (0.0, 1e7, 9999999.0, 0.001)),
    ("a string, b string, c string", lambda: (math.nan, math.inf, -0.0)),
    ("a binary, b binary, c binary", lambda: (b"x", bytearray(b"y"), "zä")),
    # moments
    ("a date, b date, c date", lambda: (date(1500, 1, 2), NOON, pd.Timestamp("2020-01-02 03:00"))),
    ("a date, b timestamp", lambda: (np.datetime64("2020-01-02"), np.datetime64("2020-01-02T03:04:05"))),
    ("a timestamp, b timestamp", lambda: (NOON, NOON.replace(tzinfo=EAST))),
    (
        "a timestamp, b timestamp",
        lambda: (pd.Timestamp("1960-01-02 03:00:00.123456789"), pd.Timestamp("2020-01-02", tz="Europe/Berlin")),
    ),
    ("a timestamp_ntz, b timestamp_ntz", lambda: (NOON, NOON.replace(tzinfo=EAST))),
    (
        "a interval day to second, b interval day to second, c interval day to second",
        lambda: (timedelta(days=-1, microseconds=5), pd.Timedelta("1s"), np.timedelta64(5, "s")),
    ),
    # collections
    ("a array<int>, b array<int>, c array<double>", lambda: ((1, 2), array("i", [1, 2]), [np.float64(1.5)])),
    ("a array<array<timestamp>>", lambda: ([[NOON], []],)),
    ("a map<string,int>, b map<string,int>", lambda: (collections.Counter("aab"), {1: np.int64(2)})),
    ("a map<date,string>", lambda: ({date(2020, 1, 1): 5},)),
]

#: What stock stores as null, as another number or as the name of a Java object, without a word.
LOST: list[tuple[str, Any]] = [
    ("a int", (True,)),
    ("a int", (1.0,)),
    ("a int", ("1",)),
    ("a int", (2**31,)),
    ("a short", (40000,)),
    ("a long", (2**63,)),
    ("a long", (np.float64(3.0),)),
    ("a int", (math.nan,)),
    ("a long", (np.float64("nan"),)),
    ("a decimal(10,2)", (math.nan,)),
    ("a double", ("1",)),
    ("a double", (Decimal("1.5"),)),
    ("a boolean", (1,)),
    ("a decimal(10,2)", (1,)),
    ("a decimal(10,2)", (1.5,)),
    ("a string", (date(2020, 1, 1),)),
    ("a string", (b"x",)),
    ("a string", ((1, 2),)),
    ("a array<int>", ({1},)),
    ("a array<string>", ("ab",)),
    ("a array<int>", (["x"],)),
    ("a map<string,int>", ([("k", 1)],)),
    ("s struct<a:int,b:string>", (Row(b="x", a=1),)),
    ("a string, b string", {"a": "1", "b": "x"}),
    ("a string, b string", "xy"),
]

#: What stock refuses, too.
REFUSED: list[tuple[str, Any]] = [
    ("a int", 5),
    ("a int", None),
    ("a date", ("2020-01-01",)),
    ("a date", (5,)),
    ("a timestamp", (date(2020, 1, 1),)),
    ("a timestamp", (pd.NaT,)),
    ("a timestamp_ntz", (date(2020, 1, 1),)),
    ("a interval day to second", (5,)),
]


def told(value: Any) -> str:
    """A value with the types of all its parts, and of structs the names."""
    if isinstance(value, Row):
        fields = value.asDict()
        assert all(getattr(value, name) == part or part != part for name, part in fields.items())
        return f"Row({', '.join(f'{name}={told(part)}' for name, part in fields.items())})"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{told(key)}: {told(part)}' for key, part in value.items()))}}}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}[{', '.join(map(told, value))}]"
    return f"{type(value).__name__} {value!r}"


class Keeps(StatefulProcessor):
    """Puts each case into a state of its own and tells what comes back; collections of structs besides."""

    def init(self, handle: Any) -> None:
        self._taken = [handle.getValueState(f"taken{place}", schema) for place, (schema, _) in enumerate(TAKEN)]
        self._lost = [handle.getValueState(f"lost{place}", schema) for place, (schema, _) in enumerate(LOST)]
        self._refused = [handle.getValueState(f"refused{place}", schema) for place, (schema, _) in enumerate(REFUSED)]
        self._list = handle.getListState("list", "s struct<a:int>, t string")
        self._gone = handle.getValueState("gone", "n int")
        handle.deleteIfExists("gone")
        handle.deleteIfExists("never there")
        self._map = handle.getMapState("map", "k struct<a:int>, j string", "s struct<a:int,b:array<struct<c:date>>>")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for place, (_, make) in enumerate(TAKEN):
            yield self._told(f"taken {place}", self._taken[place], make())
        for place, (_, value) in enumerate(LOST):
            yield self._told(f"lost {place}", self._lost[place], value)
        for place, (_, value) in enumerate(REFUSED):
            yield self._told(f"refused {place}", self._refused[place], value)
        self._list.put(value for value in [((1,), "a"), [Row(a=2), 5]])
        self._list.appendValue(({"a": 3}, "c"))
        self._list.appendList([Row(t=(4,), s="d")])
        yield Row(what="list", found=told(list(self._list.get())))
        self._map.updateValue(((1,), "j"), ((5, [(date(2020, 1, 1),)]),))
        self._map.updateValue([Row(a=2), 7], [{"a": 6}])
        yield Row(what="map", found=told(sorted(self._map.iterator())))
        yield Row(what="map keys", found=told(sorted(self._map.keys())))
        yield Row(what="map values", found=told(sorted(self._map.values(), key=repr)))
        yield Row(what="map get", found=told([self._map.getValue((Row(a=1), "j")), self._map.containsKey(((2,), "7"))]))

        for name, use in (
            ("exists", lambda: self._gone.exists()),
            ("get", lambda: self._gone.get()),
            ("update", lambda: self._gone.update((1,))),
            ("clear", lambda: self._gone.clear()),
        ):
            try:
                yield Row(what=f"gone {name}", found=told(use()))
            except Exception as error:
                yield Row(what=f"gone {name}", found=f"{type(error).__name__}: {error}")

    def _told(self, what: str, state: Any, value: Any) -> Row:
        try:
            state.update(value)
            return Row(what=what, found=told(state.get()))
        except Exception as error:
            return Row(what=what, found=f"{type(error).__name__}: {error}")


@pytest.fixture(scope="module")
def stock(spark: SparkSession) -> dict[str, str]:
    """What stock Spark tells: one batch query, whose state lives in RocksDB for as long as it runs."""
    with support.rocksdb_state_store(spark):
        keyed = spark.range(1).groupBy("id")
        rows = keyed.transformWithState(Keeps(), "what string, found string", "update", "none").collect()
    return {row.what: row.found for row in rows}


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> dict[str, str]:
    """What our state tells the same processor."""
    processor = Keeps()
    declaring = DeclaringHandle("none", StructType.fromDDL)
    processor.init(declaring)
    state = RandomAccessKeyedState(declaring.registry, None, KeyGroupRange(0, 0), 0)
    processor.init(TaskHandle(state, "none", None))  # type: ignore[arg-type]
    state.set_current_key(0, b"k")
    return {row.what: row.found for row in processor.handleInputRows((0,), iter(()), None)}


def test_what_sparks_encoder_takes_is_taken_and_comes_back_the_same(
    stock: dict[str, str], ours: dict[str, str]
) -> None:
    """Structs come back as Row wherever they are, and every value that stock keeps is kept, converted as it does."""
    names = [*(f"taken {place}" for place in range(len(TAKEN))), "list", "map", "map keys", "map values", "map get"]
    assert {name: ours[name] for name in names} == {name: stock[name] for name in names}
    assert ours["taken 0"] == "tuple[Row(a=int 1, b=str 'x')]"


@pytest.mark.slow
def test_what_stock_loses_without_a_word_is_an_error(stock: dict[str, str], ours: dict[str, str]) -> None:
    """Where stock stores something else, we say which field got which value and what it takes."""
    for place, (_, value) in enumerate(LOST):
        assert not stock[f"lost {place}"].startswith(("TypeError", "ValueError", "PySpark")), stock[f"lost {place}"]
        assert stock[f"lost {place}"] != told(value)
        assert ours[f"lost {place}"].startswith(StateSchemaError.__name__), (value, ours[f"lost {place}"])
        assert "takes" in ours[f"lost {place}"] or "needs a tuple" in ours[f"lost {place}"]


@pytest.mark.slow
def test_what_stock_refuses_is_refused(stock: dict[str, str], ours: dict[str, str]) -> None:
    """An error in stock is an error here, in better words."""
    for place, (_, value) in enumerate(REFUSED):
        assert "Error: " in stock[f"refused {place}"]
        assert ours[f"refused {place}"].startswith(StateSchemaError.__name__), (value, ours[f"refused {place}"])


def test_state_that_init_declares_and_deletes_raises_when_it_is_used(
    stock: dict[str, str], ours: dict[str, str]
) -> None:
    """Whatever is done with it, the error says that it is not initialized, and here why."""
    for name in ("gone exists", "gone get", "gone update", "gone clear"):
        assert "Value state gone is not initialized" in stock[name]
        assert "value state 'gone' is not initialized: init() deletes it" in ours[name]


@pytest.mark.slow
def test_an_int_is_a_float_where_it_is_exact(spark: SparkSession) -> None:
    """Stock stores null for an int in a double column; here it is the number, unless a float cannot hold it."""
    declaring = DeclaringHandle("none", StructType.fromDDL)
    declaring.getValueState("v", "a double")
    state = RandomAccessKeyedState(declaring.registry, None, KeyGroupRange(0, 0), 0)
    state.set_current_key(0, b"k")
    state.value_state("v").update((3,))
    assert state.value_state("v").get() == (3.0,)
    with pytest.raises(StateSchemaError, match="can represent exactly"):
        state.value_state("v").update((2**53 + 1,))
