"""Buffers of statistical functions: counts, means and sums of powers of differences from the mean.

They are merged by the formulas of Chan and Pébay, as Spark does it.  A side without values must not turn infinite or
NaN means of the other into NaN by way of ``0 * inf``, so where one side is empty the other is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .buffers import Buffer


@dataclass(frozen=True)
class MomentsBuffer(Buffer):
    """Count, mean and sum of squared differences from the mean."""

    kind = "moments"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        a, b = ([floats(column) for column in side] for side in (old, new))
        count, share, delta = _distance(a[0], b[0], a[1], b[1])
        with np.errstate(all="ignore"):
            mean = a[1] + share * b[0]
            squares = a[2] + b[2] + delta * share * a[0] * b[0]
        return _settled(count, a, b, [mean, squares])


@dataclass(frozen=True)
class ShapeBuffer(Buffer):
    """Count, mean, and sums of squared, cubed and fourth powers of differences from the mean."""

    kind = "shape"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        a, b = ([floats(column) for column in side] for side in (old, new))
        (n_a, mean_a, two_a, three_a, four_a), (n_b, mean_b, two_b, three_b, four_b) = a, b
        count, share, delta = _distance(n_a, n_b, mean_a, mean_b)
        with np.errstate(all="ignore"):
            mean = mean_a + share * n_b
            two = two_a + two_b + delta * share * n_a * n_b
            three = (
                three_a
                + three_b
                + share * share * delta * n_a * n_b * (n_a - n_b)
                + 3.0 * share * (n_a * two_b - n_b * two_a)
            )
            four = (
                four_a
                + four_b
                + share**3 * delta * n_a * n_b * (n_a * n_a - n_a * n_b + n_b * n_b)
                + 6.0 * share * share * (n_a * n_a * two_b + n_b * n_b * two_a)
                + 4.0 * share * (n_a * three_b - n_b * three_a)
            )
        return _settled(count, a, b, [mean, two, three, four])


@dataclass(frozen=True)
class CoMomentsBuffer(Buffer):
    """Of pairs: count, both means, sum of products of differences from them, and both sums of squared differences."""

    kind = "co_moments"

    def merge(self, old: list[pa.Array], new: list[pa.Array]) -> list[pa.Array]:
        a, b = ([floats(column) for column in side] for side in (old, new))
        count, share_x, delta_x = _distance(a[0], b[0], a[1], b[1])
        _, share_y, delta_y = _distance(a[0], b[0], a[2], b[2])
        both = a[0] * b[0]
        with np.errstate(all="ignore"):
            merged = [
                a[1] + share_x * b[0],
                a[2] + share_y * b[0],
                a[3] + b[3] + delta_x * share_y * both,
                a[4] + b[4] + delta_x * share_x * both,
                a[5] + b[5] + delta_y * share_y * both,
            ]
        return _settled(count, a, b, merged)


def floats(array: pa.Array) -> np.ndarray:
    """Values as doubles, 0 for null."""
    return pc.fill_null(array, 0).cast(pa.float64()).to_numpy(zero_copy_only=False)


def _distance(
    count_a: np.ndarray, count_b: np.ndarray, mean_a: np.ndarray, mean_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count of both sides, distance of their means divided by it, and that distance."""
    count = count_a + count_b
    with np.errstate(all="ignore"):
        delta = mean_b - mean_a
        return count, np.where(count == 0, 0.0, delta / np.where(count == 0, 1.0, count)), delta


def _settled(count: np.ndarray, a: list[np.ndarray], b: list[np.ndarray], merged: list[np.ndarray]) -> list[pa.Array]:
    """The count and the merged columns, with what is only on one side taken from there."""
    columns = [
        np.where(a[0] == 0, right, np.where(b[0] == 0, left, column))
        for left, right, column in zip(a[1:], b[1:], merged, strict=True)
    ]
    return [pa.array(count.astype(np.int64)), *map(pa.array, columns)]
