"""Estimates from a sample how often rows have the same key."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: From so many rows of a key on it pays to put them together before they go to their shards.
WORTH_REDUCING = 1.5
#: So many rows are enough to judge by.
_SAMPLE = 1 << 14


def sampled(table: pa.Table, keys: Sequence[str]) -> tuple[int, int]:
    """How many rows of a table were looked at, which ones by chance, and how many different keys they have."""
    some = _by_field(table.select(list(keys)))
    step = table.num_rows // _SAMPLE
    if step > 1:
        # One of so many each, which one by chance: keys may come back at equal distances.
        count = table.num_rows // step
        places = np.arange(count) * step + np.random.default_rng(0).integers(0, step, count)
        some = some.take(pa.array(places))
    return some.num_rows, some.group_by(some.column_names, use_threads=False).aggregate([]).num_rows


def greatest_share(keys: pa.Table) -> float:
    """The part of all rows that has the most frequent key; 0 to 1."""
    fields = _by_field(keys)
    counted = fields.group_by(fields.column_names, use_threads=False).aggregate([([], "count_all")])
    return (pc.max(counted["count_all"]).as_py() or 0) / max(keys.num_rows, 1)


def _by_field(table: pa.Table) -> pa.Table:
    """A table with windows by their bounds and structs by their fields, which may have one name; by numbers instead."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table.rename_columns([str(place) for place in range(table.num_columns)])


def rows_per_key(rows: int, keys: int, whole: int) -> float:
    """About how many rows of all have the same key, judging by some and as if all keys were as frequent.

    Args:
        rows: how many were looked at.
        keys: how many keys they have.
        whole: how many rows there are.
    """
    whole = max(whole, rows)
    # Of so many keys, that many rows meet as many as were met.
    low, high = float(keys), float(whole) * 1024
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _met(middle, rows) < keys else (low, middle)
    return whole / max(_met(high, whole), 1.0)


def rows_per_key_among(rows: int, per_key: float, whole: int) -> float:
    """About how many rows of some have the same key.

    Args:
        rows: how many there are of them.
        per_key: about how many rows of all have the same key.
        whole: how many rows there are.
    """
    return rows / max(_met(max(whole, rows) / per_key, rows), 1.0)


def _met(keys: float, rows: int) -> float:
    """How many of some keys are met in rows of which each has any of them."""
    return keys * -math.expm1(-rows / keys)
