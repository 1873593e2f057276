"""Spark's plans of a frame: what they read, how they run, how large they are, and their text.

A plan is a handle for the functions here and in :mod:`.spark_expressions`.  Spark shows its plans in no public way but
as text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import is_
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from ..jvm.gateway import java_class, java_session, query_execution, session_state
from .spark_expressions import class_name, is_attribute, items, over_changed, tree

#: What Spark's own Python code asks a frame for; nothing but a ``DataFrame`` has it.
HANDLE = "_jdf"
#: Parts of the names of Spark's plan nodes that run Python.
PYTHON_NODES = ("Python", "Pandas", "InArrow")
#: What stands for the code that Spark makes of nodes.
_CODE_NODES = ("WholeStageCodegenExec", "InputAdapter")
#: What a plan's text draws its tree with.
_BRANCHES = " :+-"


def analyzed(frame: DataFrame) -> Any:
    """The logical plan as Spark's analyzer has resolved it."""
    return query_execution(frame).analyzed()


def output_of(frame: DataFrame) -> Iterator[Any]:
    """The columns of a frame, as attributes."""
    return items(analyzed(frame).output())


def as_written(frame: DataFrame) -> Any:
    """The logical plan as it was asked for, not resolved."""
    return query_execution(frame).logical()


def leaves(plan: Any) -> Iterator[Any]:
    """What is read at the bottom of a plan."""
    return items(plan.collectLeaves())


