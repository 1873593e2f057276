"""What it costs that a checkpoint follows each epoch, as by default: CPU and files, against one in 10 seconds."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import Feed, live_run, watched
from processes import cpu_s, settle
from pyspark.sql import SparkSession
from workload import processor

AUTO, PERIOD = "auto", "10 s"
#: Micro-batches that are not counted: code is compiled, and Python workers begin.
_WARM_UP = 5
#: Of a run that is not counted at all: more would compile nothing further.
_FIRST = 60


def test_checkpoint_of_each_epoch(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """The same files land one by one, each when the one before is processed; CPU is that of all processes together."""
    sizes = bench.sizes
    batches, rows, keys = sizes.often_batches, sizes.latency_batch_rows, sizes.small_latency_keys
    title = f"A checkpoint behind each epoch: {batches} epochs of {rows:,} rows, processor to Parquet files"
    begun = bench.begin("often", title, batches=batches, rows=rows, keys=keys, rounds=sizes.often_rounds)
    history = dataset(Shape(keys, keys, each_key_once=True))
    live = dataset(Shape((_WARM_UP + batches) * rows, keys, files=_WARM_UP + batches))
    cpu: dict[str, list[float]] = defaultdict(list)
    files: dict[str, int] = {}

    def each_in_turn() -> None:
        # The later of two runs finds more compiled, so each is the later one in turn.
        turn = 1 if len(cpu[AUTO]) % 2 == 0 else -1
        for interval in (AUTO, PERIOD)[::turn]:
            with bench.scratch() as folder:
                cpu[interval].append(_cpu_s(spark, history, live, folder, interval))
                files[interval] = len(list((folder / "out").rglob("*.parquet")))

    with bench.scratch() as folder:  # what runs first pays for the compilation of all
        _cpu_s(spark, history, live, folder, AUTO, at_most=_FIRST)
    benchmark.pedantic(each_in_turn, rounds=sizes.often_rounds)
    each = {interval: median(seconds) / batches for interval, seconds in cpu.items()}
    notes = (
        "CPU of an epoch, JVM, driver and workers: "
        + ", ".join(f"{name} {s * 1e3:.0f} ms" for name, s in each.items()),
        "files of the output: " + ", ".join(f"{name} {count}" for name, count in files.items()),
    )
    findings = {"often-cpu": each[AUTO] / each[PERIOD]}
    bench.record(begun, rows=batches * rows, seconds=dict(cpu), findings=findings, notes=notes)


def _cpu_s(
    spark: SparkSession, history: Dataset, live: Dataset, folder: Path, interval: str, at_most: int | None = None
) -> float:
    """CPU time that the stream has used, from its first counted micro-batch until all is visible."""
    files = live.files[:at_most]
    feed = Feed(folder / "in", files)
    waiting = spark.readStream.schema(live.shape.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    before = spark.read.schema(history.shape.ddl).parquet(*history.files)
    with watched(spark) as batches:
        query = (
            processor(mixedmode.read(history=before, live=waiting))
            .writeStream.format("parquet")
            .outputMode("append")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoints"))
            .option("execution.checkpointing.interval", interval)
            .start()
        )
        try:
            assert query.wait_for("live", 600), query.exception()
            run_id = live_run(query)
            loaded, used_s = len(batches.of(run_id)), 0.0
            for number in range(1, len(files) + 1):
                feed.land()
                batches.wait_for(run_id, loaded + number)
                if number == _WARM_UP:
                    settle(os.getpid(), 10)
                    used_s = cpu_s(os.getpid())
            query.processAllAvailable()
            return cpu_s(os.getpid()) - used_s
        finally:
            query.stop()
