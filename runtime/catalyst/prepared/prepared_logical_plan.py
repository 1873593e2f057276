"""A plan over rows that come anew each time, analyzed once.

Every operation on a frame has Spark analyze its plan, and each of its columns is a handful of calls to the JVM: of
an epoch with few rows that is a good part of the time.  But the epochs of a stage differ in where their rows come from
and in the functions that work on them, and in nothing else.  So the plan is made over no rows, and in each epoch its
nodes are put onto the epoch's rows, one by one from below, with the epoch's functions.

Invariant: what is made so is the plan that the operations themselves would have made, but for ids of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StructField, StructType

from ...jvm.gateway import java_class, scala_option, scala_sequence
from ...jvm.python_functions import java_function
from ..spark_expressions import class_name, items, parsed, tree, with_children
from ..spark_plans import analyzed, contains, frame_of, straight_below
from ..spark_session import empty_frame
from .micro_batch import AlikeFrames

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
#: What a node of Spark's that runs a function on Arrow batches is called.
_ARROW_NODE = "MapInArrow"
#: The expression that numbers the rows of a task.
_ROW_NUMBER = "MonotonicallyIncreasingID"
#: What is planned alike for whatever RDDs.
_OF_RDDS = frozenset({"Filter", "LogicalRDD", "Project", "Union"})


@dataclass(frozen=True)
class PlanShape:
    """All that a plan over some rows depends on, but for what is read."""

    #: The kinds of the nodes of their own plan, from above.
    kinds: tuple[str, ...]
    #: Their columns, as JSON.
    schema: str

    @property
    def is_rdd(self) -> bool:
        """Whether the rows are an RDD's, as those of a micro-batch are."""
        return self.kinds == ("LogicalRDD",)

    @property
    def is_of_rdds(self) -> bool:
        """Whether all rows are of RDDs, so that all of their columns have been read already."""
        return "LogicalRDD" in self.kinds and _OF_RDDS.issuperset(self.kinds)

    @classmethod
    def of(cls, frame: DataFrame) -> PlanShape:
        """That of a frame's rows."""
        alike = AlikeFrames.of(frame)
        if alike is None:
            return cls._looked_up(frame)
        if alike.shape is None:
            alike.shape = cls._looked_up(frame)
        found: PlanShape = alike.shape
        return found

    @classmethod
    def _looked_up(cls, frame: DataFrame) -> PlanShape:
        plan = analyzed(frame)
        lines = str(plan.toString()).splitlines()
        return cls(tuple(line.lstrip(" :+-").partition(" ")[0] for line in lines), str(plan.schema().json()))


@dataclass(frozen=True)
class ArrowNode:
    """A node that runs a function, taken apart."""

    node: Any
    #: Its members, and those of the expression that has the function.
    members: tuple[Any, ...]
    function: tuple[Any, ...]
    returns: DataType

    @classmethod
    def of(cls, node: Any, returns: DataType) -> ArrowNode:
        return cls(node, members(node), members(node.productElement(0)), returns)

    def over(self, spark: SparkSession, child: Any, function: Callable[..., Any]) -> Any:
        """The node over other rows.

        Args:
            spark: the session.
            child: the rows' plan.
            function: what runs in place of the function.
        """
        name, _, *others = self.function
        wrapped = java_function(spark, function, self.returns)
        expression = self.members[0].copy(name, wrapped, *others)
        return self.node.copy(expression, self.members[1], child, *self.members[3:])


@dataclass(frozen=True)
class _JoiningNode:
    """A node that joins rows that are the same each time to those that are not."""

    node: Any
    children: tuple[Any, ...]
    #: Which of the children has the rows that are not.
    place: int

    @classmethod
    def of(cls, node: Any, child: Any) -> _JoiningNode:
        children = tuple(items(node.children()))
        return cls(node, children, next(at for at, one in enumerate(children) if one.fastEquals(child)))

    def over(self, spark: SparkSession, child: Any) -> Any:
        """The node over other rows."""
        return with_children(spark, self.node, [*self.children[: self.place], child, *self.children[self.place + 1 :]])


