"""A job in a process of its own, to be killed: history, what waits at the live source, then files one after the other.

``SESSIONS_MASTER=local[2,3] python driver_sessions.py <folder> <backlog options as name=value>...`` runs the job of the
folder from wherever an earlier run left it, and prints ``done`` when everything is processed and committed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TZ"] = "UTC"
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import support
from pyspark import cloudpickle
from pyspark.sql import SparkSession


def main(folder: Path, options: dict[str, str]) -> None:
    cloudpickle.register_pickle_by_value(support)
    spark = (
        SparkSession.builder.master(os.environ["SESSIONS_MASTER"])
        .config("spark.shuffle.reduceLocality.enabled", "false")
        .config("spark.task.maxFailures", "20")  # on a cluster
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    world = support.World(spark, folder)
    history = spark.read.schema(support.ROW_SCHEMA).parquet(str(folder / "history.parquet"))
    query = world.start(support.sessions(history, world.live()), options)
    try:
        query.wait_for("live", 120)
        query.processAllAvailable()
        for path in sorted((folder / "pending").glob("*.parquet")):
            path.rename(folder / "landing" / path.name)
            query.processAllAvailable()
        query.stop()
        query.awaitTermination(1)
    except mixedmode_error() as error:
        print(f"failed: {error}", flush=True)
        os._exit(3)
    print("done", flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def mixedmode_error() -> type[Exception]:
    from mixedmode import MixedModeError

    return MixedModeError


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(pair.split("=", 1) for pair in sys.argv[2:]))
