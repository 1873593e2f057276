"""Makes Kafka messages of rows, and checks before the first row that they can be.

Columns and types are those of Spark's writer, which looks when it sends the first ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from .....errors import CheckpointError, OptionError, PlanError

logger = logging.getLogger(__name__)

FORMAT = "kafka"
_HEADERS = "array<struct<key:string,value:binary>>"
_BYTES = ("string", "binary")


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_headers(kind: DataType) -> bool:
    inner = kind.elementType if isinstance(kind, ArrayType) else None
    fields = inner.fields if isinstance(inner, StructType) else []
    kinds = [type(field.dataType) for field in fields]
    return [field.name for field in fields] == ["key", "value"] and kinds == [StringType, BinaryType]


#: What Spark makes a message of: for each column whether it takes the type, and which types those are.
_COLUMNS: dict[str, tuple[Callable[[DataType], bool], tuple[str, ...]]] = {
    "key": (_is_bytes, _BYTES),
    "value": (_is_bytes, _BYTES),
    "topic": (lambda kind: isinstance(kind, StringType), ("string",)),
    "partition": (lambda kind: isinstance(kind, IntegerType), ("int",)),
    "headers": (_is_headers, (_HEADERS,)),
}


def check_messages(schema: StructType, options: Mapping[str, str], fold: Callable[[str], str]) -> None:
    """Raise if rows of a schema are no messages for Kafka.

    Args:
        schema: the output's columns.
        options: the writer's.
        fold: makes names alike that Spark takes for one.

    Raises:
        OptionError: no brokers are given, or no topic.
        PlanError: there is no value, or a column is of a type that Spark does not send.
    """
    given = {name.lower() for name in options}
    if "kafka.bootstrap.servers" not in given:
        raise OptionError('format "kafka" needs the brokers: .option("kafka.bootstrap.servers", "host:port")')
    found: dict[str, StructField] = {fold(field.name): field for field in schema.fields}
    if fold("value") not in found:
        raise PlanError(
            f'format "kafka" needs a column value, of type string or binary; the output has'
            f" {', '.join(schema.fieldNames())}. Make one, for example with"
            " .select(F.to_json(F.struct('*')).alias('value')) behind the keyed stage",
            code="MIXEDMODE_OUTPUT_MISFIT",
        )
    if "topic" not in given and fold("topic") not in found:
        raise OptionError(
            'format "kafka" needs a topic: .option("topic", …) for all rows, or a column topic; the output has'
            f" {', '.join(schema.fieldNames())}"
        )
    for name, (takes, kinds) in _COLUMNS.items():
        field = found.pop(fold(name), None)
        if field is not None and not takes(field.dataType):
            raise PlanError(
                f'column {field.name} is of type {field.dataType.simpleString()}; format "kafka" sends it as'
                f" {' or '.join(kinds)}: cast it, or give it another name",
                code="MIXEDMODE_OUTPUT_MISFIT",
            )
    if found:  # as Spark's writer, which does not say so
        logger.warning(
            'format "kafka" sends the columns %s of the output, and leaves out %s; put more into the value, for example'
            " with F.to_json(F.struct(…)).alias('value')",
            ", ".join(_COLUMNS),
            ", ".join(field.name for field in found.values()),
        )


@dataclass(frozen=True)
class MessageColumns:
    """How a message is made of a row."""

    #: The topic of all messages; None: the column says it.
    topic: str | None
    #: Places of the columns by what they are in a message.
    places: Mapping[str, int]

    @classmethod
    def of(cls, schema: StructType, options: Mapping[str, str], fold: Callable[[str], str]) -> MessageColumns:
        """Those of an output that has been checked; arguments as of :func:`check_messages`."""
        places = {fold(field.name): place for place, field in enumerate(schema.fields)}
        return cls(topic_of(options), {name: places[fold(name)] for name in _COLUMNS if fold(name) in places})

    def messages(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Any, Any, int, Any]]:
        """Topic, value, key, partition (-1: the key's) and headers of each row.

        Raises:
            CheckpointError: a row has no topic.
        """
        values, keys, topics, partitions, headers = (
            rows.column(self.places[name]).to_pylist() if name in self.places else repeat(None)
            for name in ("value", "key", "topic", "partition", "headers")
        )
        if self.topic is not None:
            topics = repeat(self.topic)
        found = zip(range(rows.num_rows), topics, values, keys, partitions, headers, strict=False)
        for _, topic, value, key, partition, its_headers in found:
            if topic is None:
                raise CheckpointError(
                    "column topic is null in a row of the output, and the option topic, which would be for all rows, is"
                    " not set; set it"
                )
            pairs = None if its_headers is None else [(one["key"], one["value"]) for one in its_headers]
            yield topic, value, key, -1 if partition is None else partition, pairs


def topic_of(options: Mapping[str, str]) -> str | None:
    """The topic of all rows, if the options name one."""
    return next((text for name, text in options.items() if name.lower() == "topic"), None)