def check_streaming(spark: SparkSession, plan: Any, output_mode: str) -> None:
    """Have Spark check a plan as it does when a stream starts.

    Args:
        spark: the session.
        plan: the analyzed plan of a streaming frame.
        output_mode: ``append``, ``update`` or ``complete``.

    Raises:
        AnalysisException: Spark does not support it on streams.
    """
    modes = java_class(spark, "org.apache.spark.sql.streaming.OutputMode")
    checker = java_class(spark, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    checker.checkForStreaming(plan, getattr(modes, output_mode.capitalize())())


def input_files(spark: SparkSession, relation: Any) -> tuple[str, ...]:
    """The URIs of a relation's files, in three round trips however many there are: a URI has no line break."""
    found = str(java_class(spark, "scala.Predef").genericWrapArray(relation.inputFiles()).mkString("\n"))
    return tuple(found.split("\n")) if found else ()


def kinds_in_sql(spark: SparkSession, text: str) -> set[str]:
    """The classes of nodes that Spark's parser finds in a text of SQL, without running anything of it.

    Raises:
        ParseException: it is not SQL.
    """
    return {class_name(node) for node in tree(session_state(spark).sqlParser().parsePlan(text))}


def parts_without(plan: Any, leaf: Callable[[Any], bool]) -> list[Any]:
    """The largest parts of a resolved plan that have no such leaf; of subqueries in expressions their other leaves."""
    queried = [one for query in items(plan.subqueriesAll()) for one in leaves(query) if not leaf(one)]
    return [*_parts_below(plan, leaf), *queried]


def _parts_below(plan: Any, leaf: Callable[[Any], bool]) -> list[Any]:
    children = list(items(plan.children()))
    if not children:
        return [] if leaf(plan) else [plan]
    parts = [part for child in children for part in _parts_below(child, leaf)]
    return [plan] if len(parts) == len(children) and all(map(is_, parts, children)) else parts


def has_node(frame: DataFrame, kind: str) -> bool:
    """True if a node of this class is in the analyzed plan."""
    return any(class_name(node) == kind for node in tree(analyzed(frame)))


def without_nodes(frame: DataFrame, kind: str) -> DataFrame:
    """The frame without the nodes of this class, which hand on their child's rows as they are."""
    spark = frame.sparkSession

    def bare(node: Any) -> Any:
        while class_name(node) == kind:
            node = node.child()
        return over_changed(spark, node, bare)

    return frame_of(spark, bare(analyzed(frame)))


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The rows of a logical plan."""
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(java_session(spark), plan), spark)


def united(frame: DataFrame) -> list[DataFrame]:
    """The frames that a frame is the union of, with its columns; itself, if it is none."""
    plan, spark = analyzed(frame), frame.sparkSession
    if class_name(plan) != "Union":
        return [frame]
    return [part for child in items(plan.children()) for part in united(frame_of(spark, child).toDF(*frame.columns))]


def contains(spark: SparkSession, plan: Any, *patterns: str) -> bool:
    """True if a logical plan has one of the patterns of Spark's ``TreePattern`` in it."""
    known = java_class(spark, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return any(plan.containsPattern(getattr(known, pattern)()) for pattern in patterns)


def size_bytes(frame: DataFrame) -> int | None:
    """Spark's estimate of the size of a frame's rows; None: it has none.

    A join without column statistics is estimated as the product of its inputs; so what the inputs have is the limit.
    """
    plan = query_execution(frame).optimizedPlan()
    unknown = int(frame.sparkSession.conf.get("spark.sql.defaultSizeInBytes", str(2**63 - 1)) or 0)
    sizes = [int(str(leaf.stats().sizeInBytes())) for leaf in leaves(plan)]
    if any(size >= unknown for size in sizes):
        return None
    return min(int(str(plan.stats().sizeInBytes())), sum(sizes))


def broadcast_limit_bytes(spark: SparkSession) -> int:
    """The greatest table that Spark broadcasts without being asked to; negative: none."""
    return int(session_state(spark).conf().autoBroadcastJoinThreshold())


def executed_text(frame: DataFrame) -> str:
    """The physical plan as text."""
    return str(query_execution(frame).executedPlan().toString())


def explained(frame: DataFrame) -> str:
    """What ``frame.explain()`` prints."""
    python = java_class(frame.sparkSession, "org.apache.spark.sql.api.python.PythonSQLUtils")
    plan = analyzed(frame)
    if plan.isStreaming():  # of what reads a view by its name Spark looks at the plan as written, which is no stream
        frame = frame_of(frame.sparkSession, plan)
    return str(python.explainString(query_execution(frame), "simple"))


@dataclass(frozen=True)
class ShuffleExchange:
    """The uppermost exchange of a physical plan."""

    #: How it spreads the rows, such as ``HashPartitioning``.
    partitioning: str
    #: How many partitions and expressions; 0 for a partitioning that is not by hash.
    partitions: int
    expressions: int
    #: The plan from it downwards.
    text: str


def uppermost_exchange(frame: DataFrame) -> ShuffleExchange | None:
    """The exchange that a frame's topmost operation takes its rows from; None: there is none on the straight way."""
    node = query_execution(frame).executedPlan().children().apply(0)
    while class_name(node) != "ShuffleExchangeExec" and node.children().size() == 1:
        node = node.children().apply(0)
    if class_name(node) != "ShuffleExchangeExec":
        return None
    partitioning, text = node.outputPartitioning(), str(node.toString())
    kind = class_name(partitioning)
    if kind != "HashPartitioning":
        return ShuffleExchange(kind, 0, 0, text)
    return ShuffleExchange(kind, int(partitioning.numPartitions()), int(partitioning.expressions().size()), text)


def straight_below(node: Any, beside: str | None = None) -> Any:
    """The child of a node; None: it has none, or it branches.

    Args:
        node: of any plan.
        beside: children whose only column has this name do not count; None: all do.
    """
    children = node.children()
    if children.size() == 1:
        return children.apply(0)
    if beside is None:
        return None
    found = [child for child in items(children) if not _is_of(child, beside)]
    return found[0] if len(found) == 1 else None


def _is_of(plan: Any, column: str) -> bool:
    columns = plan.output()
    return bool(columns.size() == 1 and columns.apply(0).name() == column)


@dataclass(frozen=True)
class Spread:
    """How an exchange spreads rows."""

    partitions: int
    #: By the hash of so many expressions; None: in another way.
    expressions: int | None
    #: Whether the rows are joined at once to those beside, with no exchange of these.
    meets_beside: bool = False


def straight_spreads(frame: DataFrame, beside: str | None = None) -> list[list[Spread]]:
    """The exchanges of a physical plan, from above: those above all nodes that run Python, then those below each.

    Of a plan that branches it is the part above the first branch.

    Args:
        frame: has the plan.
        beside: the column of rows that are joined on the way, which is no branch then; None: it is one.
    """
    node, found, meets = query_execution(frame).executedPlan(), [list[Spread]()], False
    while node is not None:
        kind = class_name(node)
        if any(mark in kind for mark in PYTHON_NODES):
            found.append([])
        if kind == "ShuffleExchangeExec":
            spread = node.outputPartitioning()
            is_hash = class_name(spread) == "HashPartitioning"
            expressions = int(spread.expressions().size()) if is_hash else None
            found[-1].append(Spread(int(spread.numPartitions()), expressions, meets))
        elif "Exchange" in kind:  # of another kind
            found[-1].append(Spread(0, None))
        if kind not in _CODE_NODES:
            meets = node.children().size() > 1 and "Exchange" not in _text_beside(node, beside)
        node = straight_below(node, beside)
    return found


def _text_beside(node: Any, column: str | None) -> str:
    return "".join(str(child.toString()) for child in items(node.children()) if column and _is_of(child, column))


def hash_partitions(frame: DataFrame) -> tuple[int, tuple[str, ...]] | None:
    """How the rows that a frame's topmost operation takes are spread, if Spark knows that it is by the hash of columns.

    Returns:
        The number of partitions and the columns, in order; of one partition no columns.
    """
    spread = query_execution(frame).executedPlan().children().apply(0).outputPartitioning()
    if class_name(spread).startswith("SinglePartition"):
        return 1, ()
    if class_name(spread) != "HashPartitioning":
        return None
    columns = list(items(spread.expressions()))
    if any(not is_attribute(column) for column in columns):
        return None
    return int(spread.numPartitions()), tuple(str(column.name()) for column in columns)


def is_repeatable(frame: DataFrame) -> bool:
    """Whether Spark computes the same rows each time."""
    return bool(analyzed(frame).deterministic())


@contextlib.contextmanager
def repeatable(frame: DataFrame) -> Iterator[None]:
    """While it lasts Spark reads the frame's rows from the disk, if it would compute others each time."""
    keeps = not is_repeatable(frame)
    if keeps:
        frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield
    finally:
        if keeps:
            frame.unpersist()


def nodes_above(frame: DataFrame, mark: str) -> list[str] | None:
    """The nodes of the physical plan above the lowest one whose text has the mark, from below; None: there is none."""
    lines = executed_text(frame).splitlines()
    at = next((place for place in reversed(range(len(lines))) if mark in lines[place]), None)
    if at is None:
        return None
    above, depth = [], _depth(lines[at])
    for line in reversed(lines[:at]):
        if _depth(line) < depth:
            depth = _depth(line)
            above.append(line.lstrip(_BRANCHES))
    return above


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(_BRANCHES))


@contextlib.contextmanager
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Has Spark show plans and expressions whole: it cuts long lists unless it is told not to."""
    conf, option = spark.conf, "spark.sql.debug.maxToStringFields"
    shown = conf.get(option)
    conf.set(option, str(2**31 - 1))
    try:
        yield
    finally:
        conf.set(option, str(shown))
