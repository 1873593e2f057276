"""Run as a process of its own: starts a query where an earlier process left it, and prints how long that took.

    python restart_process.py (streaming|stock) (load|restart) <folder> <history's shape> <live shape>

``load`` makes the state: of us a backlog, of stock one micro-batch.  ``restart`` has some rows waiting at the source,
and measures from ``start()`` to the end of the micro-batch that takes them in.  Nothing is left of the earlier process,
so the state comes from the checkpoint; a small query of the same kind has warmed up JVM and Python workers before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import mixedmode
from dataset import Dataset, Shape, dataset
from micro_batches import parts, watched
from pyspark.sql import SparkSession
from sessions import new_session
from workload import Job, processor

OURS = "streaming"
STOCK = "stock"
_PATIENCE_S = 900


class Restarts:
    """One query in one folder, and the files that its source will get."""

    def __init__(
        self,
        spark: SparkSession,
        way: str,
        folder: Path,
        history: Dataset,
        live: Dataset,
        job: Job = processor,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._spark = spark
        self._way = way
        self._folder = folder
        self._history = history
        self._live = live
        self._job = job
        self._options = options
        self._landing = folder / "in"
        self._landing.mkdir(parents=True, exist_ok=True)
        #: Of each epoch of :meth:`load` the last checkpoint by then.
        self.checkpoints: list[Any] = []

    def start(self) -> Any:
        """Start the query, as a new one or again."""
        ddl = self._live.shape.ddl
        waiting = self._spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(self._landing))
        if self._way == OURS:
            frame: Any = mixedmode.read(
                history=self._spark.read.schema(ddl).parquet(*self._history.files), live=waiting
            )
        else:
            frame = waiting
        writer = self._job(frame).writeStream.format("noop").outputMode("update")
        for name, value in self._options.items():
            writer = writer.option(name, value)
        return writer.option("checkpointLocation", str(self._folder / "checkpoints")).start()

    def land(self, path: str) -> None:
        """One more file at the source."""
        (self._landing / f"{len(list(self._landing.iterdir())):05d}.parquet").symlink_to(path)

    def load(self) -> None:
        """Take in the history, and stop."""
        if self._way == STOCK:
            for path in self._history.files:
                self.land(path)
        query = self.start()
        if self._way == OURS:
            assert query.wait_for("live", _PATIENCE_S), query.exception()
        query.processAllAvailable()
        self.checkpoints = [] if self._way == STOCK else [one["checkpoint"] for one in query.recentProgress]
        query.stop()

    def restart(self) -> tuple[float, str]:
        """Seconds from start to the end of the first micro-batch, and where they went by Spark's clock."""
        landed = len(list(self._landing.iterdir())) - (len(self._history.files) if self._way == STOCK else 0)
        self.land(self._live.files[landed])
        with watched(self._spark) as batches:
            started = time.perf_counter()
            query = self.start()
            try:
                batches.wait_until(lambda: any(map(batches.of, batches.run_ids())), "the first micro-batch")
                seconds = time.perf_counter() - started
            finally:
                query.stop()
            (run_id,) = batches.run_ids()
            return seconds, parts(batches.of(run_id))


def main() -> None:
    """Warm up if it is measured, then do what is asked."""
    way, what, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    history, live = (dataset(Shape(**json.loads(text))) for text in sys.argv[4:6])
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        query = Restarts(spark, way, folder / way, history, live)
        found: dict[str, Any] = {}
        if what == "load":
            query.load()
        else:
            small = dataset(Shape(100, 100, files=1, each_key_once=True)), dataset(Shape(20, 100, files=2))
            warm = Restarts(spark, way, Path(scratch) / "warm", *small)
            warm.load()
            warm.restart()
            seconds, told = query.restart()
            found = {"seconds": seconds, "parts": told}
    print(json.dumps(found), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def arguments(way: str, what: str, folder: Path, history: Shape, live: Shape) -> list[str]:
    """The command line of a process."""
    shapes = [json.dumps(asdict(shape)) for shape in (history, live)]
    return [sys.executable, str(Path(__file__)), way, what, str(folder), *shapes]


if __name__ == "__main__":
    main()
