"""The keys of the first rows of Parquet files, which the driver reads: a Spark job of few rows takes much longer."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .parquet_scan import NotTakenError
from .partial_scans import file_parts
from .scan_keys import keyed
from .scan_plans import check_source, recognised

#: Rows that are read at once, and in all if a filter lets few of them through.
_BATCH_ROWS, _MOST_ROWS = 1 << 17, 1 << 20


def first_keys(keys: DataFrame, least_rows: int) -> pa.Table:
    """Keys of the first rows of the first file.

    Args:
        keys: selects the keys of each row.
        least_rows: so many are enough; there may be fewer where filters let few through.

    Raises:
        NotTakenError: only Spark can say.
    """
    check_source(keys)
    counted = keys.groupBy(*keys.columns).agg(F.count("*").alias("__rows"))
    scan = recognised(counted.select(*counted.columns), {}, "fast")
    partials = replace(scan.partials, calls=())
    filesystem, dealt = file_parts(scan.uris[:1], 1, scan.constants[:1])
    read, found = 0, list[pa.Table]()
    parts = chain.from_iterable(dealt)
    for table in chain.from_iterable(partials.scan.batches(filesystem, part, _BATCH_ROWS) for part in parts):
        found += [keyed(partials, rows) for rows in partials.computed_of(table)]
        read += table.num_rows
        if read >= _MOST_ROWS or sum(map(len, found)) >= least_rows:
            break
    if not found:
        raise NotTakenError("the first rows of the first file have no keys")
    return pa.concat_tables(found)
