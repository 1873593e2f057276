"""Processors: TransformWithStateSuite, and test_transform_with_state.py for rows and for pandas frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from ..case import CASES, RESTART, Case, Read, case
from .processor_support import Steps, transformed

SCALA = "TransformWithStateSuite"
ROWS, PANDAS = "test_transform_with_state.py", "test_pandas_transform_with_state.py"
VARIABLES, PANDAS_VARIABLES = (
    "test_transform_with_state_state_variable.py",
    "test_pandas_transform_with_state_state_variable.py",
)
#: Spark's Python tests run without micro-batches without rows.
QUIET = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
READINGS = {"in": "id string, temperature int"}
FIRST = [("0", 123), ("0", 46), ("1", 146), ("1", 346)]
SECOND = [("0", 123), ("0", 223), ("0", 323), ("1", 246), ("1", 6)]
Query = Callable[[Read, bool], Any]


def python(*tests: str, variables: bool | None = False, **settings: Any) -> Callable[[Query], Query]:
    """Add a query to the cases, once for rows and once for pandas frames.

    Args:
        tests: names of Spark's tests.
        variables: whether they are of the files about state variables; None: of both.
        settings: of the case.
    """

    def keep(query: Query) -> Query:
        for in_pandas in (False, True):
            files = (PANDAS, PANDAS_VARIABLES) if in_pandas else (ROWS, VARIABLES)
            suites = files if variables is None else files[variables : variables + 1]
            names = tuple((suite, test) for suite in suites for test in tests)
            name = f"{query.__name__}_{'pandas' if in_pandas else 'rows'}"
            given = {"inputs": READINGS, "steps": [{"in": FIRST}, {"in": SECOND}], "mode": "update", "session": QUIET}
            made = Case(name, names, lambda read, in_pandas=in_pandas: query(read, in_pandas), **{**given, **settings})
            CASES.append(made)
        return query

    return keep


class ThreeTimes(Steps):
    """Counts the rows of a key; at three it forgets it without a word."""

    def declare(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        n = (self.seen.get() or (0,))[0] + len(rows)
        if n >= 3:
            self.seen.clear()
            return []
        self.seen.update((n,))
        return [{"key": key[0], "n": str(n)}]


def counted(frame: Any) -> Any:
    return transformed(frame, ["key"], ThreeTimes(), "key string, n string")


@case(
    SCALA,
    "transformWithState - streaming with rocksdb should succeed",
    inputs={"in": "key string"},
    mode="update",
    steps=[{"in": ["a"]}, {"in": ["a", "b"]}, RESTART, {"in": ["a", "b"]}, RESTART, {"in": ["a", "c"]}],
)
def running_count(read: Read) -> Any:
    return counted(read("in"))


@case(
    SCALA,
    "transformWithState - two input streams",
    inputs={"one": "key string", "two": "key string"},
    mode="update",
    steps=[{"one": ["a"]}, {"two": ["a", "b"]}, {"one": ["a", "b"]}, {"one": ["d", "e"], "two": ["a", "c"]}],
)
def two_streams(read: Read) -> Any:
    return counted(read("one").union(read("two")))


@case(
    SCALA,
    "transformWithState - three input streams",
    inputs={"one": "key string", "two": "key string", "three": "key string"},
    mode="update",
    steps=[
        {"one": ["a"]},
        {"two": ["a", "b"]},
        {"three": ["a", "b"]},
        {"one": ["d", "e"], "two": ["a", "c"]},
        {"three": ["a", "c", "d", "e"]},
    ],
)
def three_streams(read: Read) -> Any:
    return counted(read("one").union(read("two")).union(read("three")))


@case(
    SCALA,
    "transformWithState - two input streams, different key type",
    inputs={"one": "key string", "two": "number long"},
    mode="update",
    steps=[{"one": ["1"]}, {"two": [1, 2]}, {"one": ["1", "2"]}, {"one": ["4", "5"], "two": [1, 3]}],
)
def two_types_of_keys(read: Read) -> Any:
    return counted(read("one").union(read("two").select(F.col("number").cast("string").alias("key"))))


@case(
    SCALA,
    "transformWithState - availableNow trigger mode, rate limit is respected",
    "transformWithState - availableNow trigger mode, multiple restarts",
    inputs={"in": "key string"},
    mode="update",
    steps=[{"in": ["a"]}, {"in": ["b"]}, {"in": ["c"]}, RESTART, {"in": ["a"]}, {"in": ["b"]}, RESTART, {"in": ["d"]}],
)
def nightly_runs(read: Read) -> Any:
    return counted(read("in"))


class StateInInit(Steps):
    """Uses a state variable where there is no key."""

    def declare(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n long")
        self.seen.update((1,))

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        return [{"key": key[0], "n": "1"}]


@case(
    SCALA,
    "transformWithState - streaming with rocksdb and invalid processor should fail",
    inputs={"in": "key string"},
    mode="update",
    steps=[{"in": ["a"]}],
    refused="terminated with exception",
)
def state_in_init(read: Read) -> Any:
    return transformed(read("in"), ["key"], StateInInit(), "key string, n string")


class LastTime(Steps):
    """The greatest event time of a key so far; five seconds behind it the key ends."""

    def declare(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "seconds long")
        self.due = handle.getValueState("due", "ms long")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        last = max([(self.last.get() or (0,))[0], *(row.seconds for row in rows)])
        before, due = (self.due.get() or (0,))[0], (last + 5) * 1000
        self.last.update((last,))
        if due > before:
            if before:
                self.handle.deleteTimer(before)
            self.handle.registerTimer(due)
            self.due.update((due,))
        return [{"key": key[0], "last": last}]

    def initial(self, key: Any, row: Any, times: Any) -> None:
        self.rows(key, [row], times)

    def timer(self, key: Any, expired_ms: int, times: Any) -> Iterable[dict[str, Any]]:
        self.last.clear()
        return [{"key": key[0], "last": -1}]


def timed(rows: Any) -> Any:
    return rows.withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "10 seconds")


@case(
    SCALA,
    "transformWithState - streaming with rocksdb and event time based timer",
    inputs={"in": "key string, seconds long"},
    mode="update",
    keys=("key",),
    steps=[{"in": [("a", 11), ("a", 13), ("a", 15)]}, {"in": [("a", 4)]}, {"in": [("a", 10)]}, {"in": [("b", 31)]}],
)
def event_time_timer(read: Read) -> Any:
    return transformed(timed(read("in")), ["key"], LastTime(), "key string, last long", time_mode="eventTime")


class Hot(Steps):
    """Counts readings above 100 so far; a variable that is deleted in ``init`` is of no use."""

    def declare(self, handle: Any) -> None:
        self.hot = handle.getValueState("hot", "n int", **({"ttlDurationMs": self.ttl_ms} if self.ttl_ms else {}))
        self.gone = handle.getValueState("gone", "n int")
        handle.deleteIfExists("gone")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        try:
            self.gone.exists()
        except Exception:
            hot = (self.hot.get() or (0,))[0] + sum(row.temperature > 100 for row in rows)
            self.hot.update((hot,))
            return [{"id": key[0], "rows": len(rows), "hot": hot}]
        raise AssertionError("a deleted variable can be used")


def hot(read: Read, in_pandas: bool, ttl_ms: int = 0) -> Any:
    processor = Hot(in_pandas, ttl_ms=ttl_ms)
    mode = "processingTime" if ttl_ms else "none"
    return transformed(read("in"), ["id"], processor, "id string, rows long, hot int", time_mode=mode)


@python("test_transform_with_state_basic", variables=None)
def basic(read: Read, in_pandas: bool) -> Any:
    return hot(read, in_pandas)


@python("test_transform_with_state_query_restarts", steps=[{"in": FIRST}, RESTART, {"in": SECOND}])
def restarts(read: Read, in_pandas: bool) -> Any:
    return hot(read, in_pandas)


@python("test_value_state_ttl_basic", variables=True)
def value_with_long_ttl(read: Read, in_pandas: bool) -> Any:
    return hot(read, in_pandas, ttl_ms=3_600_000)


class AtWatermark(Steps):
    """The greatest event time so far, and a timer at the watermark of the call, which forgets it."""

    def declare(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "seconds long")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        last = max([(self.last.get() or (0,))[0], *(row.seconds for row in rows)])
        self.last.update((last,))
        self.handle.registerTimer(times.getCurrentWatermarkInMs())
        return [{"key": key[0], "at": last}]

    def timer(self, key: Any, expired_ms: int, times: Any) -> Iterable[dict[str, Any]]:
        self.last.clear()
        return [{"key": f"{key[0]} expired", "at": expired_ms}]


TIMED = {"in": "key string, seconds long"}
OUT_OF_ORDER = [{"in": [("a", 20)]}, {"in": [("a", 4)]}, {"in": [("a", 2), ("a", 11), ("a", 13), ("a", 15)]}]


@python(
    "test_transform_with_state_event_time",
    "test_transform_with_state_with_timers_single_partition",
    inputs=TIMED,
    steps=OUT_OF_ORDER,
    event_time=1,
    why="A processor with timers is called once an event time, and rows of event time t see t minus the delay, where"
    " stock shows the watermark of the micro-batch before; this one sets its timer at what it sees.",
)
def timer_at_the_watermark(read: Read, in_pandas: bool) -> Any:
    return transformed(timed(read("in")), ["key"], AtWatermark(in_pandas), "key string, at long", time_mode="eventTime")


class Least(Steps):
    """The least event time of the rows of a call."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        return [{"key": key[0], "at": min(row.seconds for row in rows)}]


