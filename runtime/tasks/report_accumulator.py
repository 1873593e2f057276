"""Reports of tasks whose job goes on behind them: told to the driver by an accumulator of Spark's.

What such a task gives are its rows, which Spark moves on to the next stage's tasks, so its report needs another way.
Spark adds to an accumulator when a task has succeeded; if a task's rows were lost and it ran again, it adds once more.

Invariant: with one report of each shard there was one attempt of each whose rows went on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

#: The run of a job, and a report.
_Entry = tuple[str, bytes]


class _Lists(AccumulatorParam[list[_Entry]]):
    def zero(self, value: list[_Entry]) -> list[_Entry]:
        return []

    def addInPlace(self, value1: list[_Entry], value2: list[_Entry]) -> list[_Entry]:
        return value1 + value2


class ReportAccumulator:
    """Takes the reports of one job at a time, on the driver."""

    def __init__(self, spark: SparkSession) -> None:
        entries: list[_Entry] = []
        self._accumulator: Any = spark.sparkContext.accumulator(entries, _Lists())

    def sender(self) -> ReportSender:
        """For the tasks of a job that is about to run; what others have told is forgotten."""
        self._accumulator.value = []
        return ReportSender(self._accumulator, uuid.uuid4().hex)

    def of(self, sender: ReportSender) -> list[bytes]:
        """What the tasks of the job have told."""
        entries: Iterable[_Entry] = self._accumulator.value
        return [report for run, report in entries if run == sender.run]


class ReportSender:
    """The tasks' end of it.

    Args:
        accumulator: the accumulator.
        run: the run of the job.
    """

    def __init__(self, accumulator: Any, run: str) -> None:
        self._accumulator = accumulator
        self.run = run

    def send(self, report: bytes) -> None:
        """Have the driver told of a report when the task has succeeded."""
        self._accumulator.add([(self.run, report)])
