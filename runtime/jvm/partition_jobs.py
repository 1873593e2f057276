"""Collects a frame by one Spark job for each partition, a limited number of them at a time.

Spark has no limit for a job: it takes every core that is free.  What comes before the last exchange runs once, as the
jobs share its files.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from pyspark.sql import DataFrame, Row
from pyspark.util import inheritable_thread_target


def collected_by_partition(
    frame: DataFrame,
    at_once: int,
    wants_pause: Callable[[], bool] = lambda: False,
    hold: Callable[[], object] = lambda: None,
) -> list[Row]:
    """All rows.

    Args:
        frame: the rows.
        at_once: how many partitions are computed at the same time.
        wants_pause: asked before each job whether it has to wait.
        hold: called then, when no job runs; the next one begins when it returns.
    """
    spark = frame.sparkSession
    rdd = frame.rdd

    def rows_of(partition: int) -> list[Row]:
        return spark.sparkContext.runJob(rdd, list, [partition])

    # Job tags, descriptions and the scheduler's pool are those of this thread.
    inheriting = inheritable_thread_target(spark)(rows_of)
    rows: list[Row] = []
    running: set[Future[list[Row]]] = set()

    def wait_until(left: int) -> None:
        nonlocal running
        while len(running) > left:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                rows.extend(one.result())

    with ThreadPoolExecutor(at_once, thread_name_prefix="mixedmode-shards") as threads:
        for partition in range(rdd.getNumPartitions()):
            wait_until(at_once - 1)
            if wants_pause():
                wait_until(0)
                hold()
            running.add(threads.submit(inheriting, partition))
        wait_until(0)
    return rows
