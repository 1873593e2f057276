"""Sinks: file, memory, console, noop, foreachBatch; each says which guarantee it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from .base import Sink
from .files import ParquetSink
from .foreach_batch import ForeachBatchSink
from .immediate import ConsoleSink, MemorySink, NoopSink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["FORMATS", "Sink", "make_sink"]

FORMATS = ("parquet", "memory", "console", "noop")


def make_sink(
    format: str,
    path: str | None,
    options: Mapping[str, str],
    query_name: str | None,
    schema: StructType,
    foreach_batch: Callable[..., Any] | None,
) -> Sink:
    """The sink for what the user asked of the writer.

    Raises:
        OptionError: unknown format, or an option that the format needs is missing.
    """
    if foreach_batch is not None:
        return ForeachBatchSink(schema, foreach_batch)
    if format == "parquet":
        if not path:
            raise OptionError('format "parquet" needs a path: .option("path", …) or .start(path)')
        return ParquetSink(schema, path)
    if format == "memory":
        if not query_name:
            raise OptionError('format "memory" needs a name for its table: .queryName(…)')
        return MemorySink(schema, query_name)
    if format == "console":
        return ConsoleSink(schema, int(options.get("numRows", "20")), options.get("truncate", "true").lower() == "true")
    if format == "noop":
        return NoopSink(schema)
    raise OptionError(f"format {format!r} is not supported; use one of {', '.join(FORMATS)}, or foreachBatch")
