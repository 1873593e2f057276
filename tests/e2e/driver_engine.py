"""A history-only job in a process of its own: ``python driver_engine.py <folder> <engine of the backlog> <job>``.

The job is ``aggregate`` or ``deduplicate``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mixedmode
import support
from pyspark.sql import functions as F


def main(folder: Path, engine: str, job: str) -> None:
    spark = support.driver_session("local[2,3]")  # a task that dies runs again
    rows = mixedmode.read(history=spark.read.parquet(str(folder / "history")))
    totals = F.count("*").alias("n"), F.sum("v").alias("s"), F.max("v").alias("m")
    keyed = rows.groupBy("k").agg(*totals) if job == "aggregate" else rows.dropDuplicates(["k"])
    query = (
        keyed.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("pipeline.parallelism", 4)
        .option("execution.backlog.engine", engine)
        .start()
    )
    query.awaitTermination()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
