"""Spark's arithmetic of whole numbers, as it computes where windows start and end, over numpy arrays.

The expressions are taken as Spark's analyzer has written them, not rebuilt from a window's length, so that they cannot
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...catalyst.spark_expressions import class_name, constant, items
from ..parquet_scan import NotTakenError

#: ``("column", name)``, ``("constant", value)``, ``("add" | "subtract" | "remainder", one, other)`` or
#: ``("if_less", one, other, then, otherwise)``.
LongExpression = tuple[Any, ...]

_TIMES = ("timestamp", "timestamp_ntz")
_HANDED_ON = ("PreciseTimestampConversion", "KnownNullable", "KnownNotNull")
_BINARY = {"Add": "add", "Subtract": "subtract", "Remainder": "remainder"}
#: Greater numbers are Spark's, which may find an overflow.
_LIMIT = 1 << 61
_NOTHING = ("constant", 0)


def long_expression(expression: Any, column: Callable[[Any], str]) -> LongExpression:
    """An expression of Spark's.

    Args:
        expression: a resolved one.
        column: gives the name of a column, or of a time that is computed, that it may have in it.

    Raises:
        NotTakenError: something else is in it.
    """
    kind = class_name(expression)
    if kind == "PreciseTimestampConversion" and str(expression.child().dataType().simpleString()) in _TIMES:
        return ("column", column(expression.child()))
    if kind in _HANDED_ON:
        return long_expression(expression.child(), column)
    if kind == "AttributeReference":
        return ("column", column(expression))
    if expression.foldable():
        value = constant(expression)
        if isinstance(value, int) and abs(value) < _LIMIT:
            return ("constant", value)
    children = list(items(expression.children()))
    if kind in _BINARY and len(children) == 2:
        one, other = (long_expression(child, column) for child in children)
        if kind != "Remainder" or (other[0] == "constant" and other[1] > 0):
            return (_BINARY[kind], one, other)
    if kind == "CaseWhen" and len(children) == 3 and class_name(children[0]) == "LessThan":
        return ("if_less", *(long_expression(one, column) for one in (*items(children[0].children()), *children[1:])))
    raise NotTakenError(f"{kind} in a window is not known")


def later_expression(end: Any, start: Any, known: LongExpression, column: Callable[[Any], str]) -> LongExpression:
    """An expression that may be another one and something added: then that one is not read again, node by node.

    Args:
        end: a resolved one.
        start: the other one, over the same columns.
        known: what :func:`long_expression` has made of that.
        column: as of :func:`long_expression`.

    Raises:
        NotTakenError: something else is in it.
    """
    whole, added = _without_conversions(end), None
    if class_name(whole) == "Add":
        below, added = items(whole.children())
        if not below.semanticEquals(_without_conversions(start)):
            added = None
    return long_expression(end, column) if added is None else ("add", known, long_expression(added, column))


def _without_conversions(expression: Any) -> Any:
    while class_name(expression) in _HANDED_ON:
        expression = expression.child()
    return expression


def computed(
    expression: LongExpression, columns: Mapping[str, np.ndarray], done: dict[LongExpression, Any] | None = None
) -> Any:
    """The values of an expression, as int64.

    Args:
        expression: the expression.
        columns: the columns, as int64, without nulls.
        done: what has been computed of the same columns.

    Raises:
        NotTakenError: a number is so large that Spark might find an overflow.
    """
    done = {} if done is None else done
    if expression not in done:
        done[expression] = _computed(expression, columns, done)
    return done[expression]


def _computed(expression: LongExpression, columns: Mapping[str, np.ndarray], done: dict[LongExpression, Any]) -> Any:
    kind, *rest = expression
    if kind == "constant":
        return np.int64(rest[0])
    if kind == "column":
        values = columns[rest[0]]
        if len(values) and (values.min() < -_LIMIT or values.max() > _LIMIT):
            raise NotTakenError(f"{rest[0]} has a time near the end of all time")
        return values
    one, other = (computed(part, columns, done) for part in rest[:2])
    if kind in ("add", "subtract") and rest[1] == _NOTHING:
        return one
    if kind == "add":
        return one + other
    if kind == "subtract":
        return one - other
    if kind == "remainder":  # the sign is that of the dividend, as in Java
        return np.fmod(one, other)
    is_less = one < other
    if not is_less.any():  # as of all times since 1970: the other choice need not be there
        return computed(rest[3], columns, done)
    return np.where(is_less, *(computed(part, columns, done) for part in rest[2:]))
