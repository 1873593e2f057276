"""Rows come to their shards with one exchange where Spark's plan allows it, and with one of our own elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import mixedmode
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import MisplacedRowsError
from mixedmode.runtime.catalyst.spark_session import PrivateSession
from mixedmode.runtime.jobs import stage_jobs
from mixedmode.runtime.jobs.shuffle import HashExchange, key_group
from mixedmode.runtime.tasks.shard import shard_task
from mixedmode.state.keys.keygroups import KeyGroupRange, bit_reversed, key_group_of, shard_of
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from session_options import session_options


@given(st.integers(0, 15).flatmap(lambda bits: st.tuples(st.just(2**bits), st.integers(0, 2**bits - 1))))
def test_reversing_bits_twice_changes_nothing(case: tuple[int, int]) -> None:
    """bit_reversed is its own inverse, so that it tells the shard of a partition and the partition of a shard."""
    size, number = case
    assert bit_reversed(bit_reversed(number, size), size) == number


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 10), st.integers(0, 5))
def test_a_partition_of_sparks_hash_partitioning_is_a_shard(key_hash: int, shard_bits: int, more_bits: int) -> None:
    """With powers of two, partition pmod(hash, n) of n holds exactly the key groups of one shard."""
    parallelism, max_parallelism = 2**shard_bits, 2 ** min(15, shard_bits + more_bits)
    group = key_group_of(key_hash, max_parallelism)
    assert shard_of(group, parallelism, max_parallelism) == bit_reversed(key_hash % parallelism, parallelism)


@pytest.mark.parametrize("max_parallelism", [1, 2, 100, 128, 256, 1_024, 32_768])
def test_spark_computes_the_key_group_of_the_contract(spark: SparkSession, max_parallelism: int) -> None:
    """The column and the pure function agree, for powers of two and for other numbers of key groups."""
    rows = spark.range(-500, 500).select("id", F.hash("id").alias("hash"), F.expr(key_group(["id"], max_parallelism)))
    assert all(group == key_group_of(key_hash, max_parallelism) for _, key_hash, group in rows.collect())


def test_an_adopted_frame_has_the_same_rows_schema_and_settings(spark: SparkSession) -> None:
    """Only the settings that were asked for differ, and the frame's own session is left as it was."""
    before = spark.conf.getAll
    frame = spark.range(3).select(F.col("id").alias("a b.c"), F.struct(F.lit(None).alias("x")).alias("s"))
    frame = frame.withMetadata("s", {"mark": 1})
    adopted = PrivateSession(spark, {"spark.sql.shuffle.partitions": "3"}).adopt(frame)
    assert adopted.schema == frame.schema
    assert adopted.schema["s"].metadata == {"mark": 1}
    assert sorted(adopted.collect()) == sorted(frame.collect())
    theirs = adopted.sparkSession.conf.getAll
    assert {name for name in theirs if theirs[name] != before.get(name)} <= {"spark.sql.shuffle.partitions"}
    assert spark.conf.getAll == before
    assert not [table for table in spark.catalog.listTables("global_temp") if table.name.startswith("mixedmode_")]


#: How large the table is that Spark's partial aggregation tries first.
TABLE = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
#: How many rows Spark hands to a Python worker at once.
BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Watched:
    """Notes what HashExchange.holds says about the jobs that are planned, and a setting of theirs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: list[bool] = []
        self.tables: list[str | None] = []
        self.batches: list[str | None] = []
        holds = HashExchange.holds

        def noted(exchange: HashExchange, job: DataFrame) -> bool:
            self.held.append(holds(exchange, job))
            self.tables.append(job.sparkSession.conf.get(TABLE, None))
            self.batches.append(job.sparkSession.conf.get(BATCH, None))
            return self.held[-1]

        monkeypatch.setattr(HashExchange, "holds", noted)


def totals(frame: DataFrame, keys: list[Any], **options: str) -> list[Row]:
    """Count and sum by key, by a job of ours over ``frame`` as history."""
    name = f"totals_{uuid.uuid4().hex}"
    writer = (
        mixedmode.read(history=frame)
        .groupBy(*keys)
        .agg(F.count("*").alias("n"), F.sum("v").alias("s"))
        .writeStream.outputMode("update")
        .format("memory")
        .queryName(name)
    )
    for option, value in options.items():
        writer = writer.option(option.replace("__", ".").replace("_", "-"), value)
    writer.start().awaitTermination()
    return sorted(frame.sparkSession.table(name).collect(), key=str)


def expected(frame: DataFrame, keys: list[Any]) -> list[Row]:
    rows = frame.groupBy(*keys).agg(F.count("*").alias("n"), F.sum("v").alias("s")).collect()
    return sorted(rows, key=str)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 2_000, 1, 3).select(
        (F.col("id") % 97).alias("k"),
        F.concat(F.lit("x"), F.col("id") % 5).alias("t"),
        F.when(F.col("id") % 7 > 0, F.col("id") / 8).alias("d"),
        F.timestamp_seconds(F.col("id")).alias("ts"),
        F.col("id").alias("v"),
    )


KEYS: dict[str, Callable[[], list[Any]]] = {
    "a number": lambda: ["k"],
    "two columns": lambda: ["t", "k"],
    "nulls and fractions": lambda: ["d"],
    "a computed key": lambda: [F.col("k") % 10],
    "a window": lambda: ["t", F.window("ts", "1 minute")],
    "a sliding window": lambda: [F.window("ts", "1 minute", "20 seconds"), "t"],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_aggregated_rows_stay_where_spark_has_put_them(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch, keys: Callable[[], list[Any]]
) -> None:
    """With four shards one exchange is enough for any kind of key, and the results are Spark's."""
    watched = Watched(monkeypatch)
    assert totals(frame, keys(), pipeline__parallelism="4") == expected(frame, keys())
    assert watched.held == [True]


