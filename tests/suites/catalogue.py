"""All cases, found in the files of ``cases/``, and the table of Spark's tests."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from jobs.verdicts import DIFFERS, REFUSED, SAME, Verdict

from . import cases
from .case import CASES, Case

for _found in sorted(pkgutil.iter_modules(cases.__path__), key=lambda one: one.name):
    import_module(f"{cases.__name__}.{_found.name}")
CASES.sort(key=lambda one: one.query.__module__)  # some files import others
_HERE = Path(__file__).parent
#: From the best to the worst; of several cases of one test the worst counts.
_ORDER = (SAME, REFUSED, DIFFERS)


class Listed(TypedDict):
    """One test of Spark: ``verdict`` is same, refused, differs, excluded or not run."""

    suite: str
    test: str
    verdict: str
    reason: str
    held_by: str


def tables() -> dict[Path, list[Listed]]:
    """The rows of each table: a JSON file for each family of suites."""
    return {path: json.loads(path.read_text()) for path in sorted(_HERE.glob("*.json"))}


def same() -> list[Case]:
    """The cases whose tests are all the same."""
    rows = [one for table in tables().values() for one in table]
    kept = {(one["suite"], one["test"]) for one in rows if one["verdict"] == SAME}
    return [case for case in CASES if kept.issuperset(case.tests)]


def store(found: Mapping[str, Verdict]) -> None:
    """Write what was measured, by the case's name, into the tables.

    A test of several cases changes only when all of them were run.
    """
    for path, table in tables().items():
        for one in table:
            of_test = [case.name for case in CASES if (one["suite"], one["test"]) in case.tests]
            if of_test and found.keys() >= set(of_test):
                worst = max((found[name] for name in of_test), key=lambda verdict: _ORDER.index(verdict.kind))
                one["verdict"], one["reason"] = worst.kind, worst.reason
                one["held_by"] = ", ".join(f"tests/suites/test_suites.py::{name}" for name in of_test)
        path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
