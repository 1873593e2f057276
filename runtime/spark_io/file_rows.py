"""Numbers rows by their place in the files or Kafka partitions that a frame reads.

Spark knows of each row of a file scan the file, its modification time and the row's place (``_metadata``), but hands
that on only if the frame asks for it where it reads.  So the columns are added to the scan of a resolved plan, and to
each projection above it.

The files of a micro-batch stand in the plan of its query (:func:`..catalyst.prepared.micro_batch.plan_behind`); its
rows are then read by that plan.

Of Kafka the order of offsets in a partition is kept; between partitions rows go by the greatest timestamp so far of
their partition.

Invariants:
- The frame's other columns, and its rows, stay as they are.
- Rows of Kafka come before those of files, these before those of files of live inputs from :data:`AFTER_FILES` on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..catalyst.prepared.micro_batch import plan_behind
from ..catalyst.spark_expressions import attribute_id, class_name, items, with_children
from ..catalyst.spark_plans import analyzed, frame_of, leaves
from ..jvm.gateway import query_execution, scala_sequence
from .file_numbers import NUMBER_BITS, ReadFile, file_number, listed_files
from .spark_sources import PlannedSource

#: Which file the row is of, and the upper bits of its place in there; of Kafka the time, and the partition.
ARRIVAL_FILE_COLUMN = "__arrived_file"
#: The lower bits of the row's number in the file (or of where the part of the file begins that one task reads), which
#: of the scans of a frame it comes from, and zeros in :data:`ROW_BITS`.
ARRIVAL_PLACE_COLUMN = "__arrived_place"
#: Greater than the number of any row of a file that is not of a live input.
AFTER_FILES = 2**62 + 2**61
#: For the number of the row within its task, as ``monotonically_increasing_id`` has it.
ROW_BITS = 33
#: Files larger than a tebibyte are read from their beginning, or are not put in order; so the place has 40 bits.
_PLACE_BITS = 40
_LOWER_BITS, _UPPER_BITS = 22, _PLACE_BITS - 22
_SCAN_BITS = 8
_IS_FILE = 2**62
#: A number for a partition of Kafka.
_PARTITION_BITS = 62 - NUMBER_BITS
#: Nodes that hand on rows in the order in which they come, each by itself or as several, and all columns but for those
#: that a projection leaves out.
_KEEPING_ORDER = frozenset(
    {"CollectMetrics", "Filter", "Generate", "Project", "ResolvedHint", "Sample", "SubqueryAlias", "Union", "View"}
)
#: By frame, and by what its files are numbered with, the frame with the columns: a job asks three times at its start.
_MADE: WeakKeyDictionary[DataFrame, dict[tuple[str, int], DataFrame]] = WeakKeyDictionary()
#: Nodes that read.
_SCANS = ("LogicalRelation", "DataSourceV2Relation")


def with_file_rows(frames: Sequence[DataFrame], *, are_live: bool = False) -> list[DataFrame] | None:
    """Frames with two columns that say where each row stands, in one order; None: one of them is no plain read.

    Args:
        frames: the frames.
        are_live: they are of micro-batches, and come after all others.
    """
    if not frames:
        return []
    spark, files = frames[0].sparkSession, []
    for frame in frames:
        scans = _reads(frame)
        if scans is None:
            return None
        for scan in filter(_is_of_files, scans):
            listed = listed_files(spark, scan.relation().location())
            if listed is None:
                return None
            files += listed
    return _with_numbers(spark, frames, files, AFTER_FILES if are_live else _IS_FILE)


def has_file_rows(frame: DataFrame) -> bool:
    """Whether it can be told where each row of a frame stands in its files; they are not listed for it."""
    if _reads(frame) is None:
        return False
    if any(ARRIVAL_PLACE_COLUMN in made.columns for made in _MADE.get(frame, {}).values()):
        return True
    return _with_numbers(frame.sparkSession, [frame], [], _IS_FILE) is not None


def _with_numbers(
    spark: SparkSession, frames: Sequence[DataFrame], files: Sequence[ReadFile], first: int
) -> list[DataFrame] | None:
    number = file_number(spark, files)
    if number is None:
        return None
    try:
        found = [_numbered(frame, number, first) for frame in frames]
    except (Py4JError, PySparkException):  # a version of Spark with other nodes
        return None
    return found if all(ARRIVAL_PLACE_COLUMN in frame.columns for frame in found) else None


def _numbered(frame: DataFrame, number: str, first: int) -> DataFrame:
    made = _MADE.setdefault(frame, {})
    if (number, first) not in made:
        plan = _Numbering(frame.sparkSession, number, first).of(analyzed(frame))
        made[number, first] = frame_of(frame.sparkSession, plan)
    return made[number, first]


def _reads(frame: DataFrame) -> list[Any] | None:
    """The scans that a frame's rows come from, if they come in their order; None: they do not."""
    scans = _scans(analyzed(frame))
    if scans is None or len(scans) > 1 << _SCAN_BITS or _is_cached(frame):
        return None
    return scans


