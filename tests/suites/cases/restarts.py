"""Queries that are others after a restart: another processor, mode, setting, or columns of the input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import functions as F

from ..case import CASES, RESTART, Case, Read, Restart, case
from .event_time import TWO, the_greatest_watermark, timed
from .processor_support import Steps, transformed
from .processors import FIRST, PANDAS, QUIET, READINGS, ROWS, SCALA, SECOND

WORDS = {"in": "key string"}
ONCE_MORE = {"inputs": WORDS, "mode": "update"}


class Count(Steps):
    """Counts the rows of a key; ``as_int``, ``as_list``, ``ttl_ms``: how it keeps the number."""

    def declare(self, handle: Any) -> None:
        if self.as_list:
            self.several = handle.getListState("seen", "n long")
        elif self.ttl_ms:
            self.seen = handle.getValueState("seen", "n long", self.ttl_ms)
        else:
            self.seen = handle.getValueState("seen", f"n {'int' if self.as_int else 'long'}")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        if self.as_list:
            self.several.appendValue((len(rows),))
            return [{"key": key[0], "n": str(sum(one[0] for one in self.several.get()))}]
        n = (self.seen.get() or (0,))[0] + len(rows)
        self.seen.update((n,))
        return [{"key": key[0], "n": str(n)}]


def counting(output_mode: str = "update", time_mode: str = "none", **kept: Any) -> Callable[[Read], Any]:
    """A query that counts."""
    processor = Count(**{"as_int": False, "as_list": False, "ttl_ms": 0, **kept})

    def query(read: Read) -> Any:
        return transformed(
            read("in"), ["key"], processor, "key string, n string", output_mode=output_mode, time_mode=time_mode
        )

    return query


def _then(test: str, name: str, refused: str, first: Callable[[Read], Any], then: Callable[[Read], Any]) -> None:
    """A test of Spark in which another query is refused the state of the first one.


    Without micro-batches without rows: those of a processor in processing time would never end.
    """
    steps = [{"in": ["a"]}, Restart(then, refused=refused), {"in": ["a"]}]
    CASES.append(Case(name, ((SCALA, test),), first, WORDS, steps, "update", session=QUIET))


_then(
    "test that invalid schema evolution fails query for column family",
    "narrower_state",
    "SCHEMA",
    counting(),
    counting(as_int=True),
)
_then(
    "test that different outputMode after query restart fails",
    "another_output_mode",
    "outputMode",
    counting(),
    counting("append"),
)
_then(
    "test that changing between different state variable types fails",
    "another_kind_of_variable",
    "VARIABLE_TYPE",
    counting(),
    counting(as_list=True),
)
_then(
    "test that different timeMode after query restart fails",
    "another_time_mode",
    "timeMode",
    counting(),
    counting(time_mode="processingTime"),
)
_then(
    "test that introducing TTL after restart fails query",
    "ttl_from_now_on",
    "SCHEMA",
    counting(time_mode="processingTime"),
    counting(time_mode="processingTime", ttl_ms=3_600_000),
)


class CountAndLast(Steps):
    """The number of a key's rows, and that of its last call; ``drops``: it deletes the second variable."""

    def declare(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n long")
        if self.drops:
            handle.deleteIfExists("last")
        else:
            self.last = handle.getValueState("last", "n long")

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        n = (self.seen.get() or (0,))[0] + len(rows)
        self.seen.update((n,))
        last = None
        if not self.drops:
            last = (self.last.get() or (None,))[0]
            self.last.update((len(rows),))
        return [{"key": key[0], "n": n, "last": last}]


def _with_last(drops: bool) -> Callable[[Read], Any]:
    def query(read: Read) -> Any:
        return transformed(read("in"), ["key"], CountAndLast(drops=drops), "key string, n long, last long")

    return query


@case(
    SCALA,
    "transformWithState - test deleteIfExists operator",
    **ONCE_MORE,
    steps=[
        {"in": ["a"]},
        {"in": ["b", "a"]},
        Restart(_with_last(True)),
        {"in": ["a", "b"]},
        Restart(_with_last(False)),
        {"in": ["a", "c"]},
    ],
)
def variable_that_is_deleted(read: Read) -> Any:
    return _with_last(False)(read)


class Record(Steps):
    """A record of each key, whose fields change from version to version: the one before, and the one that it keeps."""

    def declare(self, handle: Any) -> None:
        self.state = handle.getValueState("state", self.schema)

    def rows(self, key: Any, rows: list[Any], times: Any) -> Iterable[dict[str, Any]]:
        names = [field.split()[0] for field in self.schema.split(", ")]
        before = self.state.get()
        values = {"id": int(key[0]), "name": f"name-{key[0]}", "count": 100, "active": True, "score": 99.5}
        if before is not None:
            values.update({name: one for name, one in zip(names, before, strict=True) if one is not None})
        self.state.update(tuple(values[name] for name in names))
        shown = None if before is None else json.dumps(dict(zip(names, before, strict=True)))
        return [{"id": key[0], "before": shown, "now": json.dumps({name: values[name] for name in names})}]


BASIC = "id int, name string"
MORE = "id int, name string, count int, active boolean, score double"
WIDER = "id long, name string"
AVRO = {**QUIET, "spark.sql.streaming.stateStore.encodingFormat": "avro"}


def _record(schema: str, in_pandas: bool) -> Callable[[Read], Any]:
    def query(read: Read) -> Any:
        shown = "id string, before string, now string"
        return transformed(read("in"), ["id"], Record(in_pandas, schema=schema), shown)

    return query


def _evolution(test: str, name: str, *versions: str, refused: str = "") -> None:
    for in_pandas in (False, True):
        suite = PANDAS if in_pandas else ROWS
        steps: list[Any] = [{"in": FIRST}]
        for place, version in enumerate(versions[1:], start=2):
            is_last = place == len(versions)
            steps += [Restart(_record(version, in_pandas), refused=refused if is_last else ""), {"in": SECOND}]
        first = _record(versions[0], in_pandas)
        label = f"{name}_{'pandas' if in_pandas else 'rows'}"
        CASES.append(Case(label, ((suite, test),), first, READINGS, steps, "update", session=AVRO))


_evolution("test_schema_evolution_scenarios", "evolving_record", BASIC, MORE, BASIC, "name string, id int", WIDER)
_evolution("test_schema_evolution_fails", "narrowed_record", MORE, WIDER, BASIC, refused="SCHEMA_EVOLUTION")


def _by_key(read: Read) -> Any:
    return read("in").dropDuplicates(["id"])


DEDUP = "SPARK-39650: duplicate with specific keys should allow input to change schema"
PEOPLE = {"in": "id string, value int"}
WITH_CITY = {"in": "id string, value int, city string"}
PEOPLE_STEPS = [{"in": [("a", 1)]}, {"in": [("a", 2), ("b", 3)]}]
CITY_STEPS = [{"in": [("a", 5, "a"), ("b", 2, "b"), ("c", 9, "c")]}]


def _without_city(rows: Any) -> Any:
    """With the columns that come later."""
    return rows.withColumn("city", F.lit(None).cast("string"))


@case(
    "StreamingDeduplicationSuite",
    DEDUP,
    inputs=PEOPLE,
    steps=[*PEOPLE_STEPS, Restart(_by_key, inputs=WITH_CITY), *CITY_STEPS],
)
def first_of_a_key_with_more_columns(read: Read) -> Any:
    return _without_city(_by_key(read))


def _within(read: Read) -> Any:
    rows = read("in").withColumn("eventTime", F.timestamp_seconds("value")).withWatermark("eventTime", "10 seconds")
    return rows.dropDuplicatesWithinWatermark(["id"]).drop("eventTime")


@case(
    "StreamingDeduplicationWithinWatermarkSuite",
    DEDUP,
    inputs=PEOPLE,
    steps=[*PEOPLE_STEPS, Restart(_within, inputs=WITH_CITY), *CITY_STEPS],
)
def first_of_a_while_with_more_columns(read: Read) -> Any:
    return _without_city(_within(read))


def _least(read: Read) -> Any:
    rows = timed(read, "10 seconds", "one").union(timed(read, "15 seconds", "two"))
    counts = rows.groupBy(F.window("eventTime", "10 seconds").alias("window")).count()
    return counts.select(F.col("window.start").cast("long").alias("start"), "count")


POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


IGNORED = "MultipleWatermarkPolicy: recovery from checkpoints ignores session conf"


@case(
    "EventTimeWatermarkSuite",
    IGNORED,
    inputs=TWO,
    steps=[
        {"one": [20], "two": [30]},
        Restart(session={POLICY: "min"}),
        {"one": [120], "two": [130]},
        {"one": [150]},
    ],
    session={POLICY: "max"},
)
def greatest_watermark_whatever_the_session_says_later(read: Read) -> Any:
    return the_greatest_watermark(read)


@case(
    "EventTimeWatermarkSuite",
    IGNORED,
    inputs=TWO,
    steps=[
        {"one": [20], "two": [30]},
        Restart(session={POLICY: "max"}),
        {"one": [120], "two": [130]},
        {"one": [150], "two": [135]},
        RESTART,
        {"one": [160], "two": [140]},
    ],
    session={POLICY: "min"},
)
def least_watermark_whatever_the_session_says_later(read: Read) -> Any:
    return _least(read)
