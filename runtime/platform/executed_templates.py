"""A physical plan over rows that come anew each time, planned once.

As :mod:`.plan_templates`, one step further: what Spark's optimizer and planner make of the operations is kept, too, and
put onto the RDD of each epoch's rows.  Of an epoch with few rows both take longer than its tasks.

Invariant: what is made so runs the very plan that the operations had; only rows, functions and numbers are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StructField, StructType

from .gateway import java_class, java_session, java_type, query_execution, scala_sequence
from .plan_templates import ArrowNode, aliased, members, path
from .spark_expressions import class_name, items
from .spark_session import activate, empty_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
#: What Spark calls the node that reads an RDD, and the one that runs a function on Arrow batches.
_ROWS, _ARROW_NODE = "RDDScanExec", "MapInArrowExec"
#: What computes metrics of rows on their way.
_OBSERVING = "CollectMetricsExec"


@dataclass(frozen=True)
class ExecutedTemplate:
    """The nodes of a physical plan, to be put onto rows.

    Args:
        spark: the session that it was planned in.
        schema: what it results in.
        is_rdd: the rows are an RDD; False: Spark makes one of them.
        top: the plan.
        leaf: its node that reads the rows.
        leaf_members: the members of that.
        columns: of the rows, under the ids that the nodes know.
        parameters: by name the column of a number that is the same for all rows.
        functions: the nodes that run functions, from below.
    """

    spark: SparkSession
    schema: Any
    is_rdd: bool
    top: Any
    leaf: Any
    leaf_members: tuple[Any, ...]
    columns: Any
    parameters: Mapping[str, Any]
    functions: tuple[ArrowNode, ...]

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
    ) -> ExecutedTemplate | None:
        """The physical plan of operations that have a :class:`.plan_templates.PlanTemplate`.

        Args:
            spark: the session that it is planned in, without adaptive execution.
            schema: columns of the rows.
            make: the operations.
            returns: what the functions among them return, from below.
            parameters: columns that the rows have besides, with a number that is the same for all of them.
            holds: whether the plan is as expected.
            is_rdd: the rows will be an RDD; False: of several.

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
            bottom, nodes = path(top)
            if class_name(bottom) != _ROWS:
                return None
            attributes = list(items(bottom.output()))
            rows, others = attributes[: len(schema.fields)], attributes[len(schema.fields) :]
            if any(class_name(node) == _OBSERVING for node in nodes):  # nobody would find what it has seen
                return None
            arrows = [node for node in nodes if class_name(node) == _ARROW_NODE]
            functions = tuple(ArrowNode.of(node, kind) for node, kind in zip(arrows, returns, strict=True))
            if len(attributes) != len(whole.fields):
                return None
            result = java_session(spark).parseDataType(made.schema.json())
            numbers = {one.name(): one for one in others}
            columns = scala_sequence(spark, rows)
            template = cls(spark, result, is_rdd, top, bottom, members(bottom), columns, numbers, functions)
            # Tried once, so that an epoch does not find out that it cannot be put onto rows.
            replace(template, is_rdd=True).over(
                _no_rows(spark, schema), [_same] * len(returns), dict.fromkeys(parameters, 0)
            )
            return template
        except (Py4JError, PySparkException, TypeError, ValueError, IndexError):
            return None

    def over(
        self, rows: DataFrame, functions: Sequence[Callable[..., Any]], parameters: Mapping[str, int]
    ) -> DataFrame:
        """The operations' result.

        Args:
            rows: of RDDs, as those of a micro-batch are (``PlanShape.is_rdd``), with the columns that it was made for.
            functions: what takes the place of the functions among the operations, from below.
            parameters: the numbers.
        """
        given, spark = query_execution(rows), self.spark
        rdd = given.analyzed().rdd() if self.is_rdd else given.toRdd()
        activate(spark)  # Spark's nodes ask the thread's session for its settings
        try:
            leaf = self.leaf.copy(self.columns, rdd, *self.leaf_members[2:])
            if self.parameters:
                columns = self.columns
                for name, attribute in self.parameters.items():
                    columns = columns.appended(aliased(spark, attribute, self._number(parameters[name])))
                leaf = java_class(spark, "org.apache.spark.sql.execution.ProjectExec")(columns, leaf)
            # From above: what takes the place of a node has its child, which is looked at then.
            others = java_class(spark, "java.util.HashMap")()
            others.put(self.leaf, leaf)
            for node, function in zip(self.functions, functions, strict=True):
                others.put(node.node, node.over(spark, node.members[2], function))
            # To Scala a map is a function that is there for its keys.
            rule = java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(others)
            plan = self.top.transformDown(rule)
            found = java_session(spark).internalCreateDataFrame(plan.execute(), self.schema, False)
        finally:
            activate(rows.sparkSession)  # in a micro-batch it is the query's, as it was
        return DataFrame(found, self.spark)

    def _number(self, number: int) -> Any:
        """As an expression whose value is not part of the code that Spark compiles for it."""
        spark = self.spark
        gateway: Any = spark.sparkContext._gateway
        array = gateway.new_array(gateway.jvm.long, 1)
        array[0] = number
        values = java_class(spark, f"{_EXPRESSIONS}.UnsafeArrayData").fromPrimitiveArray(array)
        literal = java_class(spark, f"{_EXPRESSIONS}.Literal")
        numbers = literal(values, java_type(spark, ArrayType(LongType(), containsNull=False)))
        first = literal(0, java_type(spark, IntegerType()))
        return java_class(spark, f"{_EXPRESSIONS}.GetArrayItem")(numbers, first, False)


def _no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of an RDD without rows."""
    session, rdd = java_session(spark), query_execution(empty_frame(spark, schema)).toRdd()
    return DataFrame(session.internalCreateDataFrame(rdd, session.parseDataType(schema.json()), False), spark)


def _same(batches: Any) -> Any:
    return batches
