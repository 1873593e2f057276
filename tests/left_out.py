"""Says at the end of a run which tests ``-m`` has left out, by marker, and how to run them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import fewer_examples
import pytest

#: A test counts once, for the first of its markers.
MARKERS = ("kafka", "s3", "cluster", "slow")
#: Tests that only a target of their own runs: make test-jobs, make test-suites.
_OF_THEIR_OWN = ("jobs", "suites")
_KEY = "mixedmode left out"


class LeftOut:
    """Counts what a run leaves out, in whichever process has collected it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count tests that have one of the markers."""
        ours = [item for item in items if not any(map(item.get_closest_marker, _OF_THEIR_OWN))]
        marked = (next((name for name in MARKERS if item.get_closest_marker(name)), None) for item in ours)
        self._counts.update(name for name in marked if name is not None)

    def pytest_sessionfinish(self) -> None:
        """Tell the process that prints."""
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_KEY] = dict(self._counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process of the run has counted: each of them collects all tests."""
        if counts := getattr(node, "workeroutput", {}).get(_KEY):
            self._counts = Counter(counts)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line, above pytest's own last one."""
        if self._counts and self._config.option.markexpr:
            counts = ", ".join(f"{self._counts[name]} {name}" for name in MARKERS if self._counts[name])
            terminalreporter.write_line(
                f"Left out by their markers: {self._counts.total()} tests ({counts}). "
                "Run them with make test-rest, everything with make test ALL=1."
            )
        if (tried := fewer_examples.share()) < 1:
            terminalreporter.write_line(
                f"Of generated examples {tried:.0%} were tried; make test-rest tries the others."
            )