@python("test_transform_with_state_with_wmark_and_non_event_time", inputs=TIMED, steps=OUT_OF_ORDER)
def watermark_without_event_time(read: Read, in_pandas: bool) -> Any:
    return transformed(timed(read("in")), ["key"], Least(in_pandas), "key string, at long")


@python("test_transform_with_state_with_wmark_and_non_event_time", inputs=TIMED, steps=OUT_OF_ORDER)
def watermark_and_processing_time(read: Read, in_pandas: bool) -> Any:
    schema = "key string, at long"
    return transformed(timed(read("in")), ["key"], Least(in_pandas), schema, time_mode="processingTime")


class Total(Steps):
    """The sum of the readings so far, on top of what there was at the beginning."""

    def declare(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        total = (self.total.get() or (0,))[0] + sum(row.temperature for row in rows)
        self.total.update((total,))
        named = dict(zip(("id", "other"), key, strict=False))
        return [{**named, "total": total}]

    def initial(self, key: Any, row: Any, times: Any) -> None:
        self.total.update(((self.total.get() or (0,))[0] + int(row.start),))


APART = {"in": "id string, temperature int, other string"}
APART_STEPS = [{"in": [("0", 123, "1"), ("0", 46, "1"), ("1", 146, "2"), ("1", 346, "2")]}]


def static(read: Read, rows: list[Any], schema: str) -> Any:
    return read("in").sparkSession.createDataFrame(rows, schema)


@python("test_transform_with_state_non_contiguous_grouping_cols", inputs=APART, steps=APART_STEPS)
def keys_apart(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id", "other"], Total(in_pandas), "id string, other string, total long")


@python("test_transform_with_state_non_contiguous_grouping_cols_with_init_state", inputs=APART, steps=APART_STEPS)
def keys_apart_with_initial_state(read: Read, in_pandas: bool) -> Any:
    initial = static(read, [(789, "0", "1"), (987, "3", "2")], "start int, id string, other string")
    schema = "id string, other string, total long"
    return transformed(read("in"), ["id", "other"], Total(in_pandas), schema, initial=initial)


@python("test_transform_with_state_init_state", variables=True, steps=[{"in": FIRST}, {"in": [("0", 67), ("3", 12)]}])
def initial_state(read: Read, in_pandas: bool) -> Any:
    initial = static(read, [("0", 789), ("3", 987)], "id string, start int")
    return transformed(read("in"), ["id"], Total(in_pandas), "id string, total long", initial=initial)


@python(
    "test_transform_with_state_init_state_with_extra_transformation",
    variables=True,
    steps=[{"in": FIRST}, {"in": [("0", 67), ("3", 12)]}],
)
def initial_state_and_projection(read: Read, in_pandas: bool) -> Any:
    totals = initial_state(read, in_pandas)
    return totals.select(F.col("id").alias("key"), F.to_json(F.struct("total")).alias("value"))


@python(
    "test_transform_with_state_restart_with_multiple_rows_init_state",
    variables=True,
    steps=[{"in": FIRST}, {"in": [("0", 67), ("3", 12)]}],
)
def initial_state_of_several_rows(read: Read, in_pandas: bool) -> Any:
    initial = static(read, [("0", 20), ("0", 111), ("3", 120), ("0", 20)], "id string, start int")
    return transformed(read("in"), ["id"], Total(in_pandas), "id string, total long", initial=initial)


class Passed(Steps):
    """The event time of a key's first row."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        return [{"key": key[0], "at": rows[0].time}]


@python(
    "test_transform_with_state_chaining_ops",
    inputs=TIMED,
    mode="append",
    steps=[{"in": [("a", 10), ("b", 15)]}, {"in": [("a", 11), ("c", 25)]}, {"in": [("a", 8)]}],
)
def chained(read: Read, in_pandas: bool) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "5 seconds")
    schema = "key string, at timestamp"
    passed = transformed(
        rows, ["key"], Passed(in_pandas), schema, output_mode="append", time_mode="eventTime", event_time="at"
    )
    return passed.groupBy("at").count()


@python(
    "test_transform_with_state_chaining_ops",
    inputs=TIMED,
    mode="append",
    steps=[{"in": [("a", 10), ("b", 15)]}, {"in": [("a", 11), ("c", 25)]}, {"in": [("a", 8)]}],
)
def chained_with_key(read: Read, in_pandas: bool) -> Any:
    rows = read("in").withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "5 seconds")
    schema = "key string, at timestamp"
    passed = transformed(
        rows, ["key"], Passed(in_pandas), schema, output_mode="append", time_mode="eventTime", event_time="at"
    )
    return passed.groupBy("at", "key").count()


class Nested(Steps):
    """State with arrays, maps and structs inside, in all three kinds of variables."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "last int, every array<int>")
        self.several = handle.getListState("several", "pair array<int>")
        self.named = handle.getMapState("named", "name string", "by map<string, int>, more array<struct<n: int>>")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        total = sum(row.temperature for row in rows)
        _, every = self.value.get() or (0, [])
        self.value.update((total, [*every, total]))
        self.several.appendValue(([total, len(rows)],))
        before = self.named.getValue(("sum",)) if self.named.containsKey(("sum",)) else ({}, [])
        self.named.updateValue(("sum",), ({**before[0], str(total): total}, [(total,)]))
        return [
            {
                "id": key[0],
                "every": json.dumps(list(self.value.get()[1])),
                "several": json.dumps([list(one[0]) for one in self.several.get()]),
                "named": json.dumps([[k[0], v[0], [one[0] for one in v[1]]] for k, v in self.named.iterator()]),
            }
        ]


@python("test_transform_with_state_in_pandas_composite_type")
def composite_state(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], Nested(in_pandas), "id string, every string, several string, named string")


class Composite(Steps):
    """Lists, maps and structs in the output."""

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        numbers = [row.temperature for row in rows]
        structs = [{"n": n, "half": n / 2, "words": [f"w{n}"], "by": {f"k{n}": str(n)}} for n in numbers]
        return [
            {
                "id": key[0],
                "words": [f"item {n}" for n in numbers],
                "by": {str(n): f"value {n}" for n in numbers},
                "structs": structs,
                "nested": {f"s{n}": one for n, one in zip(numbers, structs, strict=True)},
            }
        ]


@python("test_composite_output_schema")
def composite_output(read: Read, in_pandas: bool) -> Any:
    inner = "struct<n: int, half: double, words: array<string>, by: map<string, string>>"
    schema = f"id string, words array<string>, by map<string, string>, structs array<{inner}>"
    return transformed(read("in"), ["id"], Composite(in_pandas), f"{schema}, nested map<string, {inner}>")


class Large(Steps):
    """Values of half a megabyte in all three kinds of variables."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "text string")
        self.several = handle.getListState("several", "text string")
        self.named = handle.getMapState("named", "name string", "text string")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        text = "a" * 512 * 1024
        self.value.update((text,))
        self.several.put([(text,), (text + "b",)])
        self.several.appendList([(text + "c",)])
        self.named.updateValue(("key",), (text,))
        found = [self.value.get()[0], *(one[0] for one in self.several.get()), self.named.getValue(("key",))[0]]
        return [{"id": key[0], "texts": " ".join(f"{len(one)}{one[-1]}" for one in found)}]


@python("test_transform_with_state_large_values", steps=[{"in": FIRST}])
def large_values(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], Large(in_pandas), "id string, texts string")


class NeverSet(Steps):
    """A value that nothing is put in: it is not there, gives nothing, and can be cleared."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n int")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found = [self.value.exists(), self.value.get() is None]
        self.value.clear()
        return [{"id": key[0], "found": json.dumps(found)}]


