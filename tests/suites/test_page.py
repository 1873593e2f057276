"""The page of Spark's own suites, and the tables that it is made of."""

from __future__ import annotations

from suites import catalogue
from suites.page import PAGE, VERDICTS, page

_ROWS = [row for table in catalogue.tables().values() for row in table]


def test_page_is_made_of_the_tables() -> None:
    assert PAGE.read_text() == page(_ROWS), "run python -m suites.page in tests"


def test_each_test_is_listed_once_with_a_verdict_and_each_case_is_of_listed_tests() -> None:
    tests = [(row["suite"], row["test"]) for row in _ROWS]
    assert len(set(tests)) == len(tests)
    assert {row["verdict"] for row in _ROWS} <= set(VERDICTS)
    assert not [row["test"] for row in _ROWS if row["verdict"] not in ("same", "not run") and not row["reason"]]
    assert {test for case in catalogue.CASES for test in case.tests} <= set(tests)
    names = [case.name for case in catalogue.CASES]
    assert len(set(names)) == len(names)
