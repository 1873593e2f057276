"""Epochs of a job of several stages that fail on the driver, as long as a test says so."""

from __future__ import annotations

import pytest
from mixedmode.runtime.driver.epochs import graph_epochs


class EpochFailures:
    """Has every epoch fail at a point, in this process; an environment's failpoints count hits over all its tests.

    Args:
        monkeypatch: takes it back at the end of the test.
        point: where; None: nowhere, for now.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, point: str | None) -> None:
        self.point, self._real = point, graph_epochs.failpoint
        monkeypatch.setattr(graph_epochs, "failpoint", self._pass)

    def _pass(self, name: str) -> None:
        if name == self.point:
            raise RuntimeError(f"failed at {name}")
        self._real(name)
