"""Spark's daemon of Python workers, which has imported what they need before it forks one: drivers that are killed one
after the other have new workers each time, and each of those would import it again.

PySpark's own daemon imports nothing, since threads do not survive a fork: here the one library that would start some
is kept from it.  (Workers as users have them are in ``tests/chaos``, in the examples, and in the tests' own session.)
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from mixedmode.runtime.operators.aggregate import operator as aggregate  # noqa: F401
from mixedmode.runtime.operators.dedup import operator as dedup  # noqa: F401
from mixedmode.runtime.operators.join import operator as join  # noqa: F401
from mixedmode.runtime.operators.processor import operator as processor  # noqa: F401
from mixedmode.runtime.tasks.shard import condition_task, publish_task, shard_task  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
