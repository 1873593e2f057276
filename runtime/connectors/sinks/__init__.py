"""Sinks: files, tables, memory, console, noop, foreachBatch; each says which guarantee it gives.

What a sink does not understand it refuses: an option that is silently without effect is worse than an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....errors import OptionError
from ...support.cells import is_shown
from ...support.redaction import redacted
from ..parquet_form import PARQUET_OPTIONS, ParquetForm
from .base import Guarantee, Sink
from .deliveries import Deliveries, WholeResult
from .files import ParquetSink
from .foreach_batch import ForeachBatchSink
from .foreach_rows import ForeachSink, RowByRow
from .formats import KNOWN_OPTIONS, format_of
from .kafka.guarantee import OPTION as GUARANTEE
from .kafka.messages import FORMAT as KAFKA
from .kafka.sink import KafkaSink
from .per_epoch import ConsoleSink, MemorySink, NoopSink
from .spark_writer import SparkWriterSink
from .table_checks import table_format

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["Deliveries", "Sink", "WholeResult", "check_guarantee", "make_sink", "table_format"]


def make_sink(
    format: str,
    path: str | None,
    options: Mapping[str, str],
    query_name: str | None,
    schema: StructType,
    foreach_batch: Callable[..., Any] | None,
    *,
    table: str | None = None,
    partition_by: Sequence[str] = (),
    transactional: bool | None = None,
    guarantee: Guarantee | None = None,
    deliveries: Deliveries | None = None,
) -> Sink:
    """The sink for what the user asked of the writer.

    Args:
        format: name of the format; of no meaning with ``foreach_batch``.
        path: folder of the output; None: the format has none, or its options say where.
        options: what is left for the format itself.
        query_name: what a memory table is called.
        schema: columns of the output.
        foreach_batch: takes each delivery's rows and its number.
        table: the table to append to; None: there is none.
        partition_by: columns that the output is laid out by.
        transactional: whether the format remembers ``txnVersion``; None: if it is known to.
        guarantee: how often a row must be there; None: once, if that is to be had.
        deliveries: how rows are handed over; None: as they come.

    Raises:
        OptionError: an option that the format needs is missing, or it does not know one that was given.
    """
    by_row = isinstance(foreach_batch, RowByRow)
    name = ("foreach" if by_row else "foreachBatch") if foreach_batch is not None else format
    if table is None and name.lower() == KAFKA:
        _check_kafka(path, partition_by, transactional)
        if guarantee != "at-least-once":
            return KafkaSink(schema, options, deliveries)
    is_ours = format_of(format).is_ours
    if table is None and (is_ours or foreach_batch is not None):
        _check_options(name, options)
        if partition_by and name != "parquet":
            raise OptionError(
                f"{name} does not support partitionBy; it works with parquet, the formats that Spark's DataFrameWriter"
                " writes (csv, json, orc, delta, …) and with toTable, or write partitions yourself in foreachBatch"
            )
    given = deliveries or Deliveries()
    if table is None and foreach_batch is None and is_ours and given.order_column is not None:
        raise OptionError(
            f"execution.sink.order-column = {given.order_column!r} does not go with format {name}, whose rows are not"
            " handed over once per checkpoint; it works with foreachBatch, with toTable, and with the formats that"
            " Spark's DataFrameWriter writes (csv, json, orc, delta, …)",
            code="MIXEDMODE_OPTION_CONFLICT",
        )
    if given.order_column is not None:
        _check_new(given.order_column, schema)
    if table is not None and (foreach_batch is not None or (is_ours and format != "parquet")):
        raise OptionError(f"{name} has no tables; use toTable with a format that tables have (parquet, delta, …)")
    if foreach_batch is not None:
        return (ForeachSink if by_row else ForeachBatchSink)(schema, foreach_batch, given)
    if table is not None or not is_ours:
        return SparkWriterSink(
            schema,
            format,
            path=path,
            table=table,
            options=options,
            partition_by=partition_by,
            transactional=transactional,
            deliveries=given,
        )
    return _OURS[format](_Asked(schema, path, options, query_name, partition_by, given))


@dataclass(frozen=True)
class _Asked:
    """What a sink of ours is made of."""

    schema: StructType
    path: str | None
    options: Mapping[str, str]
    query_name: str | None
    partition_by: Sequence[str]
    deliveries: Deliveries


def _parquet(asked: _Asked) -> ParquetSink:
    if not asked.path:
        raise OptionError(
            'format "parquet" needs a path: .option("path", …) or .start(path)', code="MIXEDMODE_LOCATION_MISSING"
        )
    return ParquetSink(asked.schema, asked.path, asked.partition_by, ParquetForm.of(asked.options, asked.schema))


def _memory(asked: _Asked) -> MemorySink:
    if not asked.query_name:
        raise OptionError('format "memory" needs a name for its table: .queryName(…)')
    return MemorySink(asked.schema, asked.query_name, asked.deliveries)


def _console(asked: _Asked) -> ConsoleSink:
    given = {name.lower(): text for name, text in asked.options.items()}
    rows, truncate = given.get("numrows", "20"), given.get("truncate", "true").lower()
    if not rows.isdecimal():
        raise OptionError(f"option numRows = {rows!r} of format console is not allowed; allowed: 0, 1, 2, …")
    if truncate not in ("true", "false"):
        raise OptionError(f"option truncate = {truncate!r} of format console is not allowed; allowed: true, false")
    return ConsoleSink(asked.schema, int(rows), truncate == "true", asked.deliveries)


#: The formats that are ours (:mod:`.formats`), and what makes their sinks.
_OURS: dict[str, Callable[[_Asked], Sink]] = {
    "parquet": _parquet,
    "memory": _memory,
    "console": _console,
    "noop": lambda asked: NoopSink(asked.schema, asked.deliveries),
}


def check_guarantee(sink: Sink, wanted: Guarantee | None) -> None:
    """Raise OptionError if a sink does not give the guarantee that was asked for."""
    if wanted == "exactly-once" and sink.guarantee != wanted:
        raise OptionError(
            f"{GUARANTEE} = {wanted!r}, and {sink.name} gives {sink.guarantee}; leave the option out, or use what is"
            " exactly-once: parquet, kafka, delta, foreachBatch with a function that is idempotent by its id",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def _check_kafka(path: str | None, partition_by: Sequence[str], transactional: bool | None) -> None:
    """Raise OptionError for what other formats know."""
    for what, given in (("path", path), ("partitionBy", ", ".join(partition_by))):
        if given:
            raise OptionError(f'format "kafka" has no {what}, and {given!r} was given; leave it out')
    if transactional:
        raise OptionError(
            "execution.sink.transactional = true is not for format kafka, which knows no txnVersion; use"
            f" {GUARANTEE} = exactly-once",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def _check_new(order_column: str, schema: StructType) -> None:
    names = schema.fieldNames()
    if order_column.lower() in {name.lower() for name in names}:
        raise OptionError(
            f"execution.sink.order-column = {order_column!r} is a column of the output already; its columns are"
            f" {', '.join(names)}; allowed: any other name"
        )


def _check_options(name: str, options: Mapping[str, str]) -> None:
    """Raise for an option that the sink would not look at."""
    allowed = KNOWN_OPTIONS | (PARQUET_OPTIONS if name == "parquet" else {})
    for written, text in options.items():
        if written.lower() in allowed:
            continue
        near = difflib.get_close_matches(written.lower(), allowed, n=1, cutoff=0.7)
        known = ", ".join(allowed.values())
        hint = f"did you mean {allowed[near[0]]}?" if near else f"its options are {known}"
        shown = repr(redacted(text)) if is_shown(written) else "(not shown)"
        raise OptionError(
            f"{name} does not know the option {written} = {shown}; {hint}", code="MIXEDMODE_OPTION_UNKNOWN"
        )
