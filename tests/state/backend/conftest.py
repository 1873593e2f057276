"""What the tests of both backends share."""

from __future__ import annotations

import pytest
from mixedmode.state.keys.registry import StateRegistry
from state_support import NUMBER


@pytest.fixture
def registry() -> StateRegistry:
    """One value and one list."""
    made = StateRegistry()
    made.declare("v", "value", NUMBER)
    made.declare("l", "list", NUMBER)
    return made
