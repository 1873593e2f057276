"""Run as a process of its own: a job of ``engine_jobs`` in a session that has done nothing yet.

    python engine_process.py (plain batch|auto|spark) <job> <rows> <folder>

What is measured goes from ``start()``, or of plain batch from the call of the writer, to the end of the job.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import mixedmode
from engine_jobs import JOBS, files
from processes import cpu_s
from pyspark.sql import SparkSession
from sessions import new_session

PLAIN, AUTO, SPARK = "plain batch", "auto", "spark"


def engine(spark: SparkSession, job: str, rows: int, folder: Path) -> str:
    """What ``explain()`` says of the engine that ``auto`` takes.

    Args:
        spark: the session.
        job: the job's name.
        rows: how many rows there are.
        folder: for a checkpoint location.
    """
    its = JOBS[job]
    frame = mixedmode.read(history=spark.read.schema(its.schema).parquet(*files(rows, its)))
    writer = its.keyed(frame).writeStream.format("noop").outputMode("update")
    plan = writer.option("checkpointLocation", str(folder / "checkpoints")).plan()
    return str(plan.phases[0].details.get("engine"))


def way(spark: SparkSession, name: str, job: str, rows: int) -> Callable[[Path], None]:
    """Runs a job over all rows.

    Args:
        spark: the session.
        name: of the way.
        job: the job's name.
        rows: how many rows there are.
    """
    its = JOBS[job]

    def run(folder: Path) -> None:
        frame = spark.read.schema(its.schema).parquet(*files(rows, its))
        if name == PLAIN:
            its.keyed(frame).write.format("noop").mode("overwrite").save()
            return
        writer = its.keyed(mixedmode.read(history=frame)).writeStream.format("noop").outputMode("update")
        query = (
            writer.trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoints"))
            .option("execution.backlog.engine", name)
            .start()
        )
        query.awaitTermination()

    return run


def arguments(name: str, job: str, rows: int, folder: Path) -> list[str]:
    """The command line of a process."""
    return [sys.executable, str(Path(__file__)), name, job, str(rows), str(folder)]


def main() -> None:
    """Do what is asked, once."""
    name, job, rows, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    files(rows, JOBS[job])
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        used_s, started = cpu_s(os.getpid()), time.perf_counter()
        way(spark, name, job, rows)(Path(scratch))
        print(json.dumps({"seconds": time.perf_counter() - started, "cpu_s": cpu_s(os.getpid()) - used_s}), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main()
