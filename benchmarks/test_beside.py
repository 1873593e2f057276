"""What micro-batches notice of checkpoints whose store and sink are slow: they are completed beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import Feed, live_run, trigger_s, watched
from mixedmode.runtime.driver.checkpoint.state_compactor import StateCompactor
from mixedmode.runtime.driver.run import preflight, runner
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from slow_store import SlowStore
from workload import processor

#: A request to the store, and a commit of the sink.
REQUEST_S, COMMIT_S = 0.2, 2.0


@dataclass(frozen=True)
class Stream:
    """The micro-batches of a run."""

    #: Seconds of those beside no compaction, and beside one.
    plain: list[float]
    compacting: list[float]
    #: Checkpoints that were complete, and seconds of each.
    checkpoints: list[float]


class Checkpoints(mixedmode.RunListener):
    """How long each checkpoint took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def onCheckpointCompleted(self, event: Any) -> None:
        self.seconds.append(event.duration_ms / 1000)


def test_beside(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Micro-batch after micro-batch, with a checkpoint every few seconds and without any."""
    batches, rows, keys = bench.sizes.beside_batches, bench.sizes.latency_batch_rows, bench.sizes.small_latency_keys
    every_s = bench.sizes.beside_interval_s
    title = f"Checkpoints beside epochs: every {every_s} s, {REQUEST_S:g} s a request, {COMMIT_S:g} s a commit"
    begun = bench.begin("beside", title, batches=batches, rows=rows, keys=keys, every_s=every_s)
    history = dataset(Shape(keys, keys, each_key_once=True))
    live = dataset(Shape(batches * rows, keys, files=batches))

    def both() -> dict[str, Stream]:
        found = {}
        for name, interval in {"without": "10 h", "with": f"{every_s} s"}.items():
            with bench.scratch() as folder, slow_store():
                found[name] = run(spark, history, live, folder, interval)
        return found

    found = benchmark.pedantic(both, rounds=1)
    without, with_them = found["without"].plain, found["with"]
    assert with_them.checkpoints, "no checkpoint was complete"
    findings = {"beside-p99": p99(with_them.plain) / p99(without)}
    notes = (
        f"p50 and p99 of a micro-batch without checkpoints: {median(without):.2f} s, {p99(without):.2f} s",
        f"with {len(with_them.checkpoints)} of {median(with_them.checkpoints):.1f} s: {median(with_them.plain):.2f} s,"
        f" {p99(with_them.plain):.2f} s",
        f"beside a compaction ({len(with_them.compacting)} of them): "
        + (f"{median(with_them.compacting):.2f} s, {p99(with_them.compacting):.2f} s" if with_them.compacting else "-"),
        f"scheduler: {spark.sparkContext.getConf().get('spark.scheduler.mode', 'FIFO')}",
    )
    seconds = {"without": without, "with": with_them.plain}
    bench.record(begun, rows=batches * rows, seconds=seconds, findings=findings, notes=notes)


def test_auto_beside_slow_store_and_sink(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """By default a checkpoint follows each epoch; those that come while one is completed share the next one."""
    batches, rows, keys = bench.sizes.beside_batches, bench.sizes.latency_batch_rows, bench.sizes.small_latency_keys
    title = f"Checkpoints as soon as possible: {REQUEST_S:g} s a request, {COMMIT_S:g} s a call of the function"
    begun = bench.begin("beside-auto", title, batches=batches, rows=rows, keys=keys)
    history = dataset(Shape(keys, keys, each_key_once=True))
    live = dataset(Shape(batches * rows, keys, files=batches))
    calls: list[int] = []

    def auto() -> Stream:
        with bench.scratch() as folder, slow_store():
            return run(spark, history, live, folder, "auto", calls)

    found = benchmark.pedantic(auto, rounds=1)
    # Of a backlog one call, and one of each epoch, once and in order, however few checkpoints there were.
    assert calls == sorted(set(calls)) and len(calls) == 1 + batches, calls
    assert 0 < len(found.checkpoints) < batches, "no epochs shared a checkpoint"
    epochs = found.plain + found.compacting
    notes = (
        f"{batches} epochs, p50 {median(epochs):.2f} s, p99 {p99(epochs):.2f} s",
        f"{len(found.checkpoints)} checkpoints while they came, of {median(found.checkpoints):.1f} s each",
    )
    bench.record(begun, rows=batches * rows, seconds={"auto": epochs}, notes=notes)


def p99(seconds: list[float]) -> float:
    """The smallest that 99 of a hundred do not exceed."""
    return sorted(seconds)[-(-99 * len(seconds) // 100) - 1]


@contextmanager
def slow_store() -> Iterator[None]:
    """What the driver and its tasks keep in the checkpoint location is far away; Spark's own log is not."""
    far = fs.PyFileSystem(SlowStore(REQUEST_S))
    with ExitStack() as patched:
        for module in (runner, preflight):
            patched.enter_context(mock.patch.object(module, "resolve", lambda path: (far, path)))
        yield


def run(
    spark: SparkSession, history: Dataset, live: Dataset, folder: Path, interval: str, calls: list[int] | None = None
) -> Stream:
    """The micro-batches of the whole feed, each of which lands when the one before is done.

    Args:
        spark: the session.
        history: what makes the state.
        live: a file for each micro-batch.
        folder: for all that is written.
        interval: ``execution.checkpointing.interval``.
        calls: the ids of the function's calls are added here, those of the end, too.
    """
    feed = Feed(folder / "in", live.files)
    waiting = spark.readStream.schema(live.shape.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    before = spark.read.schema(history.shape.ddl).parquet(*history.files)
    compactions: list[tuple[float, float]] = []
    compacted, listener = StateCompactor.compacted, Checkpoints()

    def noted(*args: Any) -> Any:
        began = time.time()
        found = compacted(*args)
        if found:
            compactions.append((began, time.time()))
        return found

    def slowly(output: DataFrame, number: int) -> None:
        time.sleep(COMMIT_S)
        if calls is not None:
            calls.append(number)

    with watched(spark) as batches, mock.patch.object(StateCompactor, "compacted", noted):
        mixedmode.add_listener(listener)
        query = (
            processor(mixedmode.read(history=before, live=waiting))
            .writeStream.foreachBatch(slowly)
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoints"))
            .option("execution.checkpointing.interval", interval)
            .start()
        )
        try:
            assert query.wait_for("live", 900), query.exception()
            run_id = live_run(query)
            loaded, seen = len(batches.of(run_id)), len(listener.seconds)
            for number in range(1, len(live.files) + 1):
                feed.land()
                batches.wait_for(run_id, loaded + number)
            progress, checkpoints = batches.of(run_id)[loaded:], listener.seconds[seen:]
        finally:
            query.stop()
            mixedmode.remove_listener(listener)
    sides: tuple[list[float], list[float]] = ([], [])
    for one in progress:
        began = datetime.fromisoformat(one.timestamp.replace("Z", "+00:00")).timestamp()
        ended = began + trigger_s(one)
        sides[any(first < ended and began < last for first, last in compactions)].append(trigger_s(one))
    return Stream(*sides, checkpoints)
