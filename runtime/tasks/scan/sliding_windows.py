"""Windows that overlap, made of the partial aggregates of their panes, instead of each row in all of its windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ....state.keys.key_hash import key_groups
from ...scan.parquet_scan import NotTakenError
from ...scan.partial_scans import Overlap
from .key_order import in_order_of_groups

_LONG = 1 << 63


def in_all_windows(
    rows: pa.RecordBatch, name: str, overlap: Overlap, group_columns: Sequence[str], max_parallelism: int
) -> pa.RecordBatch:
    """What panes have, in each window that they are part of, in the order of the windows' key groups.

    Args:
        rows: partial aggregates of panes, key group first.
        name: the column of the panes.
        overlap: of the windows.
        group_columns: the key columns that decide the key group.
        max_parallelism: number of key groups.

    Raises:
        NotTakenError: a window begins or ends where there is no time.
    """
    if not rows.num_rows:
        return rows
    times = rows.schema.field(name).type
    starts = rows.column(name).field("start").view(pa.int64()).to_numpy()
    if int(starts.min()) - overlap.length_us < -_LONG or int(starts.max()) + overlap.length_us >= _LONG:
        raise NotTakenError(f"windows of {name} begin or end where there is no time")
    parts = []
    for before in range(overlap.count):
        first = starts - before * overlap.slide_us
        bounds = [pa.array(first).view(times[0].type), pa.array(first + overlap.length_us).view(times[1].type)]
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns[name] = pa.StructArray.from_arrays(bounds, fields=list(times))
        if before:  # rows count in the latest of their windows
            columns[overlap.rows_column] = pa.array(np.zeros(len(starts), dtype=np.int64))
        parts.append(pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema))
    whole = pa.concat_batches(parts)
    groups = key_groups([whole.column(column) for column in group_columns], max_parallelism, whole.num_rows)
    return in_order_of_groups(whole.set_column(0, rows.schema.field(0), pa.array(groups)))
