"""From Spark's resolved expressions to values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType

from ...catalyst.spark_expressions import NO_SUCH_MEMBER, class_name, items, tree
from ...catalyst.types.arrow_types import arrow_type
from ..parquet_scan import NotTakenError, is_scannable
from .values import Value

#: Makes a value, given who translates, the expression, and its children.
Build = Callable[["Translator", Any, list[Any]], Value]


@dataclass
class Translator:
    """Translates resolved expressions.

    Args:
        column: gives the value of a column, or raises.
        known: by the class of an expression what makes its value.
    """

    column: Callable[[Any], Value]
    known: Mapping[str, Build]

    def __post_init__(self) -> None:
        #: By the id of a common expression what stands for it.
        self._common: dict[Any, Any] = {}

    def value(self, expression: Any) -> Value:
        """The value of an expression.

        Raises:
            NotTakenError: it is not known to be the same.
        """
        kind = class_name(expression)
        if kind == "AttributeReference":
            return self.column(expression)
        if self.is_constant(expression):
            data_type = type_of(expression)
            return Value("constant", data_type, (), (_constant(expression, data_type),))
        if kind == "CommonExpressionRef":
            return self.value(self._common[str(expression.id())])
        if kind == "With":
            for one in items(expression.defs()):
                self._common[str(one.id())] = one.child()
            return self.value(expression.child())
        build = self.known.get(kind)
        if build is not None:
            return build(self, expression, list(items(expression.children())))
        try:
            replacement = expression.replacement()
        except NO_SUCH_MEMBER:
            raise not_known(expression) from None
        return self.value(replacement)

    def is_constant(self, expression: Any) -> bool:
        """True for a constant of every query, which the time of now is not."""
        if not expression.foldable():
            return False
        return {class_name(one) for one in tree(expression)} <= {*self.known, "Literal", "ExtractANSIIntervalDays"}

    def literal(self, expression: Any) -> Any:
        """The value of a constant argument of a function, which is not null.

        Raises:
            NotTakenError: it is none.
        """
        value = _constant(expression, type_of(expression)) if self.is_constant(expression) else None
        if value is None:
            raise not_known(expression, "no constant, or null")
        return value

    def text(self, expression: Any) -> str:
        """A constant text that is not empty.

        Raises:
            NotTakenError: it is none.
        """
        if not (value := str(self.literal(expression))):
            raise not_known(expression, "an empty text")
        return value

    def values(self, expressions: Sequence[Any]) -> tuple[Value, ...]:
        """The values of several expressions."""
        return tuple(self.value(one) for one in expressions)


def not_known(expression: Any, why: str = "") -> NotTakenError:
    """The error that an expression is Spark's; ``why``: what it is; empty: its class."""
    return NotTakenError(f"{expression.sql()} is {why or f'a {class_name(expression)}'}")


def type_of(expression: Any) -> pa.DataType:
    """The type of an expression.

    Raises:
        NotTakenError: columns of that type are not read here.
    """
    data_type = expression.dataType()
    name = str(data_type.simpleString())
    if not is_scannable(name):
        raise not_known(expression, f"of type {name}")
    return arrow_type(DataType.fromDDL(name))


def _constant(expression: Any, data_type: pa.DataType) -> Any:
    try:
        value = expression.eval(None)
    except (Py4JError, PySparkException) as error:
        raise not_known(expression, "a constant that only Spark can compute") from error
    return constant_of(value, data_type)


def constant_of(value: Any, data_type: pa.DataType) -> Any:
    """A value of Spark's rows as Arrow takes it.

    Args:
        value: as Spark holds it.
        data_type: its type.
    """
    if value is None:
        return None
    if pa.types.is_string(data_type):
        return str(value)
    if pa.types.is_decimal(data_type):
        return Decimal(str(value.toJavaBigDecimal()))
    return value


def mode_of(expression: Any) -> tuple[str, ...]:
    """``("checked",)`` if what does not fit is an error, else nothing.

    Raises:
        NotTakenError: it is null.
    """
    mode = str(expression.evalMode().toString())
    if mode not in ("ANSI", "LEGACY"):
        raise not_known(expression, "tried")
    return ("checked",) if mode == "ANSI" else ()
