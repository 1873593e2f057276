"""What a run of all cases stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs.verdicts import Verdict
from many_cases import Measured, leave_out, register
from many_cases import folder as folder

import suites
from suites import catalogue

# Spark's workers cannot import test modules: what they need of these travels with the pickle.
cloudpickle.register_pickle_by_value(suites)

#: The property of a test's report that holds a measured verdict.
MEASURED = "verdict of a case"


def _store(found: list[Any]) -> None:
    catalogue.store({case: Verdict(kind, reason) for case, kind, reason in found})


def pytest_configure(config: pytest.Config) -> None:
    register(config, Measured(MEASURED, _store), "measured-suites")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, "suites")
