"""The ways of running a job over a dataset: our modes, and what a user would pick instead.

All but two write to ``noop``, so what is measured is reading, state and checkpoints, from ``start()`` to the end of the
job.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
from dataset import EXTRA_COLUMNS, Dataset
from pyspark.sql import DataFrame, SparkSession
from workload import Job

#: Runs a job; gets a fresh folder of its own.
Way = Callable[[Path], None]

PLAIN = "plain batch"
BATCH = "batch"
MIXED = "mixed"
MIXED_SPARK = "mixed, read by Spark"
PLAIN_FILES = "plain batch, to Parquet"
BATCH_FILES = "batch, to Parquet"
MIXED_HANDOVER = "mixed, a tenth waiting live"
STREAMING = "streaming, ten micro-batches"
STOCK_TEN = "stock, ten micro-batches"
STOCK_ONE = "stock, one micro-batch"
DUCKDB = "DuckDB, without Spark"
SLOW = (STREAMING, STOCK_TEN, STOCK_ONE)


class Ways:
    """The ways for one job and one dataset; several stages are ``append`` in Spark.

    Args:
        spark: the session.
        job: what is done to the rows.
        data: the rows.
        output_mode: of the streams.
        stock_limit_s: after so many seconds stock is stopped, and the time that it took is a lower bound; None: never.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        data: Dataset,
        output_mode: str = "update",
        stock_limit_s: float | None = None,
    ) -> None:
        self._spark = spark
        self._job = job
        self._data = data
        self._output_mode = output_mode
        self._stock_limit_s = stock_limit_s

    def all(self) -> dict[str, Way]:
        """Every way by name, in the order of a round."""
        return {
            PLAIN: self.plain_batch,
            MIXED: self.mixed,
            PLAIN_FILES: self.plain_files,
            BATCH_FILES: self.batch_files,
            MIXED_HANDOVER: self.mixed_handover,
            BATCH: self.batch,
            STREAMING: self.streaming,
            STOCK_TEN: self.stock_ten,
            STOCK_ONE: self.stock_one,
        }

    def plain_batch(self, folder: Path) -> None:
        """Spark's ``groupBy().agg()`` over all files; no state, no checkpoint."""
        self._job(self._read(self._data.files)).write.format("noop").mode("overwrite").save()

    def plain_files(self, folder: Path) -> None:
        """The same, written to Parquet files."""
        self._job(self._read(self._data.files)).write.parquet(str(folder / "out"))

    def batch(self, folder: Path) -> None:
        """``execution.runtime-mode = batch`` over all files; no state is kept."""
        self._ours(mixedmode.read(history=self._read(self._data.files)), "batch", folder)

    def batch_files(self, folder: Path) -> None:
        """The same, written to Parquet files."""
        history = mixedmode.read(history=self._read(self._data.files))
        writer = self._job(history).writeStream.format("parquet").option("path", str(folder / "out"))
        self._run(writer.outputMode("append"), "batch", folder)

    def mixed(self, folder: Path) -> None:
        """All files as history: one sorted pass, state migrated, checkpoint complete."""
        self._ours(mixedmode.read(history=self._read(self._data.files)), "mixed", folder)

    def mixed_spark(self, folder: Path) -> None:
        """The same with ``execution.backlog.engine = spark``."""
        self._ours(mixedmode.read(history=self._read(self._data.files)), "mixed", folder, engine="spark")

    def mixed_handover(self, folder: Path) -> None:
        """All files but the last as history, the last waits at the live source, which is handed over."""
        *history, last = self._data.files
        waiting = folder / "waiting"
        waiting.mkdir()
        (waiting / Path(last).name).symlink_to(last)
        live = self._stream(waiting, None)
        self._ours(mixedmode.read(history=self._read(history), live=live), "mixed", folder)

    def streaming(self, folder: Path) -> None:
        """``execution.runtime-mode = streaming``, a micro-batch for each file."""
        self._ours(mixedmode.read(live=self._stream(self._data.folder, 1)), "streaming", folder)

    def stock_ten(self, folder: Path) -> None:
        """Structured Streaming with its RocksDB state store, a micro-batch for each file."""
        batches = self._stock(1, folder)
        assert batches is None or batches >= self._data.shape.files

    def stock_one(self, folder: Path) -> None:
        """Structured Streaming with its RocksDB state store, all files in one micro-batch."""
        self._stock(None, folder)

    def duckdb(self, folder: Path) -> None:
        """The aggregate as DuckDB does it, by as many threads as Spark has cores; nothing is kept."""
        import duckdb

        shape = self._data.shape
        further = {"columns": [f"sum({name})" for name in EXTRA_COLUMNS], "text": ["max(text)"]}.get(shape.width, [])
        keys = ", ".join(shape.key_columns)
        results = ", ".join([keys, "count(*)", "sum(value)", "max(value)", "max(ts)", *further])
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {self._spark.sparkContext.defaultParallelism}")
            found = connection.read_parquet(self._data.files).aggregate(results, keys)
            for _ in pa.RecordBatchReader.from_stream(found):
                pass

    def _ours(self, frame: Any, mode: str, folder: Path, engine: str = "auto") -> None:
        writer = self._job(frame).writeStream.format("noop").outputMode(self._output_mode)
        self._run(writer.option("execution.backlog.engine", engine), mode, folder)

    def _run(self, writer: Any, mode: str, folder: Path) -> None:
        query = (
            writer.trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoints"))
            .option("execution.runtime-mode", mode)
            .start()
        )
        query.awaitTermination()

    def _stock(self, files_per_batch: int | None, folder: Path) -> int | None:
        """The number of micro-batches; None: it was stopped before its end."""
        query = (
            self._job(self._stream(self._data.folder, files_per_batch))
            .writeStream.format("noop")
            .outputMode(self._output_mode)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoints"))
            .start()
        )
        if self._stock_limit_s is None:
            query.awaitTermination()
        elif not query.awaitTermination(self._stock_limit_s):
            query.stop()
            return None
        return len(query.recentProgress)

    def _read(self, files: list[str]) -> DataFrame:
        return self._spark.read.schema(self._data.shape.ddl).parquet(*files)

    def _stream(self, folder: Path, files_per_batch: int | None) -> DataFrame:
        reader = self._spark.readStream.schema(self._data.shape.ddl)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return reader.parquet(str(folder))


@contextmanager
def fresh_folder(parent: Path) -> Iterator[Path]:
    """A new folder below ``parent``, removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
