"""The executors of an application, and how far its jobs have come."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from .spark_expressions import NO_SUCH_MEMBER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many tasks of a stage are looked at.
_MOST_TASKS = 10_000
#: How long events of Spark's are waited for.
_TOLD_MS = 5_000
#: Of a group the newest jobs: those before have ended.
_LAST_JOBS = 4
#: Tag of jobs of which :class:`JobTasks` counts nothing.
_ASIDE = "mixedmode-aside"


class Executors:
    """The executors of an application; no public API names them.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._context = context._jsc.sc()
        self._scheduler = self._context.taskScheduler()

    def membership(self) -> tuple[frozenset[str], int]:
        """Changes whenever one comes, goes, or is told to go; four calls, however many there are, before each job.

        Returns:
            What changes, and how many of them are to be given tasks: :meth:`places` may know of one a little later.
        """
        addresses = self._addresses()
        names: list[str] = []
        with contextlib.suppress(NO_SUCH_MEMBER):
            names = _keys(self._scheduler.executorsPendingDecommission())
        found = {f"at {name}" for name in addresses} | {f"leaving {name}" for name in names}
        return frozenset(found), len(addresses) - 1 - len(names)

    def places(self) -> list[str]:
        """Those that are given tasks, by the names that Spark takes for places of partitions; a question for each host.

        Nothing if this version of Spark, or the cluster's own scheduler, does not tell.
        """
        found: list[str] = []
        try:
            for host in sorted({name.rpartition(":")[0] for name in self._addresses()}):
                # Without those that are being decommissioned.
                alive = self._scheduler.getExecutorsAliveOnHost(host)
                if alive.isDefined():
                    names = str(alive.get().mkString(",")).split(",")
                    found += [f"executor_{host}_{name}" for name in sorted(names) if name]
        except NO_SUCH_MEMBER:
            return []
        return found

    def _addresses(self) -> list[str]:
        """Of the driver, and of all executors."""
        return _keys(self._context.getExecutorMemoryStatus())


def _keys(entries: Any) -> list[str]:
    """The keys of a Scala map, which are names, in one call."""
    return re.findall(r"([^\s,(]+) -> ", str(entries.toString()))


@dataclass(frozen=True)
class RunningStage:
    """A stage of Spark's that has tasks in hand."""

    #: The description of its job.
    job: str
    #: The numbers of the tasks, which are those of partitions.
    tasks: tuple[int, ...]


def jobs_so_far(spark: SparkSession) -> int:
    """How many jobs Spark has run in this application; many if this version does not tell."""
    context: Any = spark.sparkContext
    try:
        return int(context._jsc.sc().dagScheduler().numTotalJobs())
    except NO_SUCH_MEMBER:
        return sys.maxsize


def application_setting(spark: SparkSession, name: str) -> str | None:
    """A setting that the application was started with; None: it was not given."""
    return spark.sparkContext.getConf().get(name, None)


