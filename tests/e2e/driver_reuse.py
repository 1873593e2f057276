"""A history-only job in a process of its own: ``TEST_RUN=<number of this run> python driver_reuse.py <folder>``.

Each output row says in which run it was computed, so a test can see which shards a restart took over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixedmode
import support
from pyspark.sql.streaming import StatefulProcessor


class Count(StatefulProcessor):
    """Counts the rows of a key and tells which run did it."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        total = sum(1 for _ in rows)
        self._count.update((total,))
        yield (key[0], total, int(os.environ["TEST_RUN"]))


def main(folder: Path) -> None:
    spark = support.driver_session()
    query = (
        mixedmode.read(history=spark.read.parquet(str(folder / "history")))
        .groupBy("k")
        .transformWithState(Count(), outputStructType="k long, n long, run int", outputMode="append", timeMode="none")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("pipeline.parallelism", 4)
        .start()
    )
    query.awaitTermination()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
