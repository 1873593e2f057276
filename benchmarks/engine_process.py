"""Run as a process of its own: a job of ``engine_jobs`` in a session that has done nothing yet.

    python engine_process.py (plain batch|auto|spark) <job> <rows> <folder>

What is measured goes from ``start()``, or of plain batch from the call of the writer, to the end of the job, and once
more from the first call, which is ``spark.read``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import mixedmode
from engine_jobs import JOBS, files
from fresh import timed
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


def prepared(spark: SparkSession, name: str, job: str, rows: int, folder: Path) -> Callable[[], None]:
    """A job that is described, and runs when it is called.

    Args:
        spark: the session.
        name: of the way.
        job: the job's name.
        rows: how many rows there are.
        folder: for a checkpoint location.
    """
    its = JOBS[job]
    frame = spark.read.schema(its.schema).parquet(*files(rows, its))
    if name == PLAIN:
        return its.keyed(frame).write.format("noop").mode("overwrite").save
    writer = its.keyed(mixedmode.read(history=frame)).writeStream.format("noop").outputMode("update")
    writer = writer.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoints"))
    writer = writer.option("execution.backlog.engine", name)
    return lambda: writer.start().awaitTermination()


def arguments(name: str, job: str, rows: int, folder: Path) -> list[str]:
    """The command line of a process."""
    return [sys.executable, str(Path(__file__)), name, job, str(rows), str(folder)]


def main() -> None:
    """Do what is asked, once."""
    name, job, rows, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    files(rows, JOBS[job])
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        print(json.dumps(timed(lambda: prepared(spark, name, job, rows, Path(scratch)))), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main()
