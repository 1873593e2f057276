"""The session's settings for jobs, and what a run of the whole suite stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).parents[1]))

from many_cases import Measured, leave_out, register
from many_cases import folder as folder

import jobs
from jobs import catalogue, kept, verdicts

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
cloudpickle.register_pickle_by_value(jobs)

#: The property of a test's report that holds a measured verdict.
MEASURED = "verdict of a job"


def _store(found: list[Any]) -> None:
    kept.store_verdicts(
        {one["job"]: (verdicts.Verdict(one["verdict"], one["reason"]), one["rows"]) for one in found},
        set(catalogue.BY_NAME),
    )


def pytest_configure(config: pytest.Config) -> None:
    register(config, Measured(MEASURED, _store), "measured-jobs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, "jobs")