@python("test_transform_with_state_non_exist_value_state", variables=True, steps=[{"in": FIRST}])
def value_that_is_not_there(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], NeverSet(in_pandas), "id string, found string")


class Lists(Steps):
    """Every operation on a list."""

    def declare(self, handle: Any) -> None:
        more = {"ttlDurationMs": self.ttl_ms} if self.ttl_ms else {}
        self.one = handle.getListState("one", "n int", **more)
        self.other = handle.getListState("other", "n int, at timestamp", **more)

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found: list[Any] = [self.one.exists(), [one[0] for one in self.one.get()]]
        for row in rows:
            self.one.appendValue((row.temperature,))
        self.one.appendList([(20,), (111,)])
        first, second = self.one.get(), self.one.get()  # two at a time
        found += [[next(first)[0], next(second)[0], next(first)[0]], [one[0] for one in self.one.get()]]
        self.other.put([(n, None) for n in range(3)])
        self.other.put([(n + 10, None) for n in range(2)])
        found.append([[one[0], one[1]] for one in self.other.get()])
        self.other.clear()
        found.append(self.other.exists())
        return [{"id": key[0], "found": json.dumps(found)}]


@python("test_transform_with_state_list_state", variables=True)
def lists(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], Lists(in_pandas, ttl_ms=0), "id string, found string")


