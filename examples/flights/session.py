"""The Spark session of the demo: two cores, little memory, and nothing on the screen but the demo's own lines."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mixedmode
from pyspark.sql import SparkSession

_HERE = Path(__file__).parent


def start_session(scratch: Path, jars: Sequence[Path] = (), *, real_time: bool = False) -> SparkSession:
    """A local session whose Python workers find this package; ``real_time``: a query in Real-Time Mode may run."""
    # Spark hands out timestamps in the local zone; UTC has no hour that comes twice.
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_HERE.parent), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    mixedmode.check_environment()  # says what is wrong with Java or Python before Spark fails over it
    # Tasks of Real-Time Mode hold their slots while they wait: there must be more of them than cores.
    builder = SparkSession.builder.master("local[8]" if real_time else "local[2]")
    if real_time:
        builder = builder.config("spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "5")
    session = (
        builder.appName("mixedmode demo")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .getOrCreate()
    )
    signal.signal(signal.SIGINT, _interrupt)
    return session


def _interrupt(*_: Any) -> None:
    """Ctrl-C.  PySpark's own handler cancels all Spark jobs; here the query is stopped after the epoch in hand.

    What Py4J logs about a call that is cut short is no news then.
    """
    logging.disable()
    raise KeyboardInterrupt
