"""Asks a Delta table for its versions, which are positions, through a frame that reads it.

The classes are Delta's own and no public API; the public one computes a table's size before it says anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..catalyst.spark_expressions import class_name, items
from ..catalyst.spark_plans import analyzed, leaves
from ..jvm.gateway import is_instance
from ..storage.spark_paths import HadoopPlace

_PACKAGE = "org.apache.spark.sql.delta."
_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_COMMIT = re.compile(r"^(\d{20})\.json$")
#: A table that keeps more commits in its log is not looked through.
_LOOKED_AT = 1_000_000


@dataclass(frozen=True)
class DeltaRead:
    """A batch read of a Delta table."""

    #: The table's folder, as a URI.
    path: str
    #: What tells the table from another one that is made in the same place.
    table_id: str
    #: The version that is read; of a read that is not fixed the newest when it was described.
    version: int
    #: False: each look at the frame reads the newest version then.
    is_fixed: bool
    partition_by: tuple[str, ...]

    @property
    def next_offset(self) -> str:
        """The position right behind the version, as a stream of Delta has it in Spark's log.

        Delta's own streams wait there, too, for a version that is not there yet.
        """
        return json.dumps(
            {
                "sourceVersion": 1,
                "reservoirId": self.table_id,
                "reservoirVersion": self.version + 1,
                "index": -1,
                "isStartingVersion": False,
            }
        )


def delta_reads(frame: DataFrame) -> list[DeltaRead]:
    """The batch reads of Delta tables in a frame, in the order of its plan."""
    spark = frame.sparkSession
    found = [_index(spark, leaf) for leaf in leaves(analyzed(frame)) if class_name(leaf) == "LogicalRelation"]
    return [_described(index) for index in found if index is not None]


def _index(spark: SparkSession, leaf: Any) -> Any:
    """Delta's list of files behind the leaf of a plan; None: it is of something else."""
    relation = leaf.relation()
    if not is_instance(spark, relation, _FILES):  # Delta's is a class of its own
        return None
    index = relation.location()
    return index if str(index.getClass().getName()).startswith(_PACKAGE) else None


def _described(index: Any) -> DeltaRead:
    snapshot = index.snapshotAtAnalysis()
    metadata = snapshot.metadata()
    return DeltaRead(
        path=str(index.path().toString()),
        table_id=str(metadata.id()),
        version=int(snapshot.version()),
        is_fixed=bool(index.isTimeTravelQuery()),
        partition_by=tuple(str(name) for name in items(metadata.partitionColumns())),
    )


def kept_commits(spark: SparkSession, path: str) -> Iterator[int]:
    """The versions whose commits are still in a table's log; a stream needs them, a read of a version need not."""
    for name, is_file in HadoopPlace(spark, f"{path}/_delta_log").entries(_LOOKED_AT):
        found = _COMMIT.match(name)
        if is_file and found:
            yield int(found[1])


def removing_commits(spark: SparkSession, path: str, versions: list[int]) -> list[int]:
    """Which of some versions take rows away, or change them: a stream of a table ends there (one Spark job).

    Args:
        spark: the session.
        path: the table's folder.
        versions: those to look at; their commits are in the log.
    """
    if not versions:
        return []
    logs = [f"{path}/_delta_log/{version:020d}.json" for version in versions]
    commits = spark.read.schema("remove struct<dataChange: boolean>").json(logs).where("remove.dataChange")
    name = F.regexp_extract(F.input_file_name(), r"(\d{20})\.json", 1)
    return sorted(int(row[0]) for row in commits.select(name).distinct().collect())
