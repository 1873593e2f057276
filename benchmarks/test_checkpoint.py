"""What an incremental checkpoint writes: the changed keys, however large the state is."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import Feed
from processes import files_below
from pyspark.sql import SparkSession
from workload import aggregate


def test_incremental_checkpoint(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """The same changed keys on a small and on a large state; everything below the checkpoint location counts."""
    sizes = bench.sizes
    changed, states = sizes.checkpoint_changed_keys, (sizes.checkpoint_small_keys, sizes.checkpoint_large_keys)
    title = f"Incremental checkpoints: {changed:,} changed keys on {states[0]:,} and on {states[1]:,} keys"
    begun = bench.begin("checkpoint-bytes", title, changed=changed, states=states, epochs=sizes.checkpoint_epochs)
    written: dict[int, list[int]] = {}

    def all_states() -> None:
        for keys in states:
            history = dataset(Shape(keys, keys, each_key_once=True))
            epochs = sizes.checkpoint_epochs
            live = dataset(Shape(changed * epochs, keys, files=epochs, each_key_once=True))
            with bench.scratch() as folder:
                written[keys] = checkpoint_bytes(spark, history, live, folder)

    benchmark.pedantic(all_states, rounds=1)
    notes = tuple(
        f"{keys:>10,} keys: median {median(each):,.0f} bytes a checkpoint, {sum(each):,} in all {len(each)}"
        for keys, each in written.items()
    )
    findings = {"checkpoint-bytes": median(written[states[1]]) / median(written[states[0]])}
    bench.record(begun, findings=findings, notes=notes)


def checkpoint_bytes(spark: SparkSession, history: Dataset, live: Dataset, folder: Path) -> list[int]:
    """Bytes that each checkpoint of the stream adds, after the one at the switch."""
    feed = Feed(folder / "in", live.files)
    checkpoints = folder / "checkpoints"
    waiting = spark.readStream.schema(live.shape.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    before = spark.read.schema(history.shape.ddl).parquet(*history.files)
    query = (
        aggregate()(mixedmode.read(history=before, live=waiting))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoints))
        .option("execution.checkpointing.interval", "1 h")  # only those that processAllAvailable() asks for
        .start()
    )
    try:
        query.processAllAvailable()
        written = []
        for _ in live.files:
            there = files_below(checkpoints)
            feed.land()
            query.processAllAvailable()
            now = files_below(checkpoints)
            written.append(sum(file[1] for path, file in now.items() if there.get(path) != file))
        return written
    finally:
        query.stop()
