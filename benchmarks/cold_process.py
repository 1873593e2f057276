"""Run as a process of its own: starts a job in a session that has done nothing yet, and prints how long that took.

    python cold_process.py (mixed|"mixed, workers not beforehand"|stock) (processor|aggregate) <folder> <shape>

Of us the rows are history, and what is measured goes from ``start()`` to the live phase: the state is there, and so is
its first checkpoint.  Of stock they wait at the source, and it goes to the end of the first micro-batch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mixedmode
from dataset import Shape, dataset
from in_turn import STOCK, start, stream
from micro_batches import parts, watched
from processes import cpu_s
from pyspark.sql import SparkSession
from sessions import new_session
from workload import Job, aggregate, processor

OURS = "mixed"
#: Without ``execution.start-workers``.
NOT_BEFOREHAND = "mixed, workers not beforehand"
JOBS: dict[str, Job] = {"processor": processor, "aggregate": aggregate()}
_PATIENCE_S = 900


def cold_start(spark: SparkSession, way: str, job: Job, folder: Path, shape: Shape) -> dict[str, Any]:
    """Start a job; what it took in seconds, in CPU-seconds of all processes, and in Spark jobs."""
    landing = folder / "in"
    landing.mkdir()
    data = dataset(shape)
    if way == STOCK:
        for path in data.files:
            (landing / Path(path).name).symlink_to(path)
    live: Any = stream(spark, shape, landing)
    if way != STOCK:
        live = mixedmode.read(history=spark.read.schema(shape.ddl).parquet(*data.files), live=live)
    keyed = job(live)
    with watched(spark) as batches:
        before, cpu_before, started = jobs_so_far(spark), cpu_s(os.getpid()), time.perf_counter()
        options = {"execution.start-workers": "false"} if way == NOT_BEFOREHAND else {}
        query = start(keyed, folder / "checkpoints", False, **options)
        try:
            if way != STOCK:
                assert query.wait_for("live", _PATIENCE_S), query.exception()
                told = ", ".join(f"{name} {ms} ms" for name, ms in query.lastProgress["durationMs"].items())
            else:
                batches.wait_for(str(query.runId), 1)
                told = parts(batches.of(str(query.runId)))
            seconds, cpu = time.perf_counter() - started, cpu_s(os.getpid()) - cpu_before
            jobs = jobs_so_far(spark) - before
        finally:
            query.stop()
    return {"seconds": seconds, "cpu_s": cpu, "jobs": jobs, "parts": told}


def jobs_so_far(spark: SparkSession) -> int:
    """How many Spark jobs there have been."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def main() -> None:
    """Do what is asked, once."""
    way, job, folder = sys.argv[1], JOBS[sys.argv[2]], Path(sys.argv[3])
    shape = Shape(**json.loads(sys.argv[4]))
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        found = cold_start(spark, way, job, Path(scratch), shape)
        print(json.dumps(found), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def arguments(way: str, job: str, folder: Path, shape: Shape) -> list[str]:
    """The command line of a process."""
    return [sys.executable, str(Path(__file__)), way, job, str(folder), json.dumps(asdict(shape))]


if __name__ == "__main__":
    main()
