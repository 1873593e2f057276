"""Suites of many cases: all of them for whoever asks for their marker, and a store of what they have measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Measured:
    """Collects what all processes of the run have measured in the first one, and stores it at the run's end.

    Args:
        name: the property of a test's report that holds it, as JSON.
        store: takes all of it, if there is any.
    """

    def __init__(self, name: str, store: Callable[[list[Any]], None]) -> None:
        self._name, self._store = name, store
        self._found: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A verdict that fails the suite is not stored: it would be the expected one of the next run.
        if report.when == "call" and report.passed:
            self._found += [json.loads(str(value)) for name, value in report.user_properties if name == self._name]

    def pytest_sessionfinish(self) -> None:
        if self._found:
            self._store(self._found)


def register(config: pytest.Config, plugin: Measured, name: str) -> None:
    """In the first process of the run."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(plugin, name)


def leave_out(config: pytest.Config, items: list[pytest.Item], marker: str) -> None:
    """Only who asks for the marker gets all cases: they take minutes."""
    if marker not in config.option.markexpr:
        all_cases = [item for item in items if item.get_closest_marker(marker)]
        config.hook.pytest_deselected(items=all_cases)
        items[:] = [item for item in items if item not in all_cases]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that is removed after the test, for it may be in memory."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)
