"""What planned aggregate functions are made of: their calls in SQL, the partial columns they share, their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..runtime.operators.aggregate_buffers import Buffer
from ..runtime.operators.aggregate_results import Result


@dataclass
class PartialColumns:
    """Collects partial columns and buffers; equal ones are shared."""

    ansi: bool
    #: SQL of the event time, never null; None: no watermark was declared.
    event_time: str | None
    #: Spark's side of the gateway.
    jvm: Any
    sql: list[str] = field(default_factory=list)
    #: Arguments and conditions: their text, and Spark's analyzed expression.
    texts: list[tuple[str, Any]] = field(default_factory=list)
    #: Buffer without its columns' places -> places.
    _buffers: dict[Any, Buffer] = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers.values())

    def text(self, expression: Any) -> str:
        """An analyzed argument or condition as SQL."""
        text = str(expression.sql())
        self.texts.append((text, expression))
        return text

    def add(self, make: Callable[[tuple[int, ...]], Buffer], *sql: str) -> tuple[int, ...]:
        """Places of a buffer's columns."""
        identity = (repr(make((-1,))), sql)
        if identity not in self._buffers:
            places = tuple(range(len(self.sql), len(self.sql) + len(sql)))
            self.sql += sql
            self._buffers[identity] = make(places)
        return self._buffers[identity].columns


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function, in SQL."""

    #: Spark's aggregate function.
    function: Any
    #: The column that it becomes, for errors.
    name: str
    arguments: tuple[str, ...]
    #: `` FILTER (WHERE ...)`` or nothing.
    filter: str
    #: The result's type, as Spark writes it.
    type: str

    def partial(self, function: str, *arguments: str) -> str:
        """SQL of a partial aggregate under the call's filter."""
        return f"{function}({', '.join(arguments)}){self.filter}"

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

    def typed(self, data_type: pa.DataType, ansi: bool) -> Result:
        return Result(self.name, self.kind, self.columns, data_type, ansi, self.argument)


Plan = Callable[[Call, PartialColumns], PlannedResult]
