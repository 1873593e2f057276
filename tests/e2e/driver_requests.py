"""A job in a process of its own that runs until somebody stops it from outside.

``python driver_requests.py <folder>``: history and landing zone of the folder; prints ``live`` when it is.
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


def main(folder: Path) -> None:
    cloudpickle.register_pickle_by_value(support)
    spark = (
        SparkSession.builder.master("local[2]")
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
    options = {"execution.backlog.final-watermark": "observed"}
    query = world.start(support.sessions(history, world.live()).uid("sessions"), options)
    query.wait_for("live", 120)
    print("live", flush=True)
    query.awaitTermination()
    print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
