"""One Spark session for all benchmarks, and the closing table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

from report import closing_table  # noqa: E402  (after the path to it is known)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """``MIXEDMODE_BENCH_CORES`` cores (2), as many shuffle partitions, Spark's RocksDB state store."""
    cores = os.environ.get("MIXEDMODE_BENCH_CORES", "2")
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_HERE), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("mixedmode benchmarks")
        .config("spark.driver.memory", os.environ.get("MIXEDMODE_BENCH_MEMORY", "4g"))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Ratios between the ways of running one job; pytest-benchmark's own table only has times."""
    session = getattr(config, "_benchmarksession", None)
    lines = [] if session is None else closing_table(session.benchmarks)
    for line in lines:
        terminalreporter.write_line(line)