def _is_cached(frame: DataFrame) -> bool:
    """Whether Spark has some of the rows elsewhere, and would have to read the files again for their places."""
    plan = query_execution(frame).withCachedData()
    return any(class_name(leaf) == "InMemoryRelation" for leaf in leaves(plan))


def _scans(plan: Any) -> list[Any] | None:
    kind = class_name(plan)
    if kind == "LogicalRDD":
        behind = plan_behind(plan)
        return None if behind is None or _ids(behind) != _ids(plan) else _scans(behind)
    if kind in _SCANS:
        return [plan] if _is_of_files(plan) or _is_of_kafka(plan) else None
    if kind not in _KEEPING_ORDER:
        return None
    found: list[Any] = []
    for child in items(plan.children()):
        below = _scans(child)
        if below is None:
            return None
        found += below
    return found


def _ids(plan: Any) -> list[int]:
    return [attribute_id(one) for one in items(plan.output())]


def _is_of_files(scan: Any) -> bool:
    return class_name(scan) == "LogicalRelation" and class_name(scan.relation()) == "HadoopFsRelation"


def _is_of_kafka(scan: Any) -> bool:
    return PlannedSource(scan).kafka_end is not None


@dataclass
class _Numbering:
    """Adds the columns to one plan, behind all others."""

    spark: SparkSession
    #: Of a row's file, as SQL.
    file_number: str
    #: What the numbers of files begin with.
    first: int
    #: The scans of the plan, numbered.
    scans: Iterator[int] = field(default_factory=lambda: iter(range(1 << _SCAN_BITS)))

    def of(self, node: Any) -> Any:
        """The plan with the columns in its output."""
        if class_name(node) == "LogicalRDD":
            return self.of(plan_behind(node))  # its columns have the same ids
        if class_name(node) in _SCANS:
            if node.isStreaming():  # it has the files of a micro-batch
                node = node.copy(node.relation(), node.output(), node.catalogTable(), False, node.stream())
            scan = frame_of(self.spark, node)
            file, place = of_kafka() if _is_of_kafka(node) else self._of_file(node)
            return analyzed(
                scan.selectExpr(
                    "*",
                    f"{file} AS {ARRIVAL_FILE_COLUMN}",
                    f"{place} | {next(self.scans) << ROW_BITS}L AS {ARRIVAL_PLACE_COLUMN}",
                )
            )
        children = [self.of(child) for child in items(node.children())]
        node = with_children(self.spark, node, children)
        if class_name(node) != "Project":
            return node
        return node.copy(scala_sequence(self.spark, [*items(node.projectList()), *_added(children[0])]), children[0])

    def _of_file(self, scan: Any) -> tuple[str, str]:
        place = "_metadata." + ("row_index" if "row_index" in _metadata_fields(scan) else "file_block_start")
        upper = f"shiftright({place}, {_LOWER_BITS})"
        file = f"shiftleft({self.file_number}, {_UPPER_BITS}) | {upper} | {self.first}L"
        return file, f"shiftleft({place} & {(1 << _LOWER_BITS) - 1}L, {_SCAN_BITS + ROW_BITS})"


def _added(plan: Any) -> list[Any]:
    return [one for one in items(plan.output()) if one.name() in (ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN)]


def of_kafka() -> tuple[str, str]:
    """The columns of a read of Kafka, as SQL: its rows go by the greatest timestamp so far of their partition.

    Behind the window each task has the rows of its partitions in the order of offsets, so these need no place.
    """
    partition = f"xxhash64(topic, partition) & {(1 << _PARTITION_BITS) - 1}L"
    ordered = "PARTITION BY topic, partition ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    time_ms = f"greatest(unix_millis(max(timestamp) OVER ({ordered})), 0L)"
    return f"shiftleft({time_ms}, {_PARTITION_BITS}) | ({partition})", "0L"


def _metadata_fields(scan: Any) -> set[str]:
    return {str(one.name()) for one in items(scan.relation().fileFormat().metadataSchemaFields())}
