"""A stream that runs on and on: its epochs do not get slower, nor do files, memory or open handles pile up.

What does grow is the time in which Spark lists the landing folder for each micro-batch, as each leaves one more file in
it.  Plain Structured Streaming has the same, so it is told apart.

Checkpoints are kept for a minute, so there are as many files as the last minute's checkpoints have, which are more on a
machine that has become less busy.  So files are counted by checkpoint that is there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import Feed, live_run, trigger_s, watched
from mixedmode.runtime.driver.checkpoint import housekeeping
from processes import descendants, files_below, memory_bytes, open_handles, python_workers
from pyspark.sql import SparkSession
from workload import processor

_MIB = 1 << 20
#: Batches whose logs Spark keeps: fewer than a quarter of the epochs, so that they have stopped growing by then.
_SPARK_BATCHES = 5
#: Looking at everything takes as long as an epoch, so of a long run not each one is looked at.
_SAMPLES = 200
#: How long Spark keeps what it has merged of a source's log: ten minutes by default.
_SOURCE_LOG_DELAY = "spark.sql.streaming.fileSource.log.cleanupDelay"


@dataclass(frozen=True)
class Sample:
    """How things stand after an epoch."""

    #: Of the epoch; what Spark takes of it to list the landing folder, in which each epoch has one more file; the rest.
    seconds: float
    listing_s: float
    own_s: float
    files: int
    spark_files: int
    checkpoints: int
    files_by_checkpoint: float
    python_bytes: int
    jvm_bytes: int
    handles: int
    #: Of the newest checkpoint; 0: there is none.
    metadata_bytes: int


def test_steady_state(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Many small epochs, a checkpoint behind each, as by default; the second quarter against the last."""
    epochs, rows, keys = bench.sizes.steady_epochs, bench.sizes.steady_batch_rows, bench.sizes.steady_keys
    title = f"Steady stream: {epochs} epochs of {rows:,} rows on {keys:,} keys of state, a checkpoint behind each"
    begun = bench.begin("steady", title, epochs=epochs, rows=rows, keys=keys)
    history = dataset(Shape(keys, keys, each_key_once=True))
    live = dataset(Shape(epochs * rows, keys, files=epochs))
    settings = {"spark.sql.streaming.minBatchesToRetain": _SPARK_BATCHES, _SOURCE_LOG_DELAY: "5s"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        with bench.scratch() as folder:
            samples = benchmark.pedantic(run, args=(spark, history, live, folder), rounds=1)
            with past_the_minute():
                again(spark, history, live, folder)
            left = left_behind(folder / "checkpoints")
    finally:
        for name in settings:
            spark.conf.unset(name)
    quarter = max(len(samples) // 4, 1)
    first, last = middle(samples[quarter : 2 * quarter]), middle(samples[-quarter:])
    findings = {
        "steady-latency": last["own_s"] / first["own_s"],
        "steady-files": last["files_by_checkpoint"] / first["files_by_checkpoint"],
        "steady-memory": last["python_bytes"] / first["python_bytes"],
        "steady-handles": last["handles"] / first["handles"],
        "steady-metadata": last["metadata_bytes"] / first["metadata_bytes"],
    }
    told = (
        ("p50 of an epoch, ms", "seconds", 1e3),
        ("of that Spark's list of the landing folder, ms", "listing_s", 1e3),
        ("all else of it, ms", "own_s", 1e3),
        ("files of ours below the checkpoint location", "files", 1),
        ("files of Spark's own log there", "spark_files", 1),
        ("checkpoints there", "checkpoints", 1),
        ("memory of all Python processes, MiB", "python_bytes", 1 / _MIB),
        ("memory of the JVM, MiB (it takes what it may)", "jvm_bytes", 1 / _MIB),
        ("open handles of all processes", "handles", 1),
        ("bytes of _metadata", "metadata_bytes", 1),
    )
    notes = tuple(
        f"{what:<46} second quarter {first[name] * unit:>8,.0f}, last {last[name] * unit:>8,.0f}"
        for what, name, unit in told
    )
    notes += ("left when a later run has tidied up: " + ", ".join(f"{kind} {count}" for kind, count in left.items()),)
    bench.record(begun, rows=rows, seconds={"epoch": [s.seconds for s in samples]}, findings=findings, notes=notes)


def start(spark: SparkSession, history: Dataset, live: Dataset, folder: Path) -> Any:
    """The job, over what has landed and will land."""
    waiting = spark.readStream.schema(live.shape.ddl).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    before = spark.read.schema(history.shape.ddl).parquet(*history.files)
    writer = processor(mixedmode.read(history=before, live=waiting)).writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(folder / "checkpoints")).start()
    if not query.wait_for("live", 600):
        raise AssertionError(query.exception())
    return query


@contextmanager
def past_the_minute() -> Iterator[None]:
    """Checkpoints are as old as if a minute had passed."""
    with mock.patch.object(housekeeping, "KEEP_MS", 0), mock.patch.object(housekeeping, "CLEAN_EVERY_MS", 0):
        yield


def again(spark: SparkSession, history: Dataset, live: Dataset, folder: Path) -> None:
    """One more run, which takes the first file once more, under another name."""
    query = start(spark, history, live, folder)
    try:
        (folder / "in" / "again.parquet").symlink_to(live.files[0])
        query.processAllAvailable()
    finally:
        query.stop()


def run(spark: SparkSession, history: Dataset, live: Dataset, folder: Path) -> list[Sample]:
    """Samples behind epochs of the stream."""
    feed, checkpoints = Feed(folder / "in", live.files), folder / "checkpoints"
    samples: list[Sample] = []
    each = max(len(live.files) // _SAMPLES, 1)
    with watched(spark) as batches:
        query = start(spark, history, live, folder)
        try:
            run_id = live_run(query)
            loaded = len(batches.of(run_id))
            for number in range(1, len(live.files) + 1):
                feed.land()
                batches.wait_for(run_id, loaded + number)
                if number % each == 0:
                    samples.append(sample(batches.of(run_id)[-1], checkpoints))
        finally:
            query.stop()
    return samples


def sample(progress: Any, checkpoints: Path) -> Sample:
    """Look at everything once; ``progress``: of the last epoch."""
    pythons = [os.getpid(), *python_workers()]
    everyone = [os.getpid(), *descendants(os.getpid())]
    files = files_below(checkpoints)
    listing_s = progress.durationMs["latestOffset"] / 1000
    of_spark = sum(path.startswith(str(checkpoints / "spark")) for path in files)
    metadata = [(at, size) for path, (_, size, at) in files.items() if path.endswith("/_metadata")]
    return Sample(
        seconds=trigger_s(progress),
        listing_s=listing_s,
        own_s=trigger_s(progress) - listing_s,
        files=len(files) - of_spark,
        spark_files=of_spark,
        checkpoints=len(metadata),
        files_by_checkpoint=(len(files) - of_spark) / max(len(metadata), 1),
        python_bytes=sum(map(memory_bytes, pythons)),
        jvm_bytes=sum(memory_bytes(pid) for pid in everyone if pid not in pythons),
        handles=sum(map(open_handles, everyone)),
        metadata_bytes=max(metadata, default=(0, 0))[1],
    )


def left_behind(checkpoints: Path) -> Mapping[str, int]:
    """How many files there are below each folder of a location whose job has stopped."""
    found = Counter(Path(path).relative_to(checkpoints).parts[0] for path in files_below(checkpoints))
    return dict(sorted(found.items()))


def middle(samples: Sequence[Sample]) -> Mapping[str, float]:
    """The median of each figure."""
    return {name: median([getattr(one, name) for one in samples]) for name in Sample.__dataclass_fields__}
