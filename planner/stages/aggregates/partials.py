"""Describes planned aggregate functions: their calls in SQL, the partial columns they share, their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ....runtime.catalyst.columns import quoted
from ....runtime.catalyst.spark_expressions import is_attribute
from ....runtime.operators.aggregate.buffers import Buffer
from ....runtime.operators.aggregate.results import Result

_WORD = re.compile(r"\w+")
#: Stands for an argument in the SQL of a partial column.
_HOLE = re.compile(r"\0(\d+)\0")
#: Stands for what rows are ordered by, in the SQL of a partial column that depends on their order.
ORDER = "\1"


@dataclass(frozen=True)
class Argument:
    """An argument or condition of an aggregate."""

    #: Spark's analyzed expression.
    expression: Any
    #: Its SQL as Spark writes it.
    text: str
    #: The same for Spark to read.
    sql: str
    #: True if there is no other way to read it.
    is_certain: bool


@dataclass
class PartialColumns:
    """Collects partial columns and buffers; equal ones are shared."""

    ansi: bool
    #: SQL of the event time, never null; None: no watermark was declared.
    event_time: str | None
    spark: SparkSession
    #: The input's columns.
    names: frozenset[str]
    #: SQL with a hole for each argument.
    sql: list[str] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    #: By their places, those that depend on the order of rows, as SQL that gives the same whatever order Spark reads
    #: them in.
    ordered: dict[int, str] = field(default_factory=dict)
    #: Buffer without its columns' places -> places.
    _buffers: dict[Any, Buffer] = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers.values())

    def argument(self, expression: Any) -> str:
        """The hole for an analyzed argument or condition."""
        text = str(expression.sql())
        for place, known in enumerate(self.arguments):
            # The text alone does not tell.
            if known.text == text and known.expression.semanticEquals(expression):
                return f"\0{place}\0"
        sql, is_certain = text, text == "1"  # as in count(1)
        if is_attribute(expression) and str(expression.name()) in self.names:
            # Spark puts only some of those names in backticks that mean something else without.
            sql = quoted(str(expression.name()))
            # In names, too, Spark fills variables in, and settings make patterns of them.
            is_certain = bool(_WORD.fullmatch(str(expression.name())))
        self.arguments.append(Argument(expression, text, sql, is_certain))
        return f"\0{len(self.arguments) - 1}\0"

    def used(self) -> tuple[int, ...]:
        """Places of the arguments that are in a partial column."""
        return tuple(sorted({int(place) for sql in self.sql for place in _HOLE.findall(sql)}))

    def written(self, texts: Sequence[str]) -> list[str]:
        """The partial columns with a text for each argument."""
        return [_HOLE.sub(lambda found: texts[int(found[1])], sql) for sql in self.sql]

    def written_in_order(self, texts: Sequence[str], order: str) -> dict[int, str]:
        """By their places, the partial columns that depend on the order of rows.

        Args:
            texts: a text for each argument.
            order: what rows are ordered by, in SQL, with commas.
        """
        written = {place: _HOLE.sub(lambda found: texts[int(found[1])], sql) for place, sql in self.ordered.items()}
        return {place: sql.replace(ORDER, order) for place, sql in written.items()}

    def shown(self, sql: str) -> str:
        """A partial column as Spark would write it, for errors."""
        return _HOLE.sub(lambda found: self.arguments[int(found[1])].text, sql)

    def add(self, make: Callable[[tuple[int, ...]], Buffer], *sql: str, ordered: str = "") -> tuple[int, ...]:
        """Places of a buffer's columns.

        Args:
            make: makes the buffer, given these.
            sql: the columns.
            ordered: the first of them where rows come in any order, with :data:`ORDER`; empty: it gives the same.
        """
        identity = (repr(make((-1,))), sql)
        if identity not in self._buffers:
            places = tuple(range(len(self.sql), len(self.sql) + len(sql)))
            self.sql += sql
            self._buffers[identity] = make(places)
        columns = self._buffers[identity].columns
        if ordered:
            self.ordered[columns[0]] = ordered
        return columns


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function, in SQL."""

    #: Spark's aggregate function.
    function: Any
    #: The column that it becomes, for errors.
    name: str
    #: Holes, which stand for SQL.
    arguments: tuple[str, ...]
    #: `` FILTER (WHERE ...)`` or nothing.
    filter: str
    #: The result's type, as Spark writes it.
    type: str

    def partial(self, function: str, *arguments: str) -> str:
        """SQL of a partial aggregate under the call's filter."""
        return f"{function}({', '.join(arguments)}){self.filter}"

    def argument_text(self, place: int = 0) -> str:
        """An argument as Spark writes it, for errors."""
        return str(self.function.children().apply(place).sql())

    def argument_type(self, place: int = 0) -> str:
        """The type of an argument, as Spark writes it."""
        return str(self.function.children().apply(place).dataType().simpleString())


@dataclass(frozen=True)
class PlannedResult:
    """A result whose type is not known in Arrow's terms yet."""

    name: str
    kind: str
    columns: tuple[int, ...]
    #: What else the kind needs to know; see :class:`Result`.
    argument: Any = None
    #: The call, as Spark writes it.
    text: str = ""
    #: What does not fit its type is null in ANSI mode, too.
    tries: bool = False

    def typed(self, data_type: pa.DataType, ansi: bool) -> Result:
        ansi = ansi and not self.tries
        return Result(self.name, self.kind, self.columns, data_type, ansi, self.argument, self.text)


Plan = Callable[[Call, PartialColumns], PlannedResult]
