"""What it costs that a backlog's event-time timers fire between the rows of their key, by event times a key has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
import pytest
from dataset import START_S, Dataset, Shape, dataset
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from race import Race, ratio
from workload import timed_processor

AFTER_ROWS, IN_ORDER, STOCK = "after-rows", "in-order", "stock, ten micro-batches"
WARM_UP = Shape(1_000, 100)


@pytest.mark.parametrize("times", [2, 10])
def test_timers(benchmark: Any, spark: SparkSession, bench: Any, times: int) -> None:
    """One processor, whose every call sets a timer anew, in both orders and by stock; the keys have so many times."""
    sizes = bench.sizes
    shape = Shape(sizes.processor_rows, sizes.processor_keys)
    title = f"Backlog, processor with timers, {times} event times a key: {shape}"
    begun = bench.begin(f"timers-{times}", title, shape=shape.name, times=times, rounds=sizes.rounds)
    for way in _ways(spark, dataset(WARM_UP), times).values():
        with bench.scratch() as folder:
            way(folder)
    ways = _ways(spark, dataset(shape), times)
    rounds = {name: sizes.slow_rounds if name == STOCK else sizes.rounds for name in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    calls = _calls(spark, dataset(shape), times)
    extra_s = median(seconds[IN_ORDER]) - median(seconds[AFTER_ROWS])
    each_us = median(seconds[IN_ORDER]) / calls * 1e6
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=(AFTER_ROWS, STOCK),
        findings={
            f"timers-{times}-stock": ratio(seconds, IN_ORDER, STOCK),
            **({"timers-order": 1 / ratio(seconds, IN_ORDER, AFTER_ROWS)} if times == 2 else {}),
        },
        notes=(
            f"in-order: {calls / shape.keys:.1f} calls a key instead of 1;"
            f" {extra_s / (calls - shape.keys) * 1e6:.1f} µs of the machine for each further one,"
            f" {each_us:.1f} µs for a call in all",
        ),
    )


def _ways(spark: SparkSession, data: Dataset, times: int) -> dict[str, Callable[[Path], None]]:
    return {
        AFTER_ROWS: partial(_ours, spark, data, times, AFTER_ROWS),
        IN_ORDER: partial(_ours, spark, data, times, IN_ORDER),
        STOCK: partial(_stock, spark, data, times),
    }


def _ours(spark: SparkSession, data: Dataset, times: int, order: str, folder: Path) -> None:
    """All files as history, under the observed watermark: one sorted pass, state migrated, checkpoint complete."""
    frame = mixedmode.read(history=spark.read.schema(data.shape.ddl).parquet(*data.files))
    query = (
        timed_processor(_with_times(frame, data.shape, times))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("execution.backlog.final-watermark", "observed")
        .option("pipeline.timers", order)
        .start()
    )
    query.awaitTermination()


def _stock(spark: SparkSession, data: Dataset, times: int, folder: Path) -> None:
    """Structured Streaming, a micro-batch for each file."""
    frame = spark.readStream.schema(data.shape.ddl).option("maxFilesPerTrigger", 1).parquet(str(data.folder))
    query = (
        timed_processor(_with_times(frame, data.shape, times))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _with_times(frame: Any, shape: Shape, times: int) -> Any:
    """The rows with so many different event times, in the order in which they come."""
    nth = F.floor((F.unix_seconds("ts") - F.lit(START_S)) * F.lit(times) / F.lit(shape.rows))
    return frame.withColumn("ts", F.timestamp_seconds(F.lit(START_S) + nth * F.lit(3600)))


def _calls(spark: SparkSession, data: Dataset, times: int) -> int:
    """Event times of all keys together: how often ``handleInputRows`` is called in order."""
    frame = spark.read.schema(data.shape.ddl).parquet(*data.files)
    return int(_with_times(frame, data.shape, times).select("key", "ts").distinct().count())
