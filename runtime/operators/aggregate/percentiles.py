"""Computes aggregates that need all values of a key in order: exact percentiles and the mode."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.byte_arrays import owners_of
from ..columnar.record_codec import RecordCodec
from .list_arrays import list_lengths


def percentiles(lists: pa.Array, shares: tuple[float, ...]) -> list[np.ndarray]:
    """For each share one value per list, in the arithmetic of Spark's ``percentile``; undefined for an empty list."""
    lengths = list_lengths(lists)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    owners = owners_of(lengths)
    # NaN comes last, as in Spark.
    values = values[np.lexsort((values, owners))] if len(values) else np.zeros(1)
    starts = np.cumsum(lengths) - lengths
    last = np.maximum(lengths - 1, 0)
    found = []
    for share in shares:
        position = last * share
        low, high = np.floor(position), np.ceil(position)
        # Empty lists at the end begin behind the last value.
        left, right = (values[np.minimum(starts + at.astype(np.int64), len(values) - 1)] for at in (low, high))
        with np.errstate(invalid="ignore"):
            between = (high - position) * left + (position - low) * right
        found.append(np.where((low == high) | (left == right), left, between))
    return found


def ranked(lists: pa.Array, shares: tuple[float, ...], margin: float, *, descending: bool = False) -> list[pa.Array]:
    """For each share a value of each list, the one that Spark's ``percentile_approx`` looks for; any for an empty list.

    Args:
        lists: the values, without nulls.
        shares: from 0 to 1: the least value is asked for that so many are not greater than.
        margin: a share that is so near 0, or 1, stands for the least value, or the greatest.
        descending: the greatest value is asked for that so many are not less than.
    """
    lengths, values = list_lengths(lists), lists.flatten()
    if not len(values):
        return [pa.nulls(len(lengths), values.type) for _ in shares]
    owners = owners_of(lengths)
    table = pa.table({"owner": owners, "value": values})
    # NaN comes last, as in Spark.
    order = pc.sort_indices(table, [("owner", "ascending"), ("value", "ascending")]).to_numpy()
    starts = np.cumsum(lengths) - lengths
    found = []
    for share in shares:
        rank = np.ceil(share * lengths) if margin < share < 1 - margin else lengths * (share > margin)
        last = np.maximum(lengths - 1, 0)
        place = np.clip(rank.astype(np.int64) - 1, 0, last)
        place = starts + (last - place if descending else place)
        # Empty lists at the end begin behind the last value.
        found.append(values.take(pa.array(order[np.minimum(place, len(order) - 1)])))
    return found


def modes(lists: pa.Array, *, greatest: bool = False) -> pa.Array:
    """The most frequent value of each list, of several the least or greatest; null for an empty list."""
    lengths, values = list_lengths(lists), lists.flatten()
    if not len(values):
        return pa.nulls(len(lengths), values.type)
    if pa.types.is_floating(values.type):  # Equal bytes: Spark counts 0.0 and -0.0, which are equal, as one value.
        values = pc.add(values, pa.scalar(0.0, values.type))
    codes = RecordCodec([pa.field("value", values.type)]).encode([values]).dictionary_encode()
    index = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(index, return_index=True)
    size = len(first)
    rank = np.empty(size, dtype=np.int64)
    rank[pc.sort_indices(values.take(pa.array(first))).to_numpy()] = np.arange(size)
    owners = owners_of(lengths)
    pairs, places, counts = np.unique(owners * size + rank[index], return_index=True, return_counts=True)
    # Within a list by frequency, then by value: the last one is it.
    order = np.lexsort((pairs if greatest else -pairs, counts, pairs // size))
    owner = (pairs // size)[order]
    chosen = order[np.append(owner[1:] != owner[:-1], True)]
    result = np.zeros(len(lengths), dtype=np.int64)
    result[pairs[chosen] // size] = places[chosen]
    return values.take(pa.array(result, mask=lengths == 0))