def task_slots(spark: SparkSession) -> int:
    """How many tasks can run at once; of executors that are still to come those that were asked for."""
    context: Any = spark.sparkContext
    scala = context._jsc.sc()
    now = int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    asked, cores, each = (
        int(application_setting(spark, name) or default)
        for name, default in (("spark.executor.instances", 0), ("spark.executor.cores", 1), ("spark.task.cpus", 1))
    )
    return max(now, asked * (cores // each))


def most_task_failures(spark: SparkSession) -> int:
    """How often a task may fail before Spark gives its job up; 1 in local mode, unless the master says otherwise."""
    context: Any = spark.sparkContext
    with contextlib.suppress(NO_SUCH_MEMBER):
        return int(context._jsc.sc().taskScheduler().maxTaskFailures())
    return 1


def running_stages(spark: SparkSession, *tags: str) -> list[RunningStage]:
    """What runs of the jobs with a tag, by the store that Spark's UI reads; nothing if this version does not tell.

    Args:
        spark: the session.
        tags: of the jobs.
    """
    context: Any = spark.sparkContext
    store, tracker = context._jsc.sc().statusStore(), context._jsc.sc().statusTracker()
    found: list[RunningStage] = []
    with contextlib.suppress(NO_SUCH_MEMBER, Py4JError, OSError):
        for number in sorted({number for tag in tags for number in tracker.getJobIdsForTag(tag)}):
            job = tracker.getJobInfo(number)
            if not job.isDefined() or str(job.get().status().toString()) != "RUNNING":
                continue
            said = store.job(number).description()
            for stage in sorted(job.get().stageIds()):
                tasks = _tasks_in_hand(tracker, store, stage)
                if tasks:
                    found.append(RunningStage(str(said.get()) if said.isDefined() else f"job {number}", tasks))
    return found


def active_tasks(spark: SparkSession, group: str) -> int:
    """How many tasks run of the jobs of a group, those of cancelled jobs too.

    Args:
        spark: a session.
        group: of the jobs; of a streaming query its run's id.
    """
    context: Any = spark.sparkContext
    with contextlib.suppress(Py4JError):  # what has just begun is still to be told to who counts
        context._jsc.sc().listenerBus().waitUntilEmpty(_TOLD_MS)
    tracker = context._jsc.sc().statusTracker()
    jobs = [tracker.getJobInfo(number) for number in sorted(tracker.getJobIdsForGroup(group))[-_LAST_JOBS:]]
    stages = [tracker.getStageInfo(stage) for job in jobs if job.isDefined() for stage in job.get().stageIds()]
    return sum(int(stage.get().numActiveTasks()) for stage in stages if stage.isDefined())


def _tasks_in_hand(tracker: Any, store: Any, stage: int) -> tuple[int, ...]:
    info = tracker.getStageInfo(stage)
    if not info.isDefined() or not int(info.get().numActiveTasks()):
        return ()
    tasks = store.taskList(stage, int(info.get().currentAttemptId()), _MOST_TASKS)
    known = [tasks.apply(at) for at in range(tasks.size())]
    return tuple(sorted(int(task.index()) for task in known if str(task.status()) == "RUNNING"))


@dataclass(frozen=True)
class JobWork:
    """How far some jobs have come, as far as Spark tells by now."""

    #: Of the tasks of all stages that have begun, or are before those.
    tasks_done: int = 0
    tasks: int = 0
    #: Rows that they have read from sources.
    rows_read: int = 0
    #: Rows that they have written for later stages.
    rows_shuffled: int = 0


@contextlib.contextmanager
def aside(spark: SparkSession) -> Iterator[None]:
    """Spark jobs in here only prepare others: they tell nothing of how far those have come.

    Args:
        spark: the session.
    """
    spark.sparkContext.addJobTag(_ASIDE)
    try:
        yield
    finally:
        spark.sparkContext.removeJobTag(_ASIDE)


class JobTasks:
    """The work of all jobs with a tag that start from now on, except those :func:`aside`, by their tasks' metrics.

    Metrics of a task in hand are those of its executor's last heartbeat.

    Args:
        spark: the session.
        tag: of the jobs.
    """

    def __init__(self, spark: SparkSession, tag: str) -> None:
        context: Any = spark.sparkContext
        self._tracker = context._jsc.sc().statusTracker()
        self._store = context._jsc.sc().statusStore()
        self._tag = tag
        self._earlier = set(self._jobs())

    @classmethod
    def of(cls, spark: SparkSession, tag: str) -> JobTasks | None:
        """The work of jobs with a tag; None: there is no Spark, as in the harness for processors.

        Args:
            spark: the session, or what stands for it.
            tag: of the jobs.
        """
        return cls(spark, tag) if hasattr(spark.sparkContext, "_jsc") else None

    def __call__(self) -> JobWork:
        """What is done by now; from any thread."""
        done, known, read, shuffled = 0, 0, 0, 0
        stages: set[int] = set()
        for number in self._jobs():
            job = None if number in self._earlier else self._tracker.getJobInfo(number)
            if job is not None and job.isDefined():
                stages.update(job.get().stageIds())
        for number in stages:
            stage = self._tracker.getStageInfo(number)
            if not stage.isDefined():
                continue
            finished, active = int(stage.get().numCompletedTasks()), int(stage.get().numActiveTasks())
            if not finished and not active:
                continue  # it waits for others, or was not needed
            done += finished
            known += int(stage.get().numTasks())
            with contextlib.suppress(NO_SUCH_MEMBER, Py4JError):
                attempt = self._store.lastStageAttempt(number)
                read += int(attempt.inputRecords())
                shuffled += int(attempt.shuffleWriteRecords())
        return JobWork(done, known, read, shuffled)

    def _jobs(self) -> list[int]:
        try:
            of_aside = set(self._tracker.getJobIdsForTag(_ASIDE))
            return [number for number in self._tracker.getJobIdsForTag(self._tag) if number not in of_aside]
        except NO_SUCH_MEMBER:  # progress is told without it
            return []
