"""Every type of Spark's goes through keys, state, timers' rows and output unchanged, in backlog and in stream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import mixedmode
import support
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType
from support import World

support.by_value(__name__)

#: Types that a key may have.
KEY_TYPES = {
    "k_boolean": "boolean",
    "k_byte": "tinyint",
    "k_short": "smallint",
    "k_int": "int",
    "k_long": "bigint",
    "k_float": "float",
    "k_double": "double",
    "k_decimal": "decimal(20,3)",
    "k_string": "string",
    "k_binary": "binary",
    "k_date": "date",
    "k_timestamp": "timestamp",
    "k_ntz": "timestamp_ntz",
    "k_interval": "interval day to second",
    "k_struct": "struct<x:int,y:string>",
    "k_array": "array<int>",
}
#: Types that only a value may have.
VALUE_TYPES = {**{name.replace("k_", "v_"): kind for name, kind in KEY_TYPES.items()}}
VALUE_TYPES |= {"v_map": "map<string,array<double>>", "v_nested": "array<struct<a:decimal(5,2),b:map<int,timestamp>>>"}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in {**KEY_TYPES, **VALUE_TYPES, "at": "timestamp"}.items())

KEYS: list[tuple[Any, ...]] = [
    (
        *(True, -128, -32768, -(2**31), -(2**63), -0.5, 1e300, Decimal("-1.250"), "é\x00x", b"\x00\xff"),
        *(date(1582, 10, 15), datetime(1900, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31)),
        *(timedelta(days=-3, microseconds=7), Row(x=-1, y=None), [2, None]),
    ),
    (
        *(False, 127, 32767, 2**31 - 1, 2**63 - 1, 0.0, float("inf"), Decimal("99999999999999999.999"), "", b""),
        *(date(9999, 12, 31), datetime(2024, 2, 29, 12), datetime(1, 1, 1)),
        *(timedelta(0), Row(x=None, y=""), []),
    ),
    (None,) * len(KEY_TYPES),
]
VALUES = [
    (*key, mapped, nested)
    for key, mapped, nested in zip(
        KEYS,
        [{"a": [1.5, None], "": []}, {}, None],
        [[Row(a=Decimal("1.25"), b={1: datetime(2024, 1, 1)}), None], [], None],
        strict=True,
    )
]
ROWS = [(*key, *value, datetime(2024, 1, 1)) for key, value in zip(KEYS, VALUES, strict=True)]
VALUE_DDL = ", ".join(f"{name} {kind}" for name, kind in VALUE_TYPES.items())
KEY_DDL = ", ".join(f"{name} {kind}" for name, kind in KEY_TYPES.items())


class Remember(StatefulProcessor):
    """Keeps the first row's values in a value, a list and a map state; gives key and values back from there."""

    def init(self, handle: Any) -> None:
        self._value = handle.getValueState("value", VALUE_DDL)
        self._list = handle.getListState("list", VALUE_DDL)
        self._map = handle.getMapState("map", KEY_DDL, VALUE_DDL)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            if not self._value.exists():
                values = tuple(row[name] for name in VALUE_TYPES)
                self._value.update(values)
                self._list.appendValue(values)
                self._map.updateValue(key, values)
            yield ("value", *key, *self._value.get())
            yield ("list", *key, *next(self._list.get()))
            ((map_key, map_value),) = self._map.iterator()
            yield ("map", *map_key, *map_value)


def frame_of(world: World) -> DataFrame:
    """The rows as JVM rows: made of Arrow, so that no converter of ours is involved."""
    return world.spark.createDataFrame(ROWS, SCHEMA)


def comparable(row: Any) -> str:
    """A text that differs if any value or its type differs; maps by their entries."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return sorted(((plain(k), plain(v)) for k, v in value.items()), key=repr)
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return bytes(value) if isinstance(value, bytearray) else value

    return repr(plain(row))


def test_all_types_survive_backlog_state_and_stream(world: World) -> None:
    """Keys and values of every type, nulls included, come back unchanged from state, in backlog and stream."""
    landing = world.folder / "typed"
    frame_of(world).limit(0).write.parquet(str(landing))
    live = world.spark.readStream.schema(frame_of(world).schema).parquet(str(landing))
    output = StructType.fromDDL(f"origin string, {KEY_DDL}, {VALUE_DDL}")
    keyed = (
        mixedmode.read(history=frame_of(world), live=live)
        .groupBy(*KEY_TYPES)
        .transformWithState(Remember(), output, "append", "none")
    )
    query = support.live(world.start(keyed))
    frame_of(world).write.mode("append").parquet(str(landing))
    support.finish(query)
    found = [comparable(row) for row in world.spark.read.parquet(str(world.out)).collect()]
    expected = [
        comparable((origin, *key, *value))
        for key, value in zip(KEYS, VALUES, strict=True)
        for origin in ("value", "list", "map")
        for _ in range(2)
    ]
    assert sorted(found) == sorted(expected)


def test_order_of_keys_is_sparks(world: World) -> None:
    """In a backlog of one shard and one key group, keys come in the order of Spark's own sort, nulls first (X8)."""

    class Echo(Remember):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            yield key

    keys = [(n, text) for n in (-(2**63), -1, 0, 7, None) for text in ("", "a", "aa", "b", "é", "\x00", None)]
    history = world.spark.createDataFrame(keys[::-1], "n long, text string")
    for engine in ("spark", "arrow"):
        here = World(world.spark, world.folder / engine)
        keyed = mixedmode.read(history=history).groupBy("n", "text")
        query = here.start(
            keyed.transformWithState(Echo(), "n long, text string", "append", "none"),
            {"pipeline.max-parallelism": 1, "pipeline.parallelism": 1, "sorter.engine": engine},
        )
        query.awaitTermination(300)
        (path,) = here.out.glob("*.parquet")
        import pyarrow.parquet as pq

        written = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
        assert written == [tuple(row) for row in history.orderBy("n", "text").collect()]
