"""How fresh results are: from a file that lands to its rows in the sink, by default options, against stock in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_turn import OURS, STOCK
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from visible import Folder, Function, Topic, Visible, wait

#: The rows of a micro-batch have its number; its keys are those of every other one, or its own.
_KEYS = 50
_SCHEMA = "key string, own string, number long"
#: Micro-batches that are not counted: code is compiled, and Python workers begin.
_WARM_UP = 5
#: Of Kafka: what we are asked for; stock has no transactions.
_SINKS = ("foreachBatch", "parquet", "kafka-at-least-once", "kafka-exactly-once")

Make = Callable[[str, Path], Visible]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Makes a way's sink of the kind that the benchmark is of."""
    kind = request.getfixturevalue("sink")
    if not kind.startswith("kafka"):
        yield lambda way, folder: Function() if kind == "foreachBatch" else Folder(folder / "out")
        return
    from topics import broker

    with broker(tmp_path_factory.mktemp("kafka")) as kafka:

        def made(way: str, folder: Path) -> Visible:
            guarantee = kind.removeprefix("kafka-")
            options = {"execution.sink.delivery-guarantee": guarantee} if way == OURS else {}
            return Topic(kafka.bootstrap, kafka.create("out", 1), **options)

        yield made


def _job(frame: Any, sink: str) -> Any:
    """An aggregate that is updated; to files, which keep every row, the rows whose key is new."""
    if sink == "parquet":
        return frame.dropDuplicates(["own"]).writeStream.outputMode("append")
    latest = frame.groupBy("key").agg(F.max("number").alias("number"))
    if sink.startswith("kafka"):
        latest = latest.select("key", F.col("number").cast("string").alias("value"))
    return latest.writeStream.outputMode("update")


def _land(folder: Path, number: int, rows: int) -> float:
    """Have a file land; returns the moment."""
    keys = [f"k{row % _KEYS}" for row in range(rows)]
    own = [f"{number}-{row}" for row in range(rows)]
    made = folder.parent / f"{folder.name}-{number}.parquet"
    pq.write_table(pa.table({"key": keys, "own": own, "number": [number] * rows}), made)
    landed = time.monotonic()
    os.rename(made, folder / f"{number:05d}.parquet")
    return landed


def _feed(spark: SparkSession, sink: str, make: Make, rows: int, batches: int, bench: Any) -> dict[str, list[float]]:
    """Seconds from landed to visible, by way."""
    with bench.scratch() as scratch:
        sinks: dict[str, Visible] = {}
        queries, landing = [], {}
        try:
            for way in (STOCK, OURS):
                folder = scratch / way
                landing[way] = folder / "in"
                landing[way].mkdir(parents=True)
                live = spark.readStream.schema(_SCHEMA).parquet(str(landing[way]))
                sinks[way] = make(way, folder)
                writer = sinks[way].into(_job(mixedmode.read(live=live) if way == OURS else live, sink))
                queries.append(writer.option("checkpointLocation", str(folder / "checkpoints")).start())
            found: dict[str, list[float]] = {way: [] for way in sinks}
            for number in range(_WARM_UP + batches):
                for way, seen in sinks.items():
                    landed = _land(landing[way], number, rows)
                    found[way].append(wait(seen, number) - landed)
        finally:
            for query in queries:
                query.stop()
            for seen in sinks.values():
                seen.close()
        return {way: seconds[_WARM_UP:] for way, seconds in found.items()}


@pytest.mark.parametrize("rows", [100, 1_000])
@pytest.mark.parametrize("sink", _SINKS)
def test_landed_to_visible(benchmark: Any, spark: SparkSession, bench: Any, make: Make, sink: str, rows: int) -> None:
    """Files land one by one, each when the one before can be seen: for ours, then for stock, then for ours."""
    batches = bench.sizes.visible_batches
    title = f"From landed to visible, {sink}: {batches} files of {rows:,} rows each"
    begun = bench.begin(f"visible-{sink}-{rows}", title, batches=batches)
    run = partial(_feed, spark, sink, make, rows, batches, bench)
    seconds = benchmark.pedantic(run, rounds=1)
    p95 = {way: quantiles(each, n=20)[-1] for way, each in seconds.items()}
    notes = (", ".join(f"p95 of {way} {value:.3f} s" for way, value in p95.items()),)
    findings = {f"visible-{sink}": median(seconds[OURS]) / median(seconds[STOCK])} if rows == 100 else {}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
