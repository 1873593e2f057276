"""Decides whether a query is row-wise: each output row depends on one input row and on tables that do not grow.

Only such a query may be put to each input of a job by itself, and to the rows of one epoch after the other.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.catalyst.spark_expressions import class_name, items, tree
from ...runtime.catalyst.spark_plans import analyzed
from .analysis import STATEFUL_NODES, reads_template

#: Nodes that hand on each row, or rows made of it, without looking at another one.
_ROW_WISE = {
    "CTERelationDef",
    "CTERelationRef",
    "Filter",
    "Generate",
    "Project",
    "ResolvedHint",
    "SubqueryAlias",
    "View",
    "WithCTE",
}
#: For each join with a static table the children on which the rows may be: every row of the other is in each answer.
_SIDES = {
    "CROSS": (0, 1),
    "INNER": (0, 1),
    "LEFT ANTI": (0,),
    "LEFT OUTER": (0,),
    "LEFT SEMI": (0,),
    "RIGHT OUTER": (1,),
}
_NAMES = {
    **STATEFUL_NODES,
    "Except": "EXCEPT",
    "Intersect": "INTERSECT",
    "LocalLimit": "limit",
    "Offset": "OFFSET",
    "Sample": "TABLESAMPLE",
    "Sort": "ORDER BY",
    "Union": "UNION",
}
_INSTEAD = (
    "it would see one input, or one epoch, by itself. Select, filter, compute, explode and join static tables by their"
    " side of the join; groupBy, dropDuplicates, union and orderBy come behind it"
)


def check_row_wise(name: str, frame: DataFrame, template: DataFrame) -> None:
    """Raise if a query over a template does not go row by row.

    Args:
        name: what the query is, for the error.
        frame: what it makes of the template.
        template: stands for the rows.

    Raises:
        PlanError: it does not read the rows, or not once, or needs several of them for an answer.
    """
    plan, columns = analyzed(frame), template.columns
    definitions = {one.id(): one for one in tree(plan) if class_name(one) == "CTERelationDef"}

    def times_read(node: Any) -> int:
        """How often the rows are read at a node or below."""
        kind = class_name(node)
        if kind == "CTERelationRef":
            return times_read(definitions[node.cteId()]) if node.cteId() in definitions else 0
        if any(times_read(inner) for inner in items(node.subqueries())):
            raise PlanError(f"{name} reads the rows in a subquery: {_INSTEAD}")
        children = [node.plan()] if kind == "WithCTE" else list(items(node.children()))
        if not children:
            return int(reads_template(columns, node))
        counts = [times_read(child) for child in children]
        total = sum(counts)
        if total > 1:
            raise PlanError(f"{name} reads the rows {total} times: {_INSTEAD}")
        if kind == "Join" and total:
            join = str(node.joinType().sql())
            if counts.index(1) not in _SIDES.get(join, ()):
                raise PlanError(f"{name} has a {join} join with the rows on the wrong side: {_INSTEAD}")
        elif total and kind not in _ROW_WISE:
            raise PlanError(f"{name} contains {_NAMES.get(kind, kind)}: {_INSTEAD}")
        return total

    if not times_read(plan):
        raise PlanError(f"{name} does not read the rows; name them in it, in braces: SELECT … FROM {{rows}}")
