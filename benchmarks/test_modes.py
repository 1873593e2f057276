"""One job, the same data, every way of running it: our three modes, stock Structured Streaming, plain batch.

- **batch**: all files as history, ``execution.runtime-mode = batch``; keeps no state.
- **mixed**: nine files as history, the tenth waits at the live source; state migrated and checkpointed.
- **streaming**: ten micro-batches of one file, ``execution.runtime-mode = streaming``.
- **stock streaming**: the same ten micro-batches by Spark itself, with its RocksDB state store.
- **plain batch**: Spark's ``groupBy().agg()`` without any state.

Rows go to ``noop`` sinks, so what is measured is reading, state, and checkpoints.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from workload import FILES, OUTPUT, SCHEMA, Size, Totals, write_input

AGGREGATE = Size.of("MIXEDMODE_BENCH_AGG", 2_000_000, 100_000)
PROCESSOR = Size.of("MIXEDMODE_BENCH_PROC", 100_000, 10_000)
ROUNDS = int(os.environ.get("MIXEDMODE_BENCH_ROUNDS", "3"))

Way = Callable[["Run"], None]


class Run:
    """What one timed run needs: the session, the input and a fresh checkpoint folder."""

    def __init__(self, spark: SparkSession, data: Path, checkpoints: Path) -> None:
        self.spark = spark
        self.data = data
        self.checkpoints = checkpoints

    @property
    def files(self) -> list[str]:
        return sorted(str(path) for path in self.data.glob("*.parquet"))

    def batch(self, files: list[str]) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(*files)

    def stream(self, folder: Path, files_per_batch: int | None) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return reader.parquet(str(folder))


# --- how to run -------------------------------------------------------------------------------------------------------


def ours(run: Run, frame: Any, keyed: Callable[[Any], Any], mode: str) -> None:
    """A job of ours from start to end."""
    query = (
        keyed(frame)
        .writeStream.format("noop")
        .outputMode("update")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(run.checkpoints))
        .option("execution.runtime-mode", mode)
        .start()
    )
    query.awaitTermination()


def batch(keyed: Callable[[Any], Any]) -> Way:
    return lambda run: ours(run, mixedmode.read(history=run.batch(run.files)), keyed, "batch")


def mixed(keyed: Callable[[Any], Any]) -> Way:
    def way(run: Run) -> None:
        *history, last = run.files
        waiting = run.checkpoints.with_name(f"{run.checkpoints.name}-waiting")
        waiting.mkdir()
        shutil.copy(last, waiting)
        ours(run, mixedmode.read(history=run.batch(history), live=run.stream(waiting, None)), keyed, "mixed")

    return way


def streaming(keyed: Callable[[Any], Any]) -> Way:
    return lambda run: ours(run, mixedmode.read(live=run.stream(run.data, 1)), keyed, "streaming")


def stock_streaming(keyed: Callable[[Any], Any]) -> Way:
    def way(run: Run) -> None:
        query = (
            keyed(run.stream(run.data, 1))
            .writeStream.format("noop")
            .outputMode("update")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(run.checkpoints))
            .start()
        )
        query.awaitTermination()
        assert len(query.recentProgress) >= FILES

    return way


def plain_batch(keyed: Callable[[Any], Any]) -> Way:
    return lambda run: keyed(run.batch(run.files)).write.format("noop").mode("overwrite").save()


# --- the jobs ---------------------------------------------------------------------------------------------------------


def aggregate(frame: Any) -> Any:
    """Declarative: four aggregates by key."""
    return frame.groupBy("key").agg(
        F.count("*").alias("rows"),
        F.sum("value").alias("total"),
        F.max("value").alias("most"),
        F.max("ts").alias("latest"),
    )


def processor(frame: Any) -> Any:
    """The same StatefulProcessor for us and for Spark."""
    return frame.groupBy("key").transformWithState(
        Totals(), outputStructType=OUTPUT, outputMode="update", timeMode="none"
    )


@pytest.fixture(scope="module", params=[("aggregate", AGGREGATE), ("processor", PROCESSOR)], ids=lambda p: p[0])
def job(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: Any) -> tuple[str, Size, Path]:
    """A job's name, size and input; the input is written once, outside of the measured time."""
    name, size = request.param
    folder = tmp_path_factory.mktemp(name) / "input"
    write_input(spark, size, folder)
    return name, size, folder


@pytest.fixture(scope="module")
def warm_up_input(spark: SparkSession, tmp_path_factory: Any) -> Path:
    """A little of the same data."""
    folder: Path = tmp_path_factory.mktemp("warm-up") / "input"
    write_input(spark, Size(1_000, 100), folder)
    return folder


WAYS: dict[str, Callable[[Callable[[Any], Any]], Way]] = {
    "plain batch": plain_batch,
    "batch": batch,
    "mixed": mixed,
    "streaming": streaming,
    "stock streaming": stock_streaming,
}


@pytest.mark.parametrize("way", WAYS)
def test_modes(
    benchmark: Any,
    spark: SparkSession,
    job: tuple[str, Size, Path],
    way: str,
    warm_up_input: Path,
    tmp_path: Path,
) -> None:
    """A job over a backlog, from start to complete checkpoint."""
    name, size, data = job
    if (name, way) == ("processor", "plain batch"):
        pytest.skip("Spark in batch keeps the state store for a processor: that is no plain batch")
    keyed = {"aggregate": aggregate, "processor": processor}[name]
    execute = WAYS[way](keyed)
    benchmark.group = f"{name}: {size}"
    benchmark.extra_info.update(way=way, rows=size.rows, keys=size.keys)
    # Python workers and compiled plans are there before the clock starts.
    execute(Run(spark, warm_up_input, tmp_path / "warm-up"))
    rounds = iter(range(ROUNDS))

    def fresh() -> tuple[tuple[Run], dict[str, Any]]:
        return (Run(spark, data, tmp_path / f"round-{next(rounds)}"),), {}

    benchmark.pedantic(execute, setup=fresh, rounds=ROUNDS)
