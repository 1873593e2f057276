"""Times as INT96, a day's number and the nanoseconds in it, which is how Spark writes them unless it is told not to.

Nothing in a file says what such times mean, and readers differ.  What Spark itself has written it reads as it was,
whatever settings and zones there are: it puts its version into the footer, and by that it knows the calendar.  Arrow
knows no signs of the two numbers; of the years 1 to 9999 Spark writes none.

Invariant: times that are taken are those for which both readers are known to give the same; others are Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: What Spark writes into footers: its version, and that times are those of another calendar.
SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
#: The first one that wrote times of the calendar of today.
_FIRST_VERSION = b"3.1.0"
_WRITER = "parquet-mr"
#: From here on no zone's times differ in the two calendars: 1900-01-01 UTC, in seconds.
_ALIKE_FROM_S = -2_208_988_800
#: The first and the last second of the years 1 to 9999.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799

PHYSICAL_TYPE = "INT96"


def is_of_spark(metadata: pq.FileMetaData) -> bool:
    """Whether Spark has written a file."""
    return SPARK_VERSION in (metadata.metadata or {}) and (metadata.created_by or "").startswith(_WRITER)


def are_alike(
    source: pa.NativeFile, metadata: pq.FileMetaData, columns: Sequence[str], groups: Sequence[int], rows: int
) -> bool:
    """Whether all times are such that Spark and Arrow read the same microseconds.

    Of microseconds that have left their 64 bits nobody can tell, so it takes a look at the seconds, which cannot.

    Args:
        source: a file that Spark has written.
        metadata: its footer.
        columns: those with such times.
        groups: the row groups that are read.
        rows: how many are looked at at once.
    """
    written = metadata.metadata or {}
    is_legacy = _LEGACY_INT96 in written or written[SPARK_VERSION] < _FIRST_VERSION
    first_s = _ALIKE_FROM_S if is_legacy else _FIRST_S
    file = pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="s")
    for batch in file.iter_batches(rows, row_groups=list(groups), columns=list(columns), use_threads=False):
        for column in batch.columns:
            seen = pc.min_max(column.cast(pa.int64()))
            if seen["min"].is_valid and not first_s <= seen["min"].as_py() <= seen["max"].as_py() <= _LAST_S:
                return False
    return True
