"""Makes the sink that a user asked of the writer, and refuses what it would not look at.

An option that is silently without effect is worse than an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from ....errors import OptionError
from ...support.notebook_html import is_shown
from ...support.redaction import redacted
from .base import Guarantee, Sink
from .foreach_batch import ForeachBatchSink
from .foreach_rows import ForeachSink
from .formats import names_of
from .kafka.guarantee import OPTION as GUARANTEE
from .kafka.messages import FORMAT as KAFKA
from .kafka.sink import KafkaSink
from .parquet import ParquetSink
from .per_epoch import ConsoleSink, MemorySink, NoopSink
from .sink_spec import SinkSpec
from .spark_writer import SparkWriterSink


def make_sink(spec: SinkSpec) -> Sink:
    """The sink for what the user asked of the writer.

    Raises:
        OptionError: an option that the format needs is missing, or it does not know one that was given.
    """
    if spec.table is None and spec.format.lower() == KAFKA:
        _check_kafka(spec)
        if spec.guarantee != "at-least-once":
            return KafkaSink(spec.schema, spec.options, spec.deliveries)
    if spec.is_built_in:
        _check_options(spec)
    _check_order_column(spec)
    if spec.table is not None and not spec.capabilities.is_lasting:
        raise OptionError(f"{spec.name} has no tables; use toTable with a format that tables have (parquet, delta, …)")
    if spec.foreach_batch is not None:
        made = ForeachSink if spec.name == "foreach" else ForeachBatchSink
        return made(spec.schema, spec.foreach_batch, spec.deliveries)
    if spec.is_built_in:
        return _BUILT_IN[spec.format](spec)
    return SparkWriterSink(
        spec.schema,
        spec.format,
        path=spec.path,
        table=spec.table,
        options=spec.options,
        partition_by=spec.partition_by,
        transactional=spec.transactional,
        deliveries=spec.deliveries,
    )


#: What makes the sinks of the built-in formats (:mod:`.formats`).
_BUILT_IN: dict[str, Callable[[SinkSpec], Sink]] = {
    sink.name: sink.of for sink in (ParquetSink, MemorySink, ConsoleSink, NoopSink)
}


def check_guarantee(sink: Sink, wanted: Guarantee | None) -> None:
    """Raise OptionError if a sink does not give the guarantee that was asked for."""
    if wanted == "exactly-once" and sink.guarantee != wanted:
        raise OptionError(
            f"{GUARANTEE} = {wanted!r}, and {sink.name} gives {sink.guarantee}; leave the option out, or use"
            f" {names_of(lambda one: one.is_exactly_once)} with a function that is idempotent by its id",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def _check_kafka(spec: SinkSpec) -> None:
    """Raise OptionError for what other formats know."""
    for what, given in (("path", spec.path), ("partitionBy", ", ".join(spec.partition_by))):
        if given:
            raise OptionError(f'format "kafka" has no {what}, and {given!r} was given; leave it out')
    if spec.transactional:
        raise OptionError(
            "execution.sink.transactional = true is not for format kafka, which knows no txnVersion; use"
            f" {GUARANTEE} = exactly-once",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def _check_order_column(spec: SinkSpec) -> None:
    order_column = spec.deliveries.order_column
    if order_column is None:
        return
    if spec.is_built_in and spec.foreach_batch is None:
        raise OptionError(
            f"execution.sink.order-column = {order_column!r} does not go with format {spec.name}, whose rows are not"
            " handed over once per checkpoint; it works with foreachBatch, with toTable, and with the formats that"
            " Spark's DataFrameWriter writes (csv, json, orc, delta, …)",
            code="MIXEDMODE_OPTION_CONFLICT",
        )
    names = spec.schema.fieldNames()
    if order_column.lower() in {name.lower() for name in names}:
        raise OptionError(
            f"execution.sink.order-column = {order_column!r} is a column of the output already; its columns are"
            f" {', '.join(names)}; allowed: any other name"
        )


def _check_options(spec: SinkSpec) -> None:
    """Raise OptionError for an option, or a layout, that a sink of ours would not look at."""
    allowed = spec.capabilities.options
    for written, text in spec.options.items():
        if written.lower() in allowed:
            continue
        near = difflib.get_close_matches(written.lower(), allowed, n=1, cutoff=0.7)
        hint = f"did you mean {allowed[near[0]]}?" if near else f"its options are {', '.join(allowed.values())}"
        shown = repr(redacted(text)) if is_shown(written) else "(not shown)"
        raise OptionError(
            f"{spec.name} does not know the option {written} = {shown}; {hint}", code="MIXEDMODE_OPTION_UNKNOWN"
        )
    if spec.partition_by and not spec.capabilities.takes_partitions:
        raise OptionError(
            f"{spec.name} does not support partitionBy; it works with {names_of(lambda one: one.takes_partitions)}, and"
            " with toTable, or write partitions yourself in foreachBatch"
        )