@dataclass(frozen=True)
class PreparedLogicalPlan:
    """The nodes of a plan, to be put onto rows.

    Args:
        spark: the session that it is planned in.
        columns: the rows' columns under the names and ids that the nodes know, as a Scala sequence.
        parameters: by name what makes a column of a number that is the same for all rows.
        nodes: from below.
    """

    spark: SparkSession
    columns: Any
    parameters: Mapping[str, Callable[[Any], Any]]
    nodes: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        schema: StructType,
        make: Callable[[DataFrame], DataFrame],
        returns: Sequence[DataType],
        parameters: Sequence[str] = (),
        beside: str | None = None,
    ) -> PreparedLogicalPlan | None:
        """The plan of some operations.

        Args:
            spark: the session that it is planned in.
            schema: columns of the rows.
            make: the operations.
            returns: what the functions among them return, from below.
            parameters: columns that the rows have besides, with a number that is the same for all of them.
            beside: the column of rows that are joined to them, and are the same each time; None: there are none.

        Returns:
            The template; None: the operations take more than these rows, or do not do the same each time, or this
            version of Spark has other plans.
        """
        further = [StructField(name, LongType(), False) for name in parameters]
        leaf = empty_frame(spark, StructType([*schema.fields, *further]))
        top = analyzed(make(leaf))
        try:
            # What is random is so anew each time, and what subqueries read is read anew.
            if not is_repeated(top) or contains(spark, top, "PLAN_EXPRESSION"):
                return None
            bottom, nodes = path(top, beside)
            # The same rows: no operation has put others in their place.
            if not bottom.fastEquals(analyzed(leaf)):
                return None
            attributes = list(items(bottom.output()))
            rows, others = attributes[: len(schema.fields)], attributes[len(schema.fields) :]
            place = java_class(spark, "org.apache.spark.sql.catalyst.analysis.GetColumnByOrdinal")
            found = [aliased(spark, one, place(at, one.dataType())) for at, one in enumerate(rows)]
            made = {one.name(): _parameter(spark, one) for one in others}
            marked, types = list[Any](), list(returns)
            for node, child in zip(nodes, [bottom, *nodes], strict=False):
                if class_name(node) == _ARROW_NODE:  # with more than those that are told, types end before the nodes
                    marked.append(ArrowNode.of(node, types.pop(0)))
                else:
                    marked.append(node if int(node.children().size()) == 1 else _JoiningNode.of(node, child))
            if types:
                return None
            template = cls(spark, scala_sequence(spark, found), made, tuple(marked))
            # Tried once, so that an epoch does not find out that it cannot be put onto rows.
            template.over(empty_frame(spark, schema), [same_batches] * len(returns), dict.fromkeys(parameters, 0))
            return template
        except (Py4JError, PySparkException, TypeError, ValueError, IndexError):
            return None

    def over(
        self, rows: DataFrame, functions: Sequence[Callable[..., Any]], parameters: Mapping[str, int]
    ) -> DataFrame:
        """The operations' result.

        Args:
            rows: rows with the columns that it was made for.
            functions: what takes the place of the functions among the operations, from below.
            parameters: the numbers.
        """
        columns, remaining = self.columns, iter(functions)
        for name, make in self.parameters.items():
            columns = columns.appended(make(parsed(self.spark, f"{parameters[name]}L")))
        project = java_class(self.spark, "org.apache.spark.sql.catalyst.plans.logical.Project")
        plan = project(columns, analyzed(rows))
        for node in self.nodes:
            if isinstance(node, ArrowNode):
                plan = node.over(self.spark, plan, next(remaining))
            elif isinstance(node, _JoiningNode):
                plan = node.over(self.spark, plan)
            else:
                plan = node.withNewChildInternal(plan)
        return frame_of(self.spark, plan)


def is_repeated(plan: Any) -> bool:
    """Whether a plan makes the same of the same rows each time; a row's number in its task is what it was."""
    if plan.deterministic():
        return True
    expressions = [one for node in tree(plan) for top in items(node.expressions()) for one in tree(top)]
    return all(_is_deterministic(one) for one in expressions)


def _is_deterministic(expression: Any) -> bool:
    if class_name(expression) == _ROW_NUMBER or expression.deterministic():
        return True
    # Of an expression that has others below it they may be why.
    children = list(items(expression.children()))
    return bool(children) and not all(child.deterministic() for child in children)


def path(top: Any, beside: str | None = None) -> tuple[Any, list[Any]]:
    """The leaf of a plan and the nodes above it, from below.

    Args:
        top: the plan.
        beside: the column of rows that may be joined on the way; None: none may.

    Raises:
        ValueError: there are several leaves.
    """
    nodes, node = [], top
    while (child := straight_below(node, beside)) is not None:
        nodes.append(node)
        node = child
    if node.children().size():
        raise ValueError
    return node, nodes[::-1]


def same_batches(batches: Any) -> Any:
    """A function of Arrow's batches that changes nothing."""
    return batches


def members(product: Any) -> tuple[Any, ...]:
    """The members of a node or an expression, in order."""
    return tuple(product.productElement(place) for place in range(int(product.productArity())))


def aliased(spark: SparkSession, attribute: Any, value: Any) -> Any:
    """A value under the name and id of a column.

    Args:
        spark: the session.
        attribute: the column.
        value: an expression.
    """
    nothing = scala_sequence(spark, [])
    return java_class(spark, f"{_EXPRESSIONS}.Alias")(
        value, attribute.name(), attribute.exprId(), nothing, scala_option(spark), nothing
    )


def _parameter(spark: SparkSession, attribute: Any) -> Callable[[Any], Any]:
    return lambda value: aliased(spark, attribute, value)
