"""Fixtures of the tests of state/."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tests are not a package (the repository root is one): make their helpers importable.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent / "backend"))
sys.path.append(str(Path(__file__).parent / "keys"))

from state_support import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A pool, a local folder and a local copy cache that is closed at the end."""
    space = Workspace(tmp_path)
    yield space
    space.cache.close()
