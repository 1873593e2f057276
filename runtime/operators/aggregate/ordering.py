"""Spark's order of values, over whole Arrow columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.keys import KeyCodec


def less(left: pa.Array, right: pa.Array) -> pa.Array:
    """``left < right`` row by row as Spark orders values: NaN above all numbers, -0.0 equal to 0.0.

    Rows in which a side is null have no meaningful answer.
    """
    data_type = left.type
    types = pa.types
    if types.is_floating(data_type):
        a, b = left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)
        return pa.array((a < b) | (np.isnan(b) & ~np.isnan(a)))
    if types.is_boolean(data_type):
        return pc.less(left.cast(pa.uint8()), right.cast(pa.uint8()))
    if types.is_nested(data_type):
        # The key encoding is order preserving: nulls inside come first, as in Spark.
        codec = KeyCodec(pa.schema([pa.field("value", data_type)]))
        return pc.less(codec.encode_columns([left]), codec.encode_columns([right]))
    return pc.less(left, right)
