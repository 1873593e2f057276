"""The Spark session of a benchmark: of pytest's process, or of one that a benchmark starts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from processes import adopt_orphans
from pyspark.sql import SparkSession


def new_session(warehouse: Path, jars: Sequence[Path] = ()) -> SparkSession:
    """``MIXEDMODE_BENCH_CORES`` cores (2), as many shuffle partitions, Spark's RocksDB state store."""
    adopt_orphans()
    cores = os.environ.get("MIXEDMODE_BENCH_CORES", "2")
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("mixedmode benchmarks")
        .config("spark.driver.memory", os.environ.get("MIXEDMODE_BENCH_MEMORY", "4g"))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.scheduler.mode", os.environ.get("MIXEDMODE_BENCH_SCHEDULER", "FIFO"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a poll logs a stack trace
    return session