@python("test_transform_with_state_list_state_large_ttl", variables=True)
def lists_with_long_ttl(read: Read, in_pandas: bool) -> Any:
    processor = Lists(in_pandas, ttl_ms=3_600_000)
    return transformed(read("in"), ["id"], processor, "id string, found string", time_mode="processingTime")


class LongList(Steps):
    """A list that grows by 100 elements, then by 90."""

    def declare(self, handle: Any) -> None:
        self.long = handle.getListState("long", "n int")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        before = [one[0] for one in self.long.get()]
        if before:
            self.long.appendList([(n,) for n in range(len(before), len(before) + 90)])
        else:
            self.long.put([(n,) for n in range(100)])
        return [{"id": key[0], "before": json.dumps(before), "now": json.dumps([one[0] for one in self.long.get()])}]


@python("test_transform_with_state_list_state_large_list", variables=True)
def long_lists(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], LongList(in_pandas), "id string, before string, now string")


class Maps(Steps):
    """Every operation on a map."""

    def declare(self, handle: Any) -> None:
        more = {"ttlDurationMs": self.ttl_ms} if self.ttl_ms else {}
        self.map = handle.getMapState("map", "name string", "n int", **more)

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        found: list[Any] = [self.map.exists(), self.map.containsKey(("k1",))]
        self.map.updateValue(("k1",), (len(rows),))
        self.map.updateValue(("k2",), (sum(row.temperature for row in rows),))
        self.map.updateValue(("k1",), (len(rows) + 1,))
        found += [self.map.getValue(("k1",))[0], sorted(k[0] for k in self.map.keys())]  # noqa: SIM118
        found += [sorted(v[0] for v in self.map.values()), sorted([k[0], v[0]] for k, v in self.map.iterator())]
        self.map.removeKey(("k1",))
        found += [self.map.containsKey(("k1",)), self.map.exists()]
        if len(rows) > 2:
            self.map.clear()
            found.append(self.map.exists())
        return [{"id": key[0], "found": json.dumps(found)}]


