"""The executors of an application, and how far its jobs have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .spark_expressions import NO_SUCH_MEMBER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def block_managers(spark: SparkSession) -> frozenset[str]:
    """Addresses of the driver and of the executors that are alive; no public API names the executors."""
    context: Any = spark.sparkContext
    names = context._jsc.sc().getExecutorMemoryStatus().keys().iterator()
    found = set()
    while names.hasNext():
        found.add(str(names.next()))
    return frozenset(found)


class JobTasks:
    """The tasks of all jobs with a tag that start from now on.

    Args:
        spark: the session.
        tag: of the jobs.
    """

    def __init__(self, spark: SparkSession, tag: str) -> None:
        context: Any = spark.sparkContext
        self._tracker = context._jsc.sc().statusTracker()
        self._tag = tag
        self._earlier = set(self._jobs())

    def __call__(self) -> tuple[int, int]:
        """How many are done, and how many there are as far as Spark tells by now; from any thread."""
        done, known = 0, 0
        stages: set[int] = set()
        for number in self._jobs():
            job = None if number in self._earlier else self._tracker.getJobInfo(number)
            if job is not None and job.isDefined():
                stages.update(job.get().stageIds())
        for number in stages:
            stage = self._tracker.getStageInfo(number)
            if stage.isDefined():
                done += int(stage.get().numCompletedTasks())
                known += int(stage.get().numTasks())
        return done, known

    def _jobs(self) -> list[int]:
        try:
            return list(self._tracker.getJobIdsForTag(self._tag))
        except NO_SUCH_MEMBER:  # progress is told without it
            return []
