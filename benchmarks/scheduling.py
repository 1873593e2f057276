"""What Spark's own scheduler costs for tasks that do nothing: CPU time of the JVM's threads, by what they are for.

In local mode driver and executor are one JVM.  Threads that run tasks are the executor's; what schedules them, takes
their results and tells listeners is the driver's; the compiler's and the collector's are nobody's, and told apart.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from processes import descendants
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

#: How names of threads begin (the kernel keeps 15 characters).
_EXECUTORS = ("Executor task", "shuffle-", "stdout writer", "Worker Monitor")
_NOBODYS = ("C1 ", "C2 ", "GC ", "G1 ", "VM ", "Sweeper", "Service Thread", "Reference Hand", "Finalizer")
DRIVER, EXECUTOR, NOBODY = "driver", "executor", "compiler and collector"


def run(spark: SparkSession, partitions: int) -> None:
    """A job of some map tasks and as many reduce tasks as are asked for, which get no rows."""
    rows = spark.range(0, 100, 1, 2).repartition(partitions, F.col("id"))
    rows.where("id + rand() < 0").collect()


def jvm() -> int:
    """The process of Spark's JVM."""
    return max(descendants(os.getpid()), key=lambda pid: len(os.listdir(f"/proc/{pid}/task")))


def cpu_s(pid: int) -> Counter[str]:
    """CPU time of a JVM's threads so far, by what they are for."""
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            head, _, tail = (task / "stat").read_text().rpartition(")")
        except OSError:
            continue
        name = head.partition("(")[2]
        whose = EXECUTOR if name.startswith(_EXECUTORS) else NOBODY if name.startswith(_NOBODYS) else DRIVER
        found[whose] += sum(map(int, tail.split()[11:13])) / os.sysconf("SC_CLK_TCK")  # type: ignore[assignment]
    return found
