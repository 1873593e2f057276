"""What formats can do is declared once, and every format of ours has a sink."""

from __future__ import annotations

from mixedmode.runtime.connectors.sinks import formats, sink_factory
from mixedmode.runtime.connectors.sinks.formats import SinkFormat, format_of, names_of


def test_every_format_of_ours_has_a_sink() -> None:
    """What is declared as ours is what a sink is made for."""
    assert {one.name for one in formats._DECLARED if one.is_ours} == sink_factory._OURS.keys()


def test_formats_are_found_in_any_case() -> None:
    """Of a format that nobody has declared nothing is known but its name."""
    assert format_of("Delta").overwrites and format_of("foreachbatch").takes_repeated_names
    assert format_of("my.Source") == SinkFormat("my.Source")


def test_messages_name_the_formats_that_can_do_it() -> None:
    """In the order in which they are declared."""
    assert names_of(lambda one: one.overwrites) == "delta or iceberg"
    assert names_of(lambda one: one.takes_repeated_names) == "memory, console, noop or foreachBatch"
