"""What a run of all cases stores."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs.verdicts import Verdict

import suites
from suites import catalogue

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
cloudpickle.register_pickle_by_value(suites)

#: The property of a test's report that holds a measured verdict.
MEASURED = "verdict of a case"


class _Measured:
    """Collects the verdicts of all processes of the run in the first one, and stores them at its end."""

    def __init__(self) -> None:
        self._found: dict[str, Verdict] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A verdict that fails the suite is not stored: it would be the expected one of the next run.
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == MEASURED:
                    case, kind, reason = json.loads(str(value))
                    self._found[case] = Verdict(kind, reason)

    def pytest_sessionfinish(self) -> None:
        if self._found:
            catalogue.store(self._found)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Measured(), "measured-suites")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only who asks for the marker gets all cases: they take minutes."""
    if "suites" not in config.option.markexpr:
        all_cases = [item for item in items if item.get_closest_marker("suites")]
        config.hook.pytest_deselected(items=all_cases)
        items[:] = [item for item in items if item not in all_cases]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that is removed after the test, for it may be in memory."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
