"""Identifies an aggregate in stored state by function, inputs, DISTINCT and FILTER; an alias is only a name.

With a checkpoint's state goes a record of the output columns that it is for: the name of each, what it computes, and
which columns of state each of its aggregates has.  A job that is started again finds its aggregates by that
(:mod:`.evolution`), whatever they are called and wherever they stand now.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .buffers import Buffer
from .definition import OutputColumn

if TYPE_CHECKING:
    from .definition import Partials
    from .results import Result

#: Fields of buffers that do not decide what they hold.
_NOT_THE_KIND = {"columns", "ansi", "sql"}
#: Longest argument of a result that is kept as text.
_ARGUMENT_CHARS = 100


@dataclass(frozen=True)
class StoredAggregate:
    """An aggregate of an output column, with its part of the state."""

    identity: str
    #: The state columns of each of its buffers.
    buffers: tuple[tuple[int, ...], ...]
    #: Which change of the job it came with; 0: it has seen all rows.
    since: int


@dataclass(frozen=True)
class StoredOutput:
    """An output column that state was kept for."""

    name: str
    text: str
    expression: str
    aggregates: tuple[StoredAggregate, ...]

    @property
    def identity(self) -> str:
        return column_identity(self.expression, [aggregate.identity for aggregate in self.aggregates])


def column_identity(expression: str, aggregates: list[str]) -> str:
    """What an output column computes, as one text."""
    return json.dumps([expression, aggregates])


def buffer_identity(buffer: Buffer, labels: tuple[str, ...]) -> list[Any]:
    """What a buffer holds: its kind, and the SQL of its columns."""
    parameters = [
        f"{field.name}={getattr(buffer, field.name)!r}"
        for field in dataclasses.fields(buffer)
        if field.name not in _NOT_THE_KIND
    ]
    return [buffer.kind, *parameters, *labels]


def buffers_of(result: Result, partials: Partials) -> list[Buffer]:
    """The buffers that a result is computed from, in the order in which it names them."""
    owners = {place: buffer for buffer in partials.buffers for place in buffer.columns}
    return list(dict.fromkeys(owners[place] for place in result.columns))


def result_identity(result: Result, partials: Partials) -> str:
    """What an aggregate is, as one text."""
    buffers = buffers_of(result, partials)
    parts = [
        [number, buffer.columns.index(place)]
        for place in result.columns
        for number, buffer in enumerate(buffers)
        if place in buffer.columns
    ]
    argument = "" if result.argument is None else repr(result.argument)
    if len(argument) > _ARGUMENT_CHARS:
        argument = hashlib.sha256(argument.encode()).hexdigest()
    held = [buffer_identity(buffer, tuple(partials.labels[place] for place in buffer.columns)) for buffer in buffers]
    return json.dumps([result.kind, argument, parts, held])


def output_identity(output: OutputColumn, partials: Partials) -> str:
    """What an output column computes, as one text."""
    return column_identity(
        output.expression, [result_identity(partials.results[place], partials) for place in output.results]
    )


def output_record(partials: Partials) -> list[dict[str, Any]]:
    """What a checkpoint records of the output columns; part of the on-disk contract."""
    return [
        {
            "name": output.name,
            "text": output.text,
            "expression": output.expression,
            "aggregates": [
                {
                    "identity": result_identity(partials.results[place], partials),
                    "buffers": [list(buffer.columns) for buffer in buffers_of(partials.results[place], partials)],
                    "since": partials.since.get(place, 0),
                }
                for place in output.results
            ],
        }
        for output in partials.outputs
    ]


def from_record(record: list[dict[str, Any]]) -> list[StoredOutput]:
    """Inverse of :func:`output_record`."""
    return [
        StoredOutput(
            output["name"],
            output["text"],
            output["expression"],
            tuple(
                StoredAggregate(one["identity"], tuple(map(tuple, one["buffers"])), one["since"])
                for one in output["aggregates"]
            ),
        )
        for output in record
    ]
