"""The order of elements within lists of structs, over whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.byte_arrays import owners_of
from ....state.keys.keys import KeyCodec
from .list_arrays import list_from_lengths, list_lengths


def sorted_lists(lists: pa.Array, descending: Sequence[bool], limit: int | None = None) -> pa.Array:
    """Each list of structs in the order of the structs' first fields; equal ones stay as they are.

    Nulls are the least, as in Spark where nothing else is said; NaN is the greatest.

    Args:
        lists: null counts as empty.
        descending: for each field that it goes by.
        limit: the most that a list keeps; None: all.
    """
    lengths, values = list_lengths(lists), lists.flatten()
    owners = owners_of(lengths)
    keys = {f"k{place}": _sortable(pc.struct_field(values, [place])) for place in range(len(descending))}
    by = [(name, "descending" if down else "ascending") for name, down in zip(keys, descending, strict=True)]
    order = pc.sort_indices(pa.table({"owner": owners, **keys}), [("owner", "ascending"), *by]).to_numpy()
    if limit is not None:
        rank = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        order, lengths = order[rank < limit], np.minimum(lengths, limit)
    return list_from_lengths(lengths, values.take(pa.array(order)), lists.type)


def last_fields(lists: pa.Array) -> pa.Array:
    """Lists of the last field of each struct."""
    lengths, values = list_lengths(lists), lists.flatten()
    field = values.type.num_fields - 1
    return list_from_lengths(lengths, pc.struct_field(values, [field]), pa.list_(values.type.field(field).type))


def _sortable(values: pa.Array) -> pa.Array:
    """Bytes that Arrow orders as Spark orders the values."""
    return KeyCodec(pa.schema([pa.field("value", values.type)])).encode_columns([values])
