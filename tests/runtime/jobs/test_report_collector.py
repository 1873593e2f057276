"""Which of the jobs of an epoch gives its reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mixedmode.runtime.jobs.report_collector import ReportCollector
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.tasks.report import PreparationRefusal, ShardReport


def test_the_next_job_does_what_a_task_has_left_to_spark() -> None:
    """The refusal is noted, and is no report."""
    refusal = PreparationRefusal("a sum may overflow", lasts=True)
    report = ShardReport(0, "", (), (), ShardCounters(rows_in=3), {})
    noted: list[Any] = []
    collector = ReportCollector(cast(Any, None), None, False, False, noted.append, noted.append)
    jobs: Any = (SimpleNamespace(collect=lambda one=one: [[one.to_bytes()]]) for one in (refusal, report, None))
    rows = collector.collect_rows(jobs, {})
    assert ShardReport.of_rows(rows) == [report]
    assert noted == [refusal]
