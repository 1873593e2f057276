"""Where a row stands in the files or partitions of Kafka that a frame reads, as columns of the frame.

Spark knows of each row of a file scan the file, its modification time and the row's place (``_metadata``), but hands
that on only if the frame asks for it where it reads.  So the columns are added to the scan of a resolved plan, and to
each projection above it.

Of Kafka the order of offsets in a partition is kept, and one partition comes behind the other.

Invariant: the frame's other columns, and its rows, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from .gateway import query_execution, scala_sequence
from .spark_expressions import class_name, items, with_children
from .spark_plans import analyzed, frame_of, leaves
from .spark_sources import PlannedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: When the row's file was modified, in microseconds; rows of live inputs have a greater number.
ARRIVAL_TIME_COLUMN = "__arrived_time"
#: The file's path, if files have the same time.
ARRIVAL_FILE_COLUMN = "__arrived_file"
#: The row's number in the file, or where the part of the file begins that one task reads.
ARRIVAL_PLACE_COLUMN = "__arrived_place"
#: Nodes that hand on rows in the order in which they come, each by itself or as several, and all columns but for those
#: that a projection leaves out.
_KEEPING_ORDER = frozenset(
    {"CollectMetrics", "Filter", "Generate", "Project", "ResolvedHint", "Sample", "SubqueryAlias", "Union", "View"}
)
#: Nodes that read.
_SCANS = ("LogicalRelation", "DataSourceV2Relation")
#: An offset has no more bits.
_OFFSET_BITS = 47
_MODIFIED = re.compile(r"modification_time=(\d+)")


def with_file_rows(frame: DataFrame) -> DataFrame | None:
    """The frame with columns that say where each row stands in its files; None: it is no plain read.

    Two columns at least: :data:`ARRIVAL_TIME_COLUMN` (0 for all messages of Kafka) and :data:`ARRIVAL_PLACE_COLUMN`.
    """
    read = _reads(analyzed(frame))
    if read is None or _is_cached(frame):
        return None
    spark = frame.sparkSession
    by_path = len(read) > 1 or _has_equal_times(read[0])
    try:
        found = frame_of(spark, _with_columns(spark, analyzed(frame), by_path=by_path))
        return found if ARRIVAL_PLACE_COLUMN in found.columns else None
    except (Py4JError, PySparkException):  # a version of Spark with other nodes
        return None


def has_file_rows(frame: DataFrame) -> bool:
    """Whether it can be told where each row of a frame stands in its files."""
    return with_file_rows(frame) is not None


def _is_cached(frame: DataFrame) -> bool:
    """Whether Spark has some of the rows elsewhere, and would have to read the files again for their places."""
    plan = query_execution(frame).withCachedData()
    return any(class_name(leaf) == "InMemoryRelation" for leaf in leaves(plan))


def _reads(plan: Any) -> list[Any] | None:
    """The scans of files that a plan's rows come from, if they come in their order; None: they do not."""
    kind = class_name(plan)
    if kind in _SCANS:
        return [plan] if _is_of_files(plan) or _is_of_kafka(plan) else None
    if kind not in _KEEPING_ORDER:
        return None
    found: list[Any] = []
    for child in items(plan.children()):
        below = _reads(child)
        if below is None:
            return None
        found += below
    return found


def _is_of_files(scan: Any) -> bool:
    return class_name(scan) == "LogicalRelation" and class_name(scan.relation()) == "HadoopFsRelation"


def _is_of_kafka(scan: Any) -> bool:
    return PlannedSource(scan).kafka_end is not None


def _has_equal_times(relation: Any) -> bool:
    """Whether two of the files that a scan has listed may have the same modification time."""
    try:
        files = relation.relation().location().allFiles()
        times = _MODIFIED.findall(str(files.mkString("\n")))
        return len(times) != int(files.size()) or len(set(times)) < len(times)
    except Py4JError:  # the files of a partitioned table are listed when it is read
        return True


def _with_columns(spark: SparkSession, node: Any, *, by_path: bool) -> Any:
    """A plan with the columns in its output, behind all others."""
    if class_name(node) in _SCANS:
        return _scan_with_columns(spark, node, by_path=by_path)
    children = [_with_columns(spark, child, by_path=by_path) for child in items(node.children())]
    node = with_children(spark, node, children)
    if class_name(node) != "Project":
        return node
    names = (ARRIVAL_TIME_COLUMN, ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN)
    added = [one for one in items(children[0].output()) if one.name() in names]
    return node.copy(scala_sequence(spark, [*items(node.projectList()), *added]), children[0])


def _scan_with_columns(spark: SparkSession, relation: Any, *, by_path: bool) -> Any:
    scan = frame_of(spark, relation)
    if _is_of_kafka(relation):
        place = f"shiftleft(CAST(partition AS BIGINT), {_OFFSET_BITS}) + offset AS {ARRIVAL_PLACE_COLUMN}"
        return analyzed(scan.selectExpr("*", f"0L AS {ARRIVAL_TIME_COLUMN}", f"topic AS {ARRIVAL_FILE_COLUMN}", place))
    place = "row_index" if "row_index" in _metadata_fields(scan) else "file_block_start"
    columns: Sequence[str] = [
        f"unix_micros(_metadata.file_modification_time) AS {ARRIVAL_TIME_COLUMN}",
        *([f"_metadata.file_path AS {ARRIVAL_FILE_COLUMN}"] if by_path else []),
        f"_metadata.{place} AS {ARRIVAL_PLACE_COLUMN}",
    ]
    return analyzed(scan.selectExpr("*", *columns))


def _metadata_fields(scan: DataFrame) -> list[str]:
    metadata = scan.select("_metadata").schema["_metadata"].dataType
    assert isinstance(metadata, StructType)
    return metadata.fieldNames()
