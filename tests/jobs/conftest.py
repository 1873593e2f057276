"""The session's settings for jobs, and what a run of the whole suite stores."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).parents[1]))

import jobs
from jobs import catalogue, kept, verdicts

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
cloudpickle.register_pickle_by_value(jobs)

#: The property of a test's report that holds a measured verdict.
MEASURED = "verdict of a job"


class _Measured:
    """Collects the verdicts of all processes of the run in the first one, and stores them at its end."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[verdicts.Verdict, int]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A verdict that fails the suite is not stored: it would be the expected one of the next run.
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == MEASURED:
                    one = json.loads(str(value))
                    self._found[one["job"]] = (verdicts.Verdict(one["verdict"], one["reason"]), one["rows"])

    def pytest_sessionfinish(self) -> None:
        if self._found:
            kept.store_verdicts(self._found, set(catalogue.BY_NAME))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Measured(), "measured-jobs")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that is removed after the test, for it may be in memory."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
