"""A statement's analyzed plan as calls of a job's frames, accepted only if Spark makes the same plan of these calls."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError, not_supported
from ...runtime.catalyst.plain_plans import difference, plain_plan
from ...runtime.catalyst.spark_expressions import (
    as_column,
    attribute,
    attribute_id,
    attribute_name,
    class_name,
    constant,
    is_attribute,
    items,
    tree,
    without_alias,
)
from ...runtime.catalyst.spark_plans import frame_of
from ...runtime.catalyst.sql_statements import hint_name, leaf_called, ordering, outer_generator, text_of
from ...runtime.jvm.spark_errors import error_text
from ..inputs.schemas import quoted_columns, same_type
from .aggregation import Aggregation, written_sets
from .rows import NotTranslatable, StatementRows, unique
from .stand_in import STAND_INS
from .windows import over_window, window_of_time, written_window

#: Spark's names of joins as ``DataFrame.join`` takes them.
_JOINS = {
    "INNER": "inner",
    "CROSS": "cross",
    "LEFT OUTER": "left",
    "RIGHT OUTER": "right",
    "FULL OUTER": "full",
    "LEFT SEMI": "leftsemi",
    "LEFT ANTI": "leftanti",
}
#: By a node the method that translates it.
NODES = {
    "Aggregate": "_aggregate",
    "Expand": "_unpivot",
    "Filter": "_filter",
    "Generate": "_generate",
    "GlobalLimit": "_limit",
    "Join": "_join",
    "Project": "_project",
    "Repartition": "_repartition",
    "RepartitionByExpression": "_repartition",
    "ResolvedHint": "_hint",
    "Sort": "_sort",
    "Union": "_union",
}
#: What users call nodes that are refused.
_CALLED = {
    "EventTimeWatermark": "WATERMARK (call withWatermark on the frame before createOrReplaceTempView)",
    "Except": "EXCEPT",
    "Expand": "UNPIVOT (use frame.unpivot)",
    "Intersect": "INTERSECT",
    "LateralJoin": "LATERAL",
    "LocalLimit": "LIMIT without a whole",
    "Offset": "OFFSET",
    "Pivot": "PIVOT",
    "Repartition": "a hint of partitions",
    "RepartitionByExpression": "DISTRIBUTE BY",
    "ResolvedHint": "a hint",
    "Sample": "TABLESAMPLE",
    "Window": "a function OVER (…)",
}


def translated(statement: DataFrame) -> Any:
    """The frame of a job that a statement over stand-ins is.

    Raises:
        PlanError: there is no such call, or Spark makes another plan of the calls than of the statement.
    """
    plan = plain_plan(statement)
    rows = _Translation(statement).rows(plan, frozenset())
    node = difference(rows.stock, plan)
    if node is not None:
        raise _refusal(node, "is planned by Spark in another way than the calls of frames that it would become")
    frame = _under_names(rows.frame, [str(one.name()) for one in items(plan.output())])
    for field, said in zip(frame.schema.fields, statement.schema.fields, strict=True):
        if not same_type(field.dataType, said.dataType):
            raise not_supported(
                f"the statement is refused: its column {said.name} is of type {said.dataType.simpleString()}, that of"
                f" the calls of {field.dataType.simpleString()}"
            )
    return frame


class StatementError(PlanError):
    """A part of a statement is refused, and the message names it."""


def _refusal(node: Any, why: str) -> StatementError:
    return StatementError(
        f"the statement is refused at {_place(node)}: it {why}; write the calls of the frame instead, or do this where"
        " the output is read",
        code="MIXEDMODE_NOT_SUPPORTED",
    )


def _located(node: Any, error: PlanError) -> StatementError:
    return StatementError(f"{error} (the statement, at {_place(node)})", code=error.code)


def _place(node: Any) -> str:
    kind, text = class_name(node), text_of(node)
    return _CALLED.get(kind, kind) + (f" in {' '.join(text.split())!r}" if text else "")


def _unique_names(columns: list[Any], taken: Collection[str]) -> list[str]:
    """Names for columns, like their own, that nothing else has."""
    names: list[str] = []
    for column in columns:
        names.append(unique(str(column.name()), {*taken, *names}))
    return names


def _under_names(frame: Any, names: list[str]) -> Any:
    """The frame with its columns called as the statement calls them."""
    if frame.columns == names:
        return frame
    return frame.toDF(*names)


class _Translation:
    """The calls of one statement."""

    def __init__(self, statement: DataFrame) -> None:
        self._spark = statement.sparkSession

    def rows(self, node: Any, taken: frozenset[str]) -> StatementRows:
        """What a node gives.

        Args:
            node: reads a stand-in.
            taken: names that none of its columns may have, because others that it will be joined with have them.

        Raises:
            PlanError: there are no calls for it.
        """
        kind = class_name(node)
        try:
            frame = STAND_INS.frame_of(node)
            if frame is not None:
                return self._view(node, frame, taken)
            window = written_window(node)
            if window is not None:
                window = over_window(window)
                rows = self.rows(window.below, taken)
                call = window.expression(self._spark, rows.expression)
                return StatementRows(rows.frame, rows.stock, {**rows.known, window.id: call})
            if kind not in NODES:
                raise NotTranslatable("is not supported")
            return cast(StatementRows, getattr(self, NODES[kind])(node, taken))
        except NotTranslatable as error:
            raise _refusal(node, str(error)) from error
        except PySparkException as error:
            raise _refusal(node, f"fails: {error_text(error)}") from error
        except Py4JError as error:
            raise _refusal(node, "has no calls of frames that it stands for") from error
        except StatementError:
            raise
        except PlanError as error:
            raise _located(node, error) from error

    # -- without state -------------------------------------------------------------------------------------------------

    def _view(self, leaf: Any, frame: Any, taken: frozenset[str]) -> StatementRows:
        columns = list(items(leaf.output()))
        names = _unique_names(columns, taken)
        rows = StatementRows(_under_names(frame, names), leaf_called(self._spark, leaf, names), {})
        return replace(rows, known=rows.named(map(attribute_id, columns), names))

    def _filter(self, node: Any, taken: frozenset[str]) -> StatementRows:
        rows = self.rows(node.child(), taken).for_subqueries([node.condition()])
        return rows.call("filter", rows.column(node.condition()))

    def _project(self, node: Any, taken: frozenset[str]) -> StatementRows:
        given = list(items(node.projectList()))
        rows = self.rows(node.child(), taken).for_subqueries(given)
        spoken = [self._name_of(rows, one) for one in given]
        names: list[str] = []
        columns = []
        for one, name in zip(given, spoken, strict=True):
            if name is not None and name not in names:
                names.append(name)
                columns.append(rows.column(one))
                continue
            own = unique(str(one.name()), {*taken, *names, *(other for other in spoken if other is not None)})
            names.append(own)
            columns.append(self._computed(rows, one).alias(own))
        return rows.call("select", *columns, known=rows.named(map(attribute_id, given), names))

    def _name_of(self, rows: StatementRows, named: Any) -> str | None:
        """The name of a column that is handed on; None: it is computed, or gets another name."""
        if not is_attribute(named):
            return None
        found = rows.expression(named)
        return attribute_name(found) if class_name(found) == "UnresolvedAttribute" else None

    def _computed(self, rows: StatementRows, named: Any) -> Any:
        expression = without_alias(named)
        window = window_of_time(expression)
        if window is None:
            return rows.column(expression)
        return F.window_time(rows.column(window))

    def _generate(self, node: Any, taken: frozenset[str]) -> StatementRows:
        rows = self.rows(node.child(), taken)
        names, given = rows.names, list(items(node.generatorOutput()))
        own = _unique_names(given, {*taken, *names})
        generator = rows.expression(node.generator())
        if node.outer():
            generator = outer_generator(self._spark, generator)
        columns = [as_column(self._spark, attribute(self._spark, name)) for name in names]
        known = {**rows.known, **rows.named(map(attribute_id, given), own)}
        return rows.call("select", *columns, as_column(self._spark, generator).alias(*own), known=known)

    def _unpivot(self, node: Any, taken: frozenset[str]) -> StatementRows:
        """A row for each of some columns: those that are kept, the column's name, and its value."""
        projections = [list(items(one)) for one in items(node.projections())]
        output = list(items(node.output()))
        kept, rows = len(output) - 2, self.rows(node.child(), taken)
        values = [one[-1].child() if class_name(one[-1]) == "Cast" else one[-1] for one in projections]
        given = [*projections[0][:kept], *values] if kept >= 0 else []
        spoken = [self._name_of(rows, one) for one in given]
        if not spoken or None in spoken:
            raise NotTranslatable("is not supported for several values, or for computed ones")
        names: list[str] = [str(name) for name in spoken[:kept]]
        names += _unique_names(output[kept:], {*taken, *names})
        known = rows.named(map(attribute_id, output), names)
        ids, values = quoted_columns(names[:kept]), quoted_columns(map(str, spoken[kept:]))
        return rows.call("unpivot", ids, values, *names[kept:], known=known)

    def _hint(self, node: Any, taken: frozenset[str]) -> StatementRows:
        name = hint_name(node)
        if name is None:
            raise NotTranslatable("is of a kind that is not supported")
        return self.rows(node.child(), taken).call("hint", name)

    def _repartition(self, node: Any, taken: frozenset[str]) -> StatementRows:
        rows = self.rows(node.child(), taken)
        if class_name(node) == "Repartition":
            return rows.call("repartition" if node.shuffle() else "coalesce", int(node.numPartitions()))
        number, columns = node.optNumPartitions(), list(items(node.partitionExpressions()))
        orders = [one for one in columns if class_name(one) == "SortOrder"]
        if orders:
            given = [ordering(self._spark, one, rows.expression(one.child())) for one in orders]
        else:
            given = [rows.column(one) for one in columns]
        numbers = [int(number.get())] if number.isDefined() else []
        return rows.call("repartitionByRange" if orders else "repartition", *numbers, *given)

    def _union(self, node: Any, taken: frozenset[str]) -> StatementRows:
        if node.byName() or node.allowMissingCol():
            raise NotTranslatable("is by name, which is not supported")
        first, *others = list(items(node.children()))
        for child in (first, *others):
            self._check_is_of_job(child)
        rows = self.rows(first, taken)
        ids = [attribute_id(one) for one in items(first.output())]
        if [attribute_name(rows.known[id]) for id in ids] != rows.names:
            raise NotTranslatable("has columns in another order than its first part")
        for other in others:
            rows = rows.with_other("union", self.rows(other, taken), known=rows.known)
        return StatementRows(rows.frame, rows.stock, rows.named(map(attribute_id, items(node.output())), rows.names))

    def _check_is_of_job(self, plan: Any) -> None:
        if not STAND_INS.are_below(plan):
            raise NotTranslatable("has a part that is not a view of a job; give it to mixedmode.read(history=…) first")

    # -- with state ----------------------------------------------------------------------------------------------------

    def _aggregate(self, node: Any, taken: frozenset[str]) -> StatementRows:
        written = written_sets(node)
        below = node.child() if written is None else written.below
        return Aggregation(node, self.rows(below, taken), taken, written).result()

    def _join(self, node: Any, taken: frozenset[str]) -> StatementRows:
        how = _JOINS.get(str(node.joinType().sql()))
        if how is None:
            raise NotTranslatable("is of a kind that is not supported")
        if not STAND_INS.are_below(node.left()):
            raise NotTranslatable(f"has the table on the left of {node.joinType().sql()}, of which a stream has no end")
        ours = STAND_INS.are_below(node.right())
        outputs = list(items(node.right().output()))
        if not ours:
            names = [str(one.name()) for one in outputs]
            left = self.rows(node.left(), taken | set(names))
            return self._joined(node, left, self._table(node.right(), names, taken), outputs, names, how)
        left = self.rows(node.left(), taken)
        right = self.rows(node.right(), taken | set(left.names))
        return self._joined(node, left, right, outputs, right.names, how)

    def _joined(
        self, node: Any, left: StatementRows, right: Any, outputs: list[Any], names: list[str], how: str
    ) -> StatementRows:
        other = right.known if isinstance(right, StatementRows) else left.named(map(attribute_id, outputs), names)
        both = StatementRows(left.frame, left.stock, {**left.known, **other})
        condition = node.condition()
        on = both.column(condition.get()) if condition.isDefined() else None
        known = left.known if how in ("leftsemi", "leftanti") else both.known
        if isinstance(right, StatementRows):
            return left.with_other("join", right, on, how, known=known)
        return left.call("join", right, on, how, known=known)

    def _table(self, plan: Any, names: Collection[str], taken: frozenset[str]) -> DataFrame:
        """A part of a statement that reads no view of a job."""
        folded = [name.lower() for name in names]
        if len(set(folded)) < len(folded) or {one.lower() for one in taken} & set(folded):
            raise NotTranslatable("has tables with columns of the same name; give each column a name of its own before")
        return frame_of(self._spark, plan)

    def _sort(self, node: Any, taken: frozenset[str]) -> StatementRows:
        if not getattr(node, "global")():
            raise NotTranslatable("is a SORT BY, which is not supported")
        rows = self.rows(node.child(), taken)
        orders = [ordering(self._spark, one, rows.expression(one.child())) for one in items(node.order())]
        return rows.call("orderBy", *orders)

    def _limit(self, node: Any, taken: frozenset[str]) -> StatementRows:
        below = node.child()
        if class_name(below) != "LocalLimit":
            raise NotTranslatable("has no number")
        number = constant(node.limitExpr())
        if number is None or any(is_attribute(one) for one in tree(node.limitExpr())):
            raise NotTranslatable("needs a constant")
        return self.rows(below.child(), taken).call("limit", int(number))
