"""The keys of rows that are to be aggregated: columns of theirs, or windows that are made of a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..support.arrow_columns import unchunked
from .expressions.long_expressions import computed
from .parquet_scan import NotTakenError
from .partial_scans import PartialScan, ScanKey


def keyed(partials: PartialScan, table: pa.Table) -> pa.Table:
    """The rows with their keys, by their names, windows by where they start; the aggregates' columns have theirs.

    Args:
        partials: the keys and aggregates.
        table: the columns that they are of.

    Raises:
        NotTakenError: Spark has to make the keys.
    """
    columns = {key.name: _starts(key, table) for key in partials.keys}
    others = {call.column for call in partials.calls if call.column is not None} - columns.keys()
    clash = {call.column for call in partials.calls} & columns.keys()
    for key in partials.keys:
        if key.name in clash and key.column != key.name:
            raise NotTakenError(f"key {key.name} has the name of another column that is aggregated")
    return pa.table({**columns, **{name: table[name] for name in others}})


def windows(key: ScanKey, starts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Windows by where they start: the end is as Spark computes it of a time, and a start is a time of its own.

    Args:
        key: the window.
        starts: where they start.
        data_type: the type of a window.

    Raises:
        NotTakenError: they do not begin there.
    """
    assert key.window is not None
    times = {key.column: starts.to_numpy()}
    if not np.array_equal(computed(key.window[0], times), times[key.column]):
        raise NotTakenError(f"windows of {key.column} do not begin where they start")
    fields = [
        pa.array(computed(bound, times)).view(field.type) for bound, field in zip(key.window, data_type, strict=True)
    ]
    return pa.StructArray.from_arrays(fields, fields=list(data_type))


def _starts(key: ScanKey, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    if key.window is None:
        return table[key.column]
    column = table[key.column]
    if column.null_count:
        raise NotTakenError(f"column {key.column} has a null where a window needs a time")
    return pa.array(computed(key.window[0], {key.column: unchunked(column).view(pa.int64()).to_numpy()}))
