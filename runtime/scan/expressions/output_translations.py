"""The expressions that tasks compute of the rows of a stage in place of Spark: a list, as data, that a test walks.

Rows that are on their way to a topic cannot go back to Spark, as those of a file can.  So what is here gives what Spark
gives for all values, and fails where Spark fails: other expressions of :mod:`.translations` are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from ...catalyst.spark_expressions import class_name, constant, items, without_alias
from ...jvm.gateway import scala_entries
from . import builders as of
from . import output_texts  # noqa: F401  its functions are there wherever these expressions are known
from .output_texts import json_string
from .translations import BUILDS, Translation
from .translator import Build, Translator, mode_of, not_known, type_of
from .values import FUNCTIONS, Value
from .zones import WALL, Zone, zone_of

_TEXT, _DOUBLE = pa.string(), pa.float64()
#: Functions that raise only where Spark does, or for times outside of the years 1 to 9999.
_SURE = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "remainder", "negate", "abs", "whole_numbers", "wider_decimal"),
        *("length", "substring", "year", "quarter", "month", "day", "day_of_year", "week", "day_of_week", "weekday"),
        *("hour", "minute", "second", "date_of", "wall_of", "formatted", "truncated_date", "last_day", "days_added"),
        *("days_between", "date_written", "time_written", "decimal_as_whole", "to_decimal", "decimal_quotient", "json"),
    )
)


def output_translator(column: Callable[[Any], Value], *, before_19: bool, leaves_out_nulls: bool) -> OutputTranslator:
    """Translates expressions over rows that cannot go back to Spark.

    Args:
        column: gives the value of a column, or raises.
        before_19: Java, which writes doubles, is older than version 19.
        leaves_out_nulls: ``to_json`` leaves out fields that are null, unless it is told otherwise.
    """
    known = {**BUILDS, **{entry.kind: entry.build for entry in OUTPUT_TRANSLATIONS}}
    return OutputTranslator(column, known, before_19, leaves_out_nulls)


@dataclass
class OutputTranslator(Translator):
    """Knows what Java and the session do besides; see :func:`output_translator`."""

    before_19: bool
    leaves_out_nulls: bool

    def sure_value(self, expression: Any) -> Value:
        """The value of an expression that is Spark's for all rows.

        Raises:
            NotTakenError: it may not be.
        """
        value = self.value(expression)
        for one in _all(value):
            if FUNCTIONS[one.function].can_fail and not _is_sure(one):
                raise not_known(expression, f"not known to be Spark's for all values ({one.function})")
        return value


def _all(value: Value) -> Iterator[Value]:
    yield value
    for one in value.arguments:
        yield from _all(one)


def _is_sure(value: Value) -> bool:
    if value.function in ("floor", "ceil"):
        return pa.types.is_integer(value.arguments[0].type)
    return value.function in _SURE or (value.function == "whole_divide" and value.options == ("checked",))


def _cast(to: OutputTranslator, expression: Any, children: list[Any]) -> Value:
    one, data_type, is_ = to.value(children[0]), type_of(expression), pa.types
    if one.function == "constant" or one.type == data_type:
        return of.cast(to, expression, children)
    mode = mode_of(expression)
    if is_.is_string(data_type):
        if is_.is_decimal(one.type):
            return Value("decimal_written" if mode else "decimal_to_string", data_type, (one,))
        if is_.is_date32(one.type):
            return Value("date_written", data_type, (one,))
        if is_.is_timestamp(one.type):
            return Value("time_written", data_type, (one,), (of.clock_zone(expression, one),))
        if is_.is_floating(one.type):
            return Value("real_written", data_type, (one,), (to.before_19,))
    is_number = is_.is_integer(one.type) or is_.is_floating(one.type) or is_.is_decimal(one.type)
    if is_.is_decimal(data_type) and is_number:
        return Value("to_decimal", data_type, (one,), (*mode, to.before_19))
    if is_.is_decimal(one.type) and data_type == _DOUBLE:
        return Value("decimal_as_double", data_type, (one,))
    if is_.is_decimal(one.type) and is_.is_integer(data_type):
        return Value("decimal_as_whole", data_type, (one,), mode)
    return of.cast(to, expression, children)


def _round(to: OutputTranslator, expression: Any, children: list[Any]) -> Value:
    one, scale, data_type = to.value(children[0]), int(to.literal(children[1])), type_of(expression)
    if not 0 <= scale <= 15:
        raise not_known(expression, "to other digits than 0 to 15 behind the point")
    if data_type == _DOUBLE and one.type == _DOUBLE:
        return Value("round_written", data_type, (one,), (scale, to.before_19))
    if pa.types.is_decimal(data_type) and pa.types.is_decimal(one.type):
        return Value("to_decimal", data_type, (one,), ("checked", to.before_19))
    return of.round_half_up(to, expression, children)


def _divide(to: OutputTranslator, expression: Any, children: list[Any]) -> Value:
    data_type = type_of(expression)
    if pa.types.is_decimal(data_type):
        return Value("decimal_quotient", data_type, to.values(children), mode_of(expression))
    return of.divide(to, expression, children)


def _to_json(to: OutputTranslator, expression: Any, children: list[Any]) -> Value:
    leaves_out = to.leaves_out_nulls
    for name, setting in scala_entries(expression.options()):
        if name.lower() != "ignorenullfields" or setting.lower() not in ("true", "false"):
            raise not_known(expression, f"a to_json with the option {name}")
        leaves_out = setting.lower() == "true"
    arguments: list[Value] = []
    zones: list[Zone | None] = []
    zone = zone_of(expression.zoneId())

    def fields(struct: Any) -> tuple[Any, ...]:
        if class_name(struct) != "CreateNamedStruct":
            raise not_known(expression, "a to_json of something else than struct(…)")
        children = list(items(struct.children()))
        found: list[tuple[str, Any]] = []
        for name, child in zip(children[::2], children[1::2], strict=True):
            quoted, content = json_string(str(constant(name))), without_alias(child)
            if class_name(content) == "CreateNamedStruct":
                found.append((quoted, fields(content)))
                continue
            is_nothing = str(content.dataType().simpleString()) == "void"
            value = Value("constant", _TEXT, (), (None,)) if is_nothing else to.value(content)
            found.append((quoted, len(arguments)))
            arguments.append(value)
            is_instant = pa.types.is_timestamp(value.type) and value.type.tz
            zones.append(zone if is_instant else WALL if pa.types.is_timestamp(value.type) else None)
        return tuple(found)

    content = fields(without_alias(children[0]))
    return Value("json", _TEXT, tuple(arguments), (content, leaves_out, tuple(zones), to.before_19))


def _entry(kind: str, build: Callable[[OutputTranslator, Any, list[Any]], Value], *examples: str) -> Translation:
    return Translation(kind, cast(Build, build), examples)  # its translator is always an OutputTranslator


OUTPUT_TRANSLATIONS: tuple[Translation, ...] = (
    _entry(
        "Cast",
        _cast,
        *("CAST(m AS STRING)", "CAST(big AS STRING)", "CAST(big / 1000 AS STRING)", "CAST(y AS STRING)"),
        *("CAST(t AS STRING)", "CAST(n AS STRING)", "CAST(d AS STRING)", "CAST(f AS STRING)", "CAST(l AS STRING)"),
        *("CAST(tiny AS STRING)", "CAST(b AS STRING)", "CAST(big AS DOUBLE)", "CAST(w AS BIGINT)", "CAST(big AS INT)"),
        *("CAST(d AS DECIMAL(20, 3))", "CAST(l AS DECIMAL(12, 2))", "CAST(big AS DECIMAL(20, 2))"),
        *("CAST(f AS DECIMAL(38, 10))", "CAST(CAST(m AS DECIMAL(38, 18)) AS STRING)", "CAST(i AS DECIMAL(18, 8))"),
    ),
    _entry(
        "Round", _round, "round(d, 2)", "round(d)", "round(d / 3, 4)", "round(big, 2)", "round(w, 1)", "round(i, 1)"
    ),
    _entry("Divide", _divide, "d / d2", "m / m2", "big / w", "w / i", "big / big", "i / 7"),
    _entry(
        "StructsToJson",
        _to_json,
        *("to_json(struct(i, l, b, s, m))", "to_json(struct(y, t, n))", "to_json(struct(d, f, d2))"),
        *("to_json(named_struct('a\"\\\\', s, 'ä', big, 'n', named_struct('x', i, 'y', null)))", "to_json(struct(*))"),
        *("to_json(struct(s, s2), map('ignoreNullFields', 'false'))", "to_json(struct(i + 1 AS j, d / 7 AS q))"),
        "to_json(struct(CAST(big / 10000000 AS DECIMAL(38, 18)) AS small, '\\u001f\\u007f\\t' AS z, w))",
    ),
)
