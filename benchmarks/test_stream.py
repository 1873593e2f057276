"""The processor as a stream, against stock: throughput of large micro-batches, latency of small ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import Feed, only_active_run, parts, trigger_s, watched
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from race import ratio
from workload import processor

OURS = "streaming"
STOCK = "stock"


def stream(spark: SparkSession, shape: Shape, folder: Path) -> DataFrame:
    """A micro-batch for each file of a folder."""
    reader = spark.readStream.schema(shape.ddl).option("maxFilesPerTrigger", 1)
    return reader.option("latestFirst", False).parquet(str(folder))


def start(keyed: Any, checkpoints: Path, available_now: bool, **options: str) -> Any:
    """Start a query, of ours or of Spark's."""
    writer = keyed.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoints))
    for name, value in options.items():
        writer = writer.option(name, value)
    trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    return writer.trigger(**trigger).start()


def told(found: Mapping[str, list[Any]]) -> tuple[dict[str, list[float]], tuple[str, ...]]:
    """Seconds of the micro-batches by way, and where they go."""
    seconds = {way: [trigger_s(batch) for batch in batches] for way, batches in found.items()}
    return seconds, tuple(f"{way}: {parts(batches)}" for way, batches in found.items())


# --- throughput -------------------------------------------------------------------------------------------------------


def test_throughput(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Some large micro-batches; what counts is the median micro-batch."""
    sizes = bench.sizes
    rows = sizes.stream_batch_rows
    shape = Shape(rows * sizes.stream_batches, sizes.stream_keys, files=sizes.stream_batches)
    title = f"Stream, processor: {sizes.stream_batches} micro-batches of {rows:,} rows, {shape.keys:,} keys"
    begun = bench.begin("stream-throughput", title, shape=shape.name)
    drain_both(spark, dataset(Shape(400, 50, files=2)), bench)
    seconds, notes = told(benchmark.pedantic(drain_both, args=(spark, dataset(shape), bench), rounds=1))
    findings = {"stream-stock": ratio(seconds, OURS, STOCK)}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)


def drain_both(spark: SparkSession, data: Dataset, bench: Any) -> dict[str, list[Any]]:
    """Every micro-batch that has rows, of us and of stock."""
    found = {}
    for way in (OURS, STOCK):
        with bench.scratch() as folder, watched(spark) as batches:
            live = stream(spark, data.shape, data.folder)
            options = {"execution.runtime-mode": "streaming"} if way == OURS else {}
            keyed = processor(mixedmode.read(live=live) if way == OURS else live)
            start(keyed, folder / "checkpoints", True, **options).awaitTermination()
            batches.wait_for_end()
            (run_id,) = batches.run_ids()
            found[way] = batches.of(run_id)
    return found


# --- latency ----------------------------------------------------------------------------------------------------------


def test_latency(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Both queries hold the same large state and get the same small micro-batches in turn."""
    sizes = bench.sizes
    rows, keys = sizes.latency_batch_rows, sizes.latency_keys
    history = Shape(keys, keys, files=1, each_key_once=True)
    small = Shape(rows * sizes.latency_batches, keys, files=sizes.latency_batches)
    title = f"Stream, processor: micro-batches of {rows:,} rows on {keys:,} keys of state"
    begun = bench.begin("stream-latency", title, history=history.name, small=small.name)
    tiny = dataset(Shape(100, 100, files=1, each_key_once=True)), dataset(Shape(20, 100, files=2))
    feed_both(spark, *tiny, bench)
    seconds, notes = told(
        benchmark.pedantic(feed_both, args=(spark, dataset(history), dataset(small), bench), rounds=1)
    )
    findings = {"latency-stock": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)


def feed_both(spark: SparkSession, history: Dataset, small: Dataset, bench: Any) -> dict[str, list[Any]]:
    """Every small micro-batch, of us and of stock."""
    with bench.scratch() as folder, watched(spark) as batches:
        ours_feed = Feed(folder / "ours-in", small.files)
        stock_feed = Feed(folder / "stock-in", [*history.files, *small.files])
        before = spark.read.schema(history.shape.ddl).parquet(*history.files)
        live = stream(spark, small.shape, ours_feed.folder)
        ours = start(processor(mixedmode.read(history=before, live=live)), folder / "ours", False)
        stock: StreamingQuery | None = None
        try:
            assert ours.wait_for("live", 600), ours.exception()
            ours_id = only_active_run(spark)
            stock = start(processor(stream(spark, small.shape, stock_feed.folder)), folder / "stock", False)
            stock_id, loaded = str(stock.runId), len(batches.of(ours_id))
            stock_feed.land()
            batches.wait_for(stock_id, 1)
            for number in range(1, len(small.files) + 1):
                ours_feed.land()
                batches.wait_for(ours_id, loaded + number)
                stock_feed.land()
                batches.wait_for(stock_id, 1 + number)
        finally:
            ours.stop()
            if stock is not None:
                stock.stop()
        return {OURS: batches.of(ours_id)[loaded:], STOCK: batches.of(stock_id)[1:]}
