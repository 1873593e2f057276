"""What tests of joins share."""

from __future__ import annotations

import pytest
from joins import Pair
from support import World


@pytest.fixture
def pair(world: World) -> Pair:
    """Two sides, of which the left one has the job's output and checkpoints."""
    return Pair(world)
