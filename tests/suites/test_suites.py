"""Spark's own suites: all cases (``make test-suites``), and a seeded sample of those that are the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from jobs.verdicts import SAME, Verdict

from suites import catalogue
from suites.case import Case
from suites.run import verdict

from .conftest import MEASURED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEED = os.environ.get("MIXEDMODE_SUITES_SEED", "1")
_SAME = catalogue.same()
_SAMPLE = Random(_SEED).sample(_SAME, min(2, len(_SAME)))


@pytest.mark.suites
@pytest.mark.parametrize("case", catalogue.CASES, ids=lambda case: case.name)
def test_case_that_was_the_same_is_the_same(
    spark: SparkSession, folder: Path, record_property: Callable[[str, object], None], case: Case
) -> None:
    found = verdict(spark, case, folder)
    if case in _SAME:
        assert found == Verdict(SAME)
    record_property(MEASURED, json.dumps([case.name, found.kind, found.reason]))


def _marked(case: Case) -> Any:
    """``make test`` leaves out those whose query begins again for each change of its state's schema."""
    return pytest.param(case, marks=pytest.mark.slow if case.name.startswith("evolving") else ())


@pytest.mark.parametrize("case", map(_marked, _SAMPLE), ids=lambda case: case.name)
def test_sampled_case_is_the_same(spark: SparkSession, folder: Path, case: Case) -> None:
    assert verdict(spark, case, folder) == Verdict(SAME)
