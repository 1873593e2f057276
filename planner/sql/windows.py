"""Windows that Spark's analyzer has written out, as the calls of ``window`` and ``session_window`` that they were.

What is read here of the plan is not trusted: a wrong duration makes another plan, and the statement is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...runtime.catalyst.spark_expressions import (
    attribute_id,
    class_name,
    is_attribute,
    items,
    parsed,
    replaced,
    tree,
    without_alias,
)
from ..inputs.event_time import SESSION_MARK, WINDOW_MARK

#: Stands for a column in a text that is parsed.
_TIME, _GAP = "`__time`", "`__gap`"


@dataclass(frozen=True)
class WrittenWindow:
    """A window as the analyzer writes it: a column, and the nodes that compute it."""

    #: The id of the window's column.
    id: int
    #: Below the nodes that compute it.
    below: Any
    #: A resolved expression: the event time.
    time: Any
    #: ``window`` or ``session_window`` with two names in it.
    text: str
    #: Of a session: how long without rows; a resolved expression, None: the text says it.
    gap: Any = None

    def expression(self, spark: Any, over: Any) -> Any:
        """The call that it was; ``over`` gives an expression over the names of the rows below."""
        found = {"__time": self.time, "__gap": self.gap}

        def other(node: Any) -> Any:
            name = str(node.name()) if class_name(node) == "UnresolvedAttribute" else ""
            return over(found[name]) if name in found else None

        return replaced(spark, parsed(spark, self.text), other)


def written_window(node: Any) -> WrittenWindow | None:
    """The window that a node computes with those right below it; None: it computes none."""
    kind = class_name(node)
    if kind == "Project":
        made = _made_by(node)
        if made is not None and made.metadata().contains(WINDOW_MARK) and class_name(node.child()) == "Filter":
            return _time_window(attribute_id(made), [made.child()], node.child().child())
        return None
    if kind != "Filter":
        return None
    below = node.child()
    if class_name(below) == "Expand":
        marked = [one for one in items(below.output()) if one.metadata().contains(WINDOW_MARK)]
        structs = [row.apply(0) for row in items(below.projections())]
        if marked and all(class_name(without_alias(one)) == "CreateNamedStruct" for one in structs):
            first = attribute_id(below.output().apply(0))
            return _time_window(first, [without_alias(one) for one in structs], below.child())
    if class_name(below) == "Project":
        made = _made_by(below)
        if made is not None and made.metadata().contains(SESSION_MARK):
            return _session(made, below.child())
    return None


def over_window(window: WrittenWindow) -> WrittenWindow:
    """A window over the last instants of another one as a window of that one, as users write it; others as they are."""
    project = window.below
    if class_name(project) != "Project" or not is_attribute(window.time):
        return window
    first, *others = items(project.projectList())
    inner = window_of_time(first.child()) if class_name(first) == "Alias" else None
    if inner is None or attribute_id(first) != attribute_id(window.time):
        return window
    if any(not is_attribute(one) for one in others):
        return window
    return replace(window, below=project.child(), time=inner)


def window_of_time(expression: Any) -> Any:
    """The window whose ``window_time`` an expression is; None: it is none."""
    if class_name(expression) != "PreciseTimestampConversion" or class_name(expression.child()) != "Subtract":
        return None
    inner = expression.child().children().apply(0)
    if class_name(inner) != "PreciseTimestampConversion" or class_name(inner.child()) != "GetStructField":
        return None
    field = inner.child()
    return field.child() if str(field.extractFieldName()) == "end" else None


def _made_by(project: Any) -> Any:
    """The first column of a projection, if it is a struct that is made there."""
    first = project.projectList().apply(0)
    return first if class_name(first) == "Alias" and class_name(first.child()) == "CreateNamedStruct" else None


def _time_window(id: int, structs: list[Any], below: Any) -> WrittenWindow | None:
    start, end = (_ends_of(structs[0], at) for at in (1, 3))
    times = [one for one in tree(start) if class_name(one) == "PreciseTimestampConversion" and _is_long(one)]
    remainders = [one for one in tree(start) if class_name(one) == "Remainder"]
    duration = _last_long(end)
    if not times or not remainders or duration is None:
        return None
    slide, offset = _last_long(remainders[0]), _last_long(remainders[0].children().apply(0))
    if slide is None or offset is None:
        return None
    spans = ", ".join(f"'{micros} microseconds'" for micros in (duration, slide, offset))
    return WrittenWindow(id, below, times[-1].child(), f"window({_TIME}, {spans})")


def _session(made: Any, below: Any) -> WrittenWindow | None:
    end = _ends_of(made.child(), 3)
    sums = [one for one in tree(end) if one.children().size() == 2 and class_name(one).startswith("Time")]
    if not sums:
        return None
    time, gap = (sums[0].children().apply(at) for at in (0, 1))
    while class_name(gap) == "Cast":
        gap = gap.child()
    return WrittenWindow(attribute_id(made), below, time, f"session_window({_TIME}, {_GAP})", gap)


def _ends_of(struct: Any, at: int) -> Any:
    return struct.children().apply(at)


def _is_long(expression: Any) -> bool:
    return str(expression.dataType().simpleString()) == "bigint"


def _last_long(expression: Any) -> int | None:
    """The constant that is the right operand of the uppermost operation of two."""
    while expression.children().size() == 1:
        expression = expression.children().apply(0)
    if expression.children().size() != 2:
        return None
    right = expression.children().apply(1)
    return int(right.value()) if class_name(right) == "Literal" else None