@python("test_transform_with_state_map_state", variables=True)
def maps(read: Read, in_pandas: bool) -> Any:
    return transformed(read("in"), ["id"], Maps(in_pandas, ttl_ms=0), "id string, found string")


@python("test_transform_with_state_map_state_large_ttl", variables=True)
def maps_with_long_ttl(read: Read, in_pandas: bool) -> Any:
    processor = Maps(in_pandas, ttl_ms=3_600_000)
    return transformed(read("in"), ["id"], processor, "id string, found string", time_mode="processingTime")


class Frames(StatefulProcessor):
    """In how many frames the rows of a call come; a row of the initial state counts for ten."""

    def init(self, handle: Any) -> None:
        self.start = handle.getValueState("start", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        import pandas as pd

        n = sum(1 for _ in rows) + (self.start.get() or (0,))[0]
        yield pd.DataFrame({"id": [key[0]], "frames": [n]})

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.start.update(((self.start.get() or (0,))[0] + 10 * len(initialState),))


def _limited(test: str, name: str, setting: str, *values: str) -> None:
    """A test of how many rows a frame has, with a limit that cuts and one that does not."""

    def query(read: Read) -> Any:
        return read("in").groupBy("id").transformWithStateInPandas(Frames(), "id string, frames long", "update", "none")

    def started(read: Read) -> Any:
        initial = static(read, [("0", 789), ("3", 987)], "id string, start int").groupBy("id")
        rows = read("in").groupBy("id")
        return rows.transformWithStateInPandas(Frames(), "id string, frames long", "update", "none", initial)

    for value in values:
        for label, made in (("", query), ("_with_initial_state", started)):
            steps = [{"in": FIRST}, {"in": SECOND}]
            session = {**QUIET, f"spark.sql.execution.arrow.{setting}": value}
            full = f"{name}_{value}{label}"
            why = "With an initial state, Spark estimates the bytes of rows otherwise, and cuts frames elsewhere."
            CASES.append(Case(full, ((PANDAS, test),), made, READINGS, steps, "update", session=session, why=why))


_limited("test_transform_with_state_with_bytes_limit", "frames_of_so_many_bytes", "maxBytesPerBatch", "20", "100000")
_limited("test_transform_with_state_with_records_limit", "frames_of_so_many_rows", "maxRecordsPerBatch", "1", "100")
