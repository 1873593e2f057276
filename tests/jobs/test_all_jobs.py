"""All public jobs, each on mixedmode and, if it has changed, on stock Spark: ``make test-jobs``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import catalogue, kept, verdicts
from jobs.job import Job

from .conftest import MEASURED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Set by ``make test-jobs REFRESH=1``: stock's results are computed again.
_REFRESH = bool(os.environ.get("MIXEDMODE_JOBS_REFRESH"))


@pytest.mark.jobs
@pytest.mark.parametrize("job", catalogue.JOBS, ids=lambda job: job.name)
def test_job_that_was_the_same_is_the_same(
    spark: SparkSession, folder: Path, record_property: Callable[[str, object], None], job: Job
) -> None:
    stock = None if _REFRESH else kept.stored(job)
    if stock is None:
        stock = verdicts.stock_of(spark, job, folder)
        kept.store(job, stock)
    assert stock.rows, "stock Spark gives no row: nothing is compared"
    found = verdicts.verdict(spark, job, folder, stock)
    before = kept.verdicts().get(job.name)
    if before is not None and before.kind == verdicts.SAME:
        assert found == before
    said = {"job": job.name, "verdict": found.kind, "reason": found.reason, "rows": stock.rows}
    record_property(MEASURED, json.dumps(said))
