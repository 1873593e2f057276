"""Many binary searches at once: each in a stretch of its own of one array."""

from __future__ import annotations

import numpy as np


def first_at_least(values: np.ndarray, low: np.ndarray, high: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """For each stretch of ascending values the place of the first that is not below its bound; its end if none is.

    Args:
        values: what is searched.
        low: where each stretch begins.
        high: where it ends.
        bounds: of each stretch.
    """
    low, high = low.copy(), high.copy()
    while (is_open := low < high).any():
        middle = (low + high) // 2
        below = is_open & (values[np.minimum(middle, len(values) - 1)] < bounds)
        low = np.where(below, middle + 1, low)
        high = np.where(is_open & ~below, middle, high)
    return low
