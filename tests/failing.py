"""Has the process of a test fail at failpoints."""

from __future__ import annotations

from collections import Counter

import pytest
from mixedmode.runtime.support import failpoints


def fail_at(monkeypatch: pytest.MonkeyPatch, points: str) -> None:
    """Fail at these points from now on, whose hits are counted anew; empty: at none."""
    monkeypatch.setenv(failpoints.VARIABLE, points)
    monkeypatch.setattr(failpoints, "_hits", Counter())
