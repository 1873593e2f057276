"""Asks an Iceberg table for its snapshots, which are positions and remember who made them.

They are asked for by the tables of metadata that Iceberg has for every table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ..catalyst.spark_expressions import class_name
from ..catalyst.spark_plans import analyzed, leaves
from ..jvm.spark_errors import NOT_THERE
from .spark_tables import name_parts

_PACKAGE = "org.apache.iceberg.spark."
#: How a column by itself is described that a table is laid out by.
_PLAIN = "identity("


@dataclass(frozen=True)
class IcebergSnapshot:
    """One snapshot of a table."""

    snapshot_id: int
    parent_id: int | None
    #: ``append``, ``replace`` (the same rows in other files), ``overwrite`` or ``delete``.
    operation: str
    summary: Mapping[str, str]

    @property
    def next_offset(self) -> str:
        """The position right behind it, behind the files that it added, as a stream has it in Spark's log."""
        added = int(self.summary.get("added-data-files", 0))
        return json.dumps({"version": 1, "snapshot_id": self.snapshot_id, "position": added, "scan_all_files": False})


@dataclass(frozen=True)
class IcebergRead:
    """A batch read of an Iceberg table."""

    #: Its whole name, or its place.
    name: str
    #: The snapshot that is read; None: the newest of each time.
    snapshot_id: int | None


def metadata_table(spark: SparkSession, table: str | None, path: str | None, which: str) -> DataFrame:
    """One of Iceberg's tables about a table.

    Args:
        spark: the session.
        table: the table's name; None: ``path`` says where it is.
        path: its place, or a name that Iceberg knows it by.
        which: ``snapshots``, ``history``, …
    """
    if table is not None:
        return spark.table(f"{_whole_name(spark, table)}.{which}")
    assert path is not None
    place = f"{path}#{which}" if "/" in path else f"{_whole_name(spark, path)}.{which}"
    return spark.read.format("iceberg").load(place)


def _whole_name(spark: SparkSession, name: str) -> str:
    """A table's name with the schema that it is in: of ``t.snapshots`` Spark would take ``t`` for the schema."""
    if len(name_parts(spark, name)) > 1:
        return name
    above = [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()]
    return ".".join([*filter(None, above), name])


def snapshots(spark: SparkSession, table: str | None, path: str | None) -> dict[int, IcebergSnapshot]:
    """A table's snapshots by their ids.

    Args:
        spark: the session.
        table: its name; None: ``path`` says where it is.
        path: its place, or a name that Iceberg knows it by.
    """
    columns = ["snapshot_id", "parent_id", "operation", "summary"]
    rows = metadata_table(spark, table, path, "snapshots").select(*columns).collect()
    return {row[0]: IcebergSnapshot(row[0], row[1], row[2], dict(row[3] or {})) for row in rows}


def current_snapshot_id(spark: SparkSession, table: str | None, path: str | None) -> int | None:
    """The newest snapshot of a table; None: it has none.

    Args:
        spark: the session.
        table: its name; None: ``path`` says where it is.
        path: its place, or a name that Iceberg knows it by.
    """
    found = metadata_table(spark, table, path, "refs").where("name = 'main'").select("snapshot_id").first()
    return None if found is None else int(found[0])


def snapshot_summaries(spark: SparkSession, table: str | None, path: str | None) -> list[Mapping[str, str]]:
    """What a table's snapshots say of themselves; none if there is no such table (yet).

    If there is one, its snapshots must be readable: whoever finds none in them commits (again).

    Args:
        spark: the session.
        table: its name; None: ``path`` says where it is.
        path: its place, or a name that Iceberg knows it by.
    """
    try:
        return [one.summary for one in snapshots(spark, table, path).values()]
    except AnalysisException:
        if _is_there(spark, table, path):
            raise
        return []


def _is_there(spark: SparkSession, table: str | None, path: str | None) -> bool:
    try:
        _ = spark.table(table) if table is not None else spark.read.format("iceberg").load(path)
        return True
    except AnalysisException:
        return False


def iceberg_reads(frame: DataFrame) -> list[IcebergRead]:
    """The batch reads of Iceberg tables in a frame, in the order of its plan."""
    found = [leaf for leaf in leaves(analyzed(frame)) if class_name(leaf) == "DataSourceV2Relation"]
    return [_described(leaf) for leaf in found if str(leaf.table().getClass().getName()).startswith(_PACKAGE)]


def _described(leaf: Any) -> IcebergRead:
    table = leaf.table()
    snapshot_id = table.snapshotId() if _is_fixed(leaf) else None
    return IcebergRead(str(table.name()), None if snapshot_id is None else int(snapshot_id))


def _is_fixed(leaf: Any) -> bool:
    """Whether a read was told what to read; Spark asks for the newest again each time that it runs any other."""
    try:
        return bool(leaf.timeTravelSpec().isDefined())
    except NOT_THERE:
        return "versionasof" in {str(name).lower() for name in leaf.options().asCaseSensitiveMap()}


def iceberg_partitions(frame: DataFrame) -> tuple[str, ...] | None:
    """By what a table is laid out that a frame reads, such as ``key`` or ``days(ts)``; None: it reads no single one."""
    found = [leaf.table() for leaf in leaves(analyzed(frame)) if class_name(leaf) == "DataSourceV2Relation"]
    if len(found) != 1 or not str(found[0].getClass().getName()).startswith(_PACKAGE):
        return None
    texts = [str(transform.describe()) for transform in found[0].partitioning()]
    return tuple(text[len(_PLAIN) : -1] if text.startswith(_PLAIN) else text for text in texts)
