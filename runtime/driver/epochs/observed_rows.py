"""Collects the metrics of each ``observe()`` from an epoch's jobs, for its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Row

from ...catalyst.spark_observations import observed_metrics
from ...operators.frame_steps import Metrics
from ...spec import JobSpec
from .stage_runs import StageRun


@dataclass
class ObservedRows:
    """Brings together what the stages of an epoch have observed.

    Args:
        job: the job.
    """

    job: JobSpec
    #: What the metrics are of no rows, by name.
    _of_nothing: dict[str, Row] = field(default_factory=dict)

    def of(self, runs: Mapping[str, StageRun]) -> dict[str, Row]:
        """The metrics by name, also of those that had no rows; left out are those that Spark has left out.

        Args:
            runs: what the stages have done in the epoch.
        """
        found = {name: row for done in runs.values() for name, row in done.observed.items()}
        observed: dict[str, Row] = {}
        for metrics, asked in self._asked(runs):
            if metrics.name in found:
                observed[metrics.name] = found[metrics.name]
            elif not asked:
                observed[metrics.name] = self._nothing(metrics)
        return observed

    def _asked(self, runs: Mapping[str, StageRun]) -> list[tuple[Metrics, bool]]:
        """All metrics, and whether there was a job in the epoch that was to compute them."""
        asked = []
        for stage in self.job.stages:
            had_rows = stage.uid in runs and runs[stage.uid].request.frame is not None
            asked += [(metrics, had_rows) for metrics in stage.observed]
        transform = self.job.output_transform
        if transform is not None:
            reports = [report for uid in self.job.outputs if uid in runs for report in runs[uid].reports]
            had_rows = any(report.output for report in reports) if transform.moves_rows else bool(reports)
            asked += [(metrics, had_rows) for metrics in transform.observed]
        return asked

    def _nothing(self, metrics: Metrics) -> Row:
        if metrics.name not in self._of_nothing:
            rows = metrics.template.observe(metrics.name, *metrics.columns)
            rows.collect()
            self._of_nothing.update(observed_metrics(rows))
        return self._of_nothing[metrics.name]
