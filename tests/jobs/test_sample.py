"""A seeded sample of the public jobs: they are still the same, and stock's stored results are what stock gives."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from jobs import catalogue, kept, verdicts
from jobs.job import Job
from jobs.run import run_stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEED = os.environ.get("MIXEDMODE_JOBS_SEED", "1")
_SAME = sorted(name for name, one in kept.verdicts().items() if one.kind == verdicts.SAME and name in catalogue.BY_NAME)
_SAMPLE = [catalogue.BY_NAME[name] for name in Random(_SEED).sample(_SAME, min(5, len(_SAME)))]


@pytest.mark.parametrize("job", _SAMPLE, ids=lambda job: job.name)
def test_sampled_job_is_the_same(spark: SparkSession, folder: Path, job: Job) -> None:
    stock = kept.stored(job)
    assert stock is not None, "the job has changed: make test-jobs"
    assert verdicts.verdict(spark, job, folder, stock) == verdicts.Verdict(verdicts.SAME)


@pytest.mark.parametrize("job", _SAMPLE[:1], ids=lambda job: job.name)
def test_stored_results_of_a_sampled_job_are_those_of_stock(spark: SparkSession, folder: Path, job: Job) -> None:
    stock = kept.stored(job)
    assert stock is not None, "the job has changed: make test-jobs"
    assert run_stock(spark, job, folder) == stock.results