@pytest.mark.parametrize(
    ("mode", "users", "table"), [("mixed", None, "21"), ("mixed", "12", "12"), ("streaming", None, None)]
)
def test_a_backlog_has_a_table_for_many_groups(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, users: str | None, table: str | None
) -> None:
    """In a backlog more keys than Spark's table takes by default are looked for in a larger one, and tasks are handed
    more rows at once; not in the stream, where epochs are small, and not if the user has said how large it is to be.
    The results are Spark's."""
    numbers = spark.range(0, 140_000, 1, 2) if table == "21" else spark.range(9)
    frame = numbers.selectExpr("hash(id % 70000) AS k", "id AS v")
    watched = Watched(monkeypatch)
    with session_options(spark, {} if users is None else {TABLE: users}):
        found = totals(frame, ["k"], execution__runtime_mode=mode, pipeline__parallelism="2")
    assert found == expected(frame, ["k"])
    assert set(watched.tables) == {table}
    assert set(watched.batches) == {None if mode == "streaming" else "65536"}


def exchanged(frame: DataFrame) -> DataFrame:
    return frame.repartition(3)


def one_partition(frame: DataFrame) -> DataFrame:
    return frame.coalesce(1)


def with_python(frame: DataFrame) -> DataFrame:
    return frame.withColumn("k", F.udf(lambda k: k + 1, "long")("k"))


@pytest.mark.parametrize("change", [exchanged, one_partition, with_python])
def test_other_plans_get_an_exchange_by_shard(frame: DataFrame, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """An input with exchanges, without any, or with Python code is exchanged by shard, with the same results."""
    watched = Watched(monkeypatch)
    changed = change(frame)
    assert totals(changed, ["k"], pipeline__parallelism="4") == expected(changed, ["k"])
    assert watched.held == [False]


def test_keys_may_name_what_only_the_users_session_has(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that calls a registered function or reads a session variable is planned in the user's session."""
    watched, spark = Watched(monkeypatch), frame.sparkSession
    spark.udf.register("plus_one", lambda k: k + 1, "long")
    spark.sql("DECLARE OR REPLACE VARIABLE slots BIGINT DEFAULT 3")
    try:
        for expression in ("plus_one(k) % 3", "k % slots"):
            keys = [F.expr(expression).alias("key")]
            assert totals(frame, keys, pipeline__parallelism="2") == expected(frame, keys)
    finally:
        spark.sql("DROP TEMPORARY VARIABLE slots")
        spark.sql("DROP TEMPORARY FUNCTION plus_one")
    assert True not in watched.held


def test_a_constant_key_that_spark_drops_is_seen_in_the_plan(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark groups by fewer expressions than it was told to, so its partitions are not the shards."""
    watched = Watched(monkeypatch)
    keys = [F.lit(1).alias("one"), "k"]
    assert totals(frame, keys, pipeline__parallelism="2") == expected(frame, keys)
    assert watched.held == [False]


@pytest.mark.parametrize(("parallelism", "groups"), [("3", "128"), ("2", "100")])
def test_numbers_that_are_no_powers_of_two_get_an_exchange_by_shard(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch, parallelism: str, groups: str
) -> None:
    """Three shards, or a hundred key groups, work as well."""
    watched = Watched(monkeypatch)
    options = {"pipeline__parallelism": parallelism, "pipeline__max_parallelism": groups}
    assert totals(frame, ["k"], **options) == expected(frame, ["k"])
    assert watched.held == []


def test_misplaced_rows_are_noticed_and_exchanged_by_shard(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If partitions are not the shards that the plan made us expect, tasks refuse and the epoch runs another way."""

    class Wrong(HashExchange):
        def __init__(self, *args: Any, **others: Any) -> None:
            super().__init__(*args, **others)
            self.shards = self.shards[::-1]

    monkeypatch.setattr(stage_jobs, "HashExchange", Wrong)
    assert totals(frame, ["k"], pipeline__parallelism="2") == expected(frame, ["k"])
    assert "from now on rows are moved to their shards by a shuffle of their own" in caplog.text


def test_a_task_refuses_rows_of_another_shard() -> None:
    """The key groups of every batch are looked at, so no key can have state in two shards."""
    batch = pa.RecordBatch.from_pydict({"__kg": pa.array([3, 4], pa.int32())})
    assert list(shard_task.checked_rows(iter([batch]), 0, KeyGroupRange(0, 4))) == [batch]
    with pytest.raises(MisplacedRowsError, match="shard 0 was given rows of the key groups 3 to 4, but owns 0 to 3"):
        list(shard_task.checked_rows(iter([batch]), 0, KeyGroupRange(0, 3)))
