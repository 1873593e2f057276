"""What Spark itself takes for a micro-batch that is handed over to Python: no epoch over such a source takes less.

All queries keep no state but the first two, and get the same micro-batches in turn.  Each next one of them does one
thing more or other: Spark calls a function; the function collects the rows; a Python worker counts them; it does so as
in our epochs, by a plan that is made once and in a worker that answers at once; and Spark sorts the rows before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
import pyarrow as pa
import pytest
from dataset import Dataset, Shape, dataset
from in_turn import OURS, STOCK, start, stream
from micro_batches import Feed, live_run, parts, trigger_s, watched
from mixedmode.runtime.catalyst.prepared.batch_calls import handing_over
from mixedmode.runtime.catalyst.prepared.micro_batch import handed_over
from mixedmode.runtime.catalyst.prepared.prepared_physical_plan import PreparedPhysicalPlan
from mixedmode.runtime.catalyst.spark_session import PrivateSession
from mixedmode.runtime.jvm.worker.worker_tasks import task_begins
from mixedmode.runtime.spark_io.query_log_writes import started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType
from workload import aggregate, dedup

_WARM_UP = 20
_COUNT = StructType().add("rows", BinaryType())
_JOBS = {"dedup": (dedup, "append"), "aggregate": (aggregate(), "update")}


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row: how many there were."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([str(rows).encode()], pa.binary())})


def _counted_as_ours(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same in a worker that does not wait for acknowledgements, nor look at its modules for garbage."""
    task_begins()
    yield from _counted(batches)


def _nothing(batch: DataFrame, batch_id: int) -> None:
    pass


def _collect(batch: DataFrame, batch_id: int) -> None:
    batch.collect()


def _count(batch: DataFrame, batch_id: int) -> None:
    batch.mapInArrow(_counted, _COUNT).collect()


class _CountAsOurs:
    """As :func:`_count`, by a plan that is made for all micro-batches.

    Args:
        spark: the session.
        sorts: the rows come with their key's hash, sorted by that.
    """

    def __init__(self, spark: SparkSession, *, sorts: bool) -> None:
        self._spark, self._sorts = spark, sorts
        self._session = PrivateSession(spark, {"spark.sql.adaptive.enabled": "false"}).session
        self._plan: PreparedPhysicalPlan | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self._plan is None:
            self._plan = PreparedPhysicalPlan.of(
                self._session,
                batch.schema,
                self._job,
                [_COUNT],
                [],
                lambda _: True,
            )
        assert self._plan is not None
        with handed_over(batch, self._spark):
            self._plan.collected(batch, [_counted_as_ours], {})

    def _job(self, rows: DataFrame) -> DataFrame:
        if self._sorts:
            rows = rows.withColumn("key_group", F.expr("pmod(hash(key), 128)")).sortWithinPartitions("key_group", "key")
        return rows.mapInArrow(_counted_as_ours, _COUNT)


def _handed_over(spark: SparkSession, rows: DataFrame, call: Callable[[DataFrame, int], None], folder: Path) -> Any:
    """A query of Spark's that hands its micro-batches over, with its log as our live query's."""
    writer = handing_over(rows.writeStream, spark, call).trigger(processingTime="0 seconds")
    return started(writer.option("checkpointLocation", str(folder)), [spark], str(folder))


def _floors(spark: SparkSession) -> dict[str, Callable[[DataFrame, int], None]]:
    return {
        "foreachBatch": _nothing,
        "foreachBatch, collect": _collect,
        "foreachBatch, worker": _count,
        "foreachBatch, worker as ours": _CountAsOurs(spark, sorts=False),
        "foreachBatch, worker as ours, rows sorted": _CountAsOurs(spark, sorts=True),
    }


@pytest.mark.parametrize("rows", [100, 1_000])
@pytest.mark.parametrize("shape", ["dedup", "aggregate"])
def test_epoch_floor(benchmark: Any, spark: SparkSession, bench: Any, shape: str, rows: int) -> None:
    """The p50 of each query, by stock's with state."""
    batches, keys = bench.sizes.epoch_batches, bench.sizes.small_latency_keys
    title = f"Floor of a live epoch, {shape}: {batches} micro-batches of {rows:,} rows"
    begun = bench.begin(f"epoch-floor-{shape}-{rows}", title, batches=batches, keys=keys)
    files, is_new = _WARM_UP + batches, keys if shape == "dedup" else 0
    history = dataset(Shape(keys, keys, files=1, each_key_once=True))
    small = dataset(Shape(rows * files, keys + is_new, files=files, later_s=is_new))
    found = benchmark.pedantic(_fed, args=(spark, shape, history, small, bench), rounds=1)
    counted = {way: each[_WARM_UP:] for way, each in found.items()}
    seconds = {way: [trigger_s(batch) for batch in each] for way, each in counted.items()}
    notes = tuple(f"{way}: {parts(each)}" for way, each in counted.items())
    stock = median(seconds[STOCK])
    notes += tuple(f"{way}: {median(each) / stock:.2f} of stock's" for way, each in seconds.items())
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), notes=notes)


def _fed(spark: SparkSession, shape: str, history: Dataset, small: Dataset, bench: Any) -> dict[str, list[Any]]:
    """By query its micro-batches."""
    job, mode = _JOBS[shape]
    with bench.scratch() as folder, watched(spark) as seen:
        names = [OURS, STOCK, *_floors(spark)]
        feeds = {name: Feed(folder / f"in-{at}", small.files) for at, name in enumerate(names)}
        feeds[STOCK] = Feed(folder / "stock-in", [*history.files, *small.files])
        before = spark.read.schema(history.shape.ddl).parquet(*history.files)
        live = stream(spark, small.shape, feeds[OURS].folder)
        queries = {OURS: start(job(mixedmode.read(history=before, live=live)), folder / "ours", False, mode)}
        try:
            assert queries[OURS].wait_for("live", 600), queries[OURS].exception()
            runs = {OURS: live_run(queries[OURS])}
            spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            rows = job(stream(spark, small.shape, feeds[STOCK].folder))
            queries[STOCK] = start(rows, folder / "stock", False, mode, spark)
            for at, (name, call) in enumerate(_floors(spark).items()):
                its = stream(spark, small.shape, feeds[name].folder)
                queries[name] = _handed_over(spark, its, call, folder / f"floor-{at}")
            runs |= {name: str(query.runId) for name, query in queries.items() if name != OURS}
            feeds[STOCK].land()
            seen.wait_for(runs[STOCK], 1)
            loaded = {name: len(seen.of(run)) for name, run in runs.items()}
            for number in range(1, len(small.files) + 1):
                for name, run in runs.items():
                    feeds[name].land()
                    seen.wait_for(run, loaded[name] + number)
        finally:
            spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
            for query in queries.values():
                query.stop()
        return {name: seen.of(run)[loaded[name] :] for name, run in runs.items()}
