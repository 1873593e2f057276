"""Runs all steps of a clean-up, also if one of them fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


def take_all(*steps: Callable[[], object]) -> None:
    """Take all steps; one that fails is logged, keeps no other from being taken, and hides no earlier error."""
    for step in steps:
        try:
            step()
        except Exception as error:
            logger.warning("cleaning up failed: %s: %s", type(error).__name__, error)
