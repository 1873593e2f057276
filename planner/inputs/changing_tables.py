"""Tables in a history that are read as they are at each look: a job may look more than once, and so may a restart."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ...runtime.spark_io.spark_delta import delta_reads
from ...runtime.spark_io.spark_iceberg import iceberg_reads


def loose_tables(history: DataFrame) -> str | None:
    """What may be wrong with a history that changes while it is read, in words; None: nothing."""
    found = list(_loose(history))
    if not found:
        return None
    return (
        f"it reads {' and '.join(found)} without a version, so what is committed while the job reads it may be taken in"
        " part, or twice after a restart; fix it with option('versionAsOf', …), or use mixedmode.delta.read or"
        " mixedmode.iceberg.read"
    )


def _loose(history: DataFrame) -> Iterator[str]:
    yield from (f"the Delta table {one.path}" for one in delta_reads(history) if not one.is_fixed)
    yield from (f"the Iceberg table {one.name}" for one in iceberg_reads(history) if one.snapshot_id is None)
