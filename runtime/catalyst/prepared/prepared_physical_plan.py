"""A physical plan over rows that come anew each time, planned once.

As :mod:`.prepared_logical_plan`, one step further: what Spark's optimizer and planner make of the operations is kept,
too, and put onto the RDD of each epoch's rows.  Of an epoch with few rows both take longer than its tasks.

Invariant: what is made so runs the very plan that the operations had; only rows, functions and numbers are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StructField, StructType

from ...jvm.gateway import java_class, java_session, java_type, query_execution, scala_sequence
from ..spark_expressions import class_name, items
from ..spark_session import activate, empty_frame, keeping_active
from .collected_rows import RowCollector
from .micro_batch import is_handed_over, rdd_of
from .placed_rows import frame_of_rdd
from .prepared_logical_plan import ArrowNode, aliased, members, path, same_batches

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
#: What Spark calls the node that reads an RDD, and the one that runs a function on Arrow batches.
_ROWS, _ARROW_NODE = "RDDScanExec", "MapInArrowExec"
#: What computes metrics of rows on their way.
_OBSERVING = "CollectMetricsExec"
#: What takes the place of functions of a plan, from below; None: they stay.
Functions = Sequence[Callable[..., Any] | None]
_PYTHON = "org.apache.spark.api.python.Python"
#: Where a frame keeps what is below the function of a plan that was put onto it.
_BELOW = "_mixedmode_below"


@dataclass(frozen=True)
class PreparedPhysicalPlan:
    """The nodes of a physical plan, to be put onto rows.

    Args:
        spark: the session that it was planned in.
        schema: what it results in.
        is_rdd: the rows are an RDD; False: Spark makes one of them.
        top: the plan.
        leaf: its node that reads the rows.
        leaf_members: the members of that.
        parameters: by name the array whose only element is a number that is the same for all rows.
        functions: the nodes that run functions, from below.
        ends_in_function: whether the last one of them is the plan itself.
        is_one_function: whether the plan is a function of the rows as they come, and nothing else.
        others: a Scala map that is filled anew each time: what takes the place of nodes.
        collector: collects rows without a frame; None: it cannot be had.
    """

    spark: SparkSession
    schema: Any
    is_rdd: bool
    top: Any
    leaf: Any
    leaf_members: tuple[Any, ...]
    parameters: Mapping[str, Any]
    functions: tuple[ArrowNode, ...]
    ends_in_function: bool
    is_one_function: bool
    others: Any
    collector: RowCollector | None

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        schema: StructType,
        make: Callable[[DataFrame], DataFrame],
        returns: Sequence[DataType],
        parameters: Sequence[str],
        holds: Callable[[DataFrame], bool],
        *,
        is_rdd: bool = True,
        beside: str | None = None,
    ) -> PreparedPhysicalPlan | None:
        """The physical plan of operations that have a :class:`.prepared_logical_plan.PreparedLogicalPlan`.

        Args:
            spark: the session that it is planned in, without adaptive execution.
            schema: columns of the rows.
            make: the operations.
            returns: what the functions among them return, from below.
            parameters: columns that the rows have besides, with a number that is the same for all of them.
            holds: whether the plan is as expected.
            is_rdd: the rows will be an RDD; False: of several.
            beside: as of :meth:`.prepared_logical_plan.PreparedLogicalPlan.of`.

        Returns:
            The template; None: this version of Spark has other plans.
        """
        further = [StructField(name, LongType(), False) for name in parameters]
        whole = StructType([*schema.fields, *further])
        try:
            made = make(_no_rows(spark, whole))
            if not holds(made):
                return None
            top = query_execution(made).executedPlan()
            bottom, nodes = path(top, beside)
            if class_name(bottom) != _ROWS:
                return None
            attributes = list(items(bottom.output()))
            if any(class_name(node) == _OBSERVING for node in nodes):  # nobody would find what it has seen
                return None
            if len(attributes) != len(whole.fields):
                return None
            numbers: dict[str, Any] = {}
            if parameters:
                rows, others = attributes[: len(schema.fields)], attributes[len(schema.fields) :]
                numbers = {one.name(): _array_of_one(spark) for one in others}
                columns = scala_sequence(spark, rows)
                whole_columns = columns
                for one in others:
                    whole_columns = whole_columns.appended(aliased(spark, one, _first_of(spark, numbers[one.name()])))
                inner = bottom.copy(columns, *members(bottom)[1:])
                project = java_class(spark, "org.apache.spark.sql.execution.ProjectExec")(whole_columns, inner)
                top = top.transformDown(java_class(spark, f"{_PYTHON}Utils").toScalaMap({bottom: project}))
                bottom, nodes = path(top, beside)
            arrows = [node for node in nodes if class_name(node) == _ARROW_NODE]
            functions = tuple(ArrowNode.of(node, kind) for node, kind in zip(arrows, returns, strict=True))
            result = java_session(spark).parseDataType(made.schema.json())
            ends_in_function = bool(functions) and functions[-1].node.equals(top)
            template = cls(
                spark,
                result,
                is_rdd,
                top,
                bottom,
                members(bottom),
                numbers,
                functions,
                ends_in_function,
                ends_in_function and functions[-1].members[2].equals(bottom),
                java_class(spark, "scala.collection.mutable.HashMap")(),
                RowCollector.of(spark),
            )
            # Tried once, so that an epoch does not find out that it cannot be put onto rows; with a map of its own, so
            # that an epoch whose functions stay does not find those that it was tried with.
            own = java_class(spark, "scala.collection.mutable.HashMap")()
            with keeping_active(spark):
                replace(template, is_rdd=True, others=own).over(
                    _no_rows(spark, schema), [same_batches] * len(returns), dict.fromkeys(parameters, 0)
                )
            return template
        except (Py4JError, PySparkException, TypeError, ValueError, IndexError):
            return None

    def over(self, rows: DataFrame, functions: Functions, parameters: Mapping[str, int]) -> DataFrame:
        """The operations' result.

        Args:
            rows: of RDDs, as those of a micro-batch are (``PlanShape.is_rdd``), with the columns that it was made for.
            functions: what takes the place of the functions among the operations, from below; None: they stay.
            parameters: the numbers.
        """
        activate(self.spark)  # Spark's nodes ask the thread's session for its settings
        try:
            plan = self._plan(rows, functions, parameters)
            found = java_session(self.spark).internalCreateDataFrame(plan.execute(), self.schema, False)
        finally:
            activate(rows.sparkSession)  # in a micro-batch it is the query's, as it was
        return DataFrame(found, self.spark)

    def collected(self, rows: DataFrame, functions: Functions, parameters: Mapping[str, int]) -> list[Row]:
        """The rows of the operations' result; the arguments are those of :meth:`over`."""
        # Elsewhere tasks would not get the session's settings: an SQL execution hands them on.
        if self.collector is None or not is_handed_over():
            return self.over(rows, functions, parameters).collect()
        return self.collector.rows(self._plan(rows, functions, parameters))

    def _plan(self, rows: DataFrame, functions: Functions, parameters: Mapping[str, int]) -> Any:
        if len(self.functions) == 1 and self.ends_in_function and functions[0] is not None and not self.parameters:
            return self.functions[0].over(self.spark, self._below(rows), functions[0])
        for name, array in self.parameters.items():
            array.setLong(0, parameters[name])
        leaf = self._leaf(rows)
        if self.is_one_function and functions[-1] is not None:  # of rows that have parameters
            return self.functions[-1].over(self.spark, leaf, functions[-1])
        self.others.update(self.leaf, leaf)
        nodes = list(zip(self.functions, functions, strict=True))
        # The topmost node needs no map to be found.
        last = nodes.pop() if self.ends_in_function and nodes[-1][1] is not None else None
        # From above: what takes the place of a node has its child, which is looked at then.
        for node, function in nodes:
            if function is not None:
                self.others.update(node.node, node.over(self.spark, node.members[2], function))
        if last is None or last[1] is None:
            return self.top.transformDown(self.others)
        return last[0].over(self.spark, last[0].members[2].transformDown(self.others), last[1])

    def _below(self, rows: DataFrame) -> Any:
        """What is below the only function, which is above all else; a frame that is there for several epochs has it."""
        known = rows.__dict__.get(_BELOW)
        if known is not None and known[0] is self:
            return known[1]
        leaf = self._leaf(rows)
        if not self.is_one_function:
            self.others.update(self.leaf, leaf)
            leaf = self.functions[0].members[2].transformDown(self.others)
        rows.__dict__[_BELOW] = (self, leaf)
        return leaf

    def _leaf(self, rows: DataFrame) -> Any:
        return self.leaf.copy(self.leaf_members[0], self._rdd(rows), *self.leaf_members[2:])

    def _rdd(self, rows: DataFrame) -> Any:
        return rdd_of(rows) if self.is_rdd else query_execution(rows).toRdd()


def _array_of_one(spark: SparkSession) -> Any:
    """An array of Spark's with one number, which can be changed."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.long, 1)
    array[0] = 0
    return java_class(spark, f"{_EXPRESSIONS}.UnsafeArrayData").fromPrimitiveArray(array)


def _first_of(spark: SparkSession, array: Any) -> Any:
    """The number of such an array, as an expression; its value is not part of the code that Spark compiles for it."""
    literal = java_class(spark, f"{_EXPRESSIONS}.Literal")
    numbers = literal(array, java_type(spark, ArrayType(LongType(), containsNull=False)))
    first = literal(0, java_type(spark, IntegerType()))
    return java_class(spark, f"{_EXPRESSIONS}.GetArrayItem")(numbers, first, False)


def _no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of an RDD without rows."""
    return frame_of_rdd(spark, query_execution(empty_frame(spark, schema)).toRdd(), schema)
