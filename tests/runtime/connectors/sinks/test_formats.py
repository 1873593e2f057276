"""What formats can do is declared once, and every built-in format has a sink."""

from __future__ import annotations

import pytest
from mixedmode.runtime.connectors.sinks import formats, sink_factory
from mixedmode.runtime.connectors.sinks.foreach_batch import ForeachBatchSink
from mixedmode.runtime.connectors.sinks.formats import SinkFormat, format_of, names_of
from mixedmode.runtime.connectors.sinks.kafka.sink import KafkaSink
from mixedmode.runtime.connectors.sinks.parquet import ParquetSink
from mixedmode.runtime.connectors.sinks.per_epoch import ConsoleSink, MemorySink, NoopSink
from mixedmode.runtime.connectors.sinks.transaction_memory import memory_of


def test_every_built_in_format_has_a_sink() -> None:
    """What is declared as built in is what a sink is made for."""
    assert {one.name for one in formats._DECLARED if one.is_built_in} == sink_factory._BUILT_IN.keys()


@pytest.mark.parametrize("sink", [ParquetSink, MemorySink, ConsoleSink, NoopSink, ForeachBatchSink, KafkaSink])
def test_a_format_promises_what_its_sink_gives(sink: type) -> None:
    """The guarantee is told before there is a sink, and by the sink."""
    assert format_of(sink.name).is_exactly_once == (sink.guarantee == "exactly-once")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", [one.name for one in formats._DECLARED if one.name not in ("parquet", "kafka", "foreachBatch")]
)
def test_what_spark_writes_is_exactly_once_if_it_remembers_transactions(name: str) -> None:
    """Tables of Delta and Iceberg do; a folder of files does not."""
    assert format_of(name).is_exactly_once == (memory_of(name, None) is not None)


def test_formats_are_found_in_any_case() -> None:
    """Of a format that nobody has declared nothing is known but its name."""
    assert format_of("Delta").overwrites and not format_of("foreachbatch").is_lasting
    assert format_of("my.Source") == SinkFormat("my.Source")


def test_messages_name_the_formats_that_can_do_it() -> None:
    """In the order in which they are declared."""
    assert names_of(lambda one: one.overwrites) == "delta or iceberg"
    assert names_of(lambda one: not one.is_lasting) == "memory, console, noop or foreachBatch"
