"""What formats can do is declared once, and every built-in format has a sink."""

from __future__ import annotations

from mixedmode.runtime.connectors.sinks import formats, sink_factory
from mixedmode.runtime.connectors.sinks.formats import SinkFormat, format_of, names_of


def test_every_built_in_format_has_a_sink() -> None:
    """What is declared as built in is what a sink is made for."""
    assert {one.name for one in formats._DECLARED if one.is_built_in} == sink_factory._BUILT_IN.keys()


def test_formats_are_found_in_any_case() -> None:
    """Of a format that nobody has declared nothing is known but its name."""
    assert format_of("Delta").overwrites and not format_of("foreachbatch").is_lasting
    assert format_of("my.Source") == SinkFormat("my.Source")


def test_messages_name_the_formats_that_can_do_it() -> None:
    """In the order in which they are declared."""
    assert names_of(lambda one: one.overwrites) == "delta or iceberg"
    assert names_of(lambda one: not one.is_lasting) == "memory, console, noop or foreachBatch"
