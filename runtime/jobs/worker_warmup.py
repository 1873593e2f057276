"""The first job of a Spark application: its Python workers start, and import what tasks need, while the job is planned.

A worker takes more than half a second of a core for that, which every task of the first epoch would begin with, and
Spark loads what runs Python code and brings rows to it.  Nobody waits for this, and nothing depends on it: whatever
goes wrong in it is left to the epoch to find.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakSet

import pyarrow as pa

from ..catalyst.spark_session import WITHOUT_CODE, activate, unheard
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..jvm.worker.worker_tasks import task_begins
from ..operators.aggregate import operator as _aggregates  # noqa: F401  (what tasks import)
from ..operators.processor import operator as _processors  # noqa: F401
from ..tasks.scan import partial_scan as _scans  # noqa: F401
from ..tasks.scan import row_scan as _row_scans  # noqa: F401
from ..tasks.shard import shard_task as _tasks  # noqa: F401

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_DESCRIPTION = "mixedmode: starting Python workers"
#: The applications whose workers this process has had started.
_STARTED: WeakSet[SparkContext] = WeakSet()


def start_workers(spark: SparkSession) -> threading.Thread | None:
    """Have workers start in the background, one for each core that Spark has now; once for an application.

    Args:
        spark: a session of the application.

    Returns:
        The thread that sees to it; None: it was done before.
    """
    context = spark.sparkContext
    if context in _STARTED:
        return None
    _STARTED.add(context)
    thread = threading.Thread(target=_start, args=(spark,), name="mixedmode-workers", daemon=True)
    thread.start()
    return thread


def _start(spark: SparkSession) -> None:
    context = spark.sparkContext
    try:
        session = unheard(spark)
        for name, value in WITHOUT_CODE.items():
            session.conf.set(name, value)
        activate(session)
        context.setJobDescription(_DESCRIPTION)
        workers = max(context.defaultParallelism, 1)
        mapped_in_arrow(session.range(0, workers, 1, workers), _imported, "worker long").collect()
    except Exception as error:  # the session may be stopped meanwhile, or never have had an executor
        logger.debug("Python workers were not started beforehand: %s", error)


def _imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker, which has imported this module, and so what it imports."""
    task_begins()
    for _ in batches:
        pass
    # The first array that is made of Python's values has Arrow import pandas.
    yield pa.RecordBatch.from_pydict({"worker": pa.array([0], pa.int64())})
