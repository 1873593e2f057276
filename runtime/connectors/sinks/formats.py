"""Declares what each output format can do, as far as its name alone says it: before there is a sink of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..parquet_form import PARQUET_OPTIONS

#: Options that all of ours take, as stock Spark's do: jobs are tried with the console and keep them.  By lower case.
KNOWN_OPTIONS = {name.lower(): name for name in ("path", "checkpointLocation", "numRows", "truncate")}


@dataclass(frozen=True)
class SinkFormat:
    """What a format can do; the defaults are those of a format that only Spark knows."""

    name: str
    #: Whether its name alone makes a sink of ours; every other one is Spark's to write.
    is_built_in: bool = False
    #: Whether its output outlives the query.  If not, it has no path, no table and no columns that must differ, and it
    #: does without a ``checkpointLocation``, as in stock Spark.
    is_lasting: bool = True
    #: Whether each row is there once, whatever fails, unless the job asks for less.
    is_exactly_once: bool = False
    #: Whether ``partitionBy`` lays its rows out.
    takes_partitions: bool = True
    #: What a built-in one may be told, by lower case.
    options: Mapping[str, str] = field(default_factory=KNOWN_OPTIONS.copy)
    #: Whether Spark cannot write it without a path or a table.
    needs_path: bool = False
    #: Whether it can only add rows, so that outputMode update has no meaning.
    only_adds: bool = False
    #: Whether one commit overwrites a table: readers see the old rows or the new ones.
    overwrites: bool = False
    #: Whether outputMode complete gives it the whole result each time: in place of the last one, or beside it.
    takes_whole_result: bool = False

    @property
    def is_files(self) -> bool:
        """Whether it adds files to a folder, which whoever reads the folder would read."""
        return self.only_adds and not self.overwrites


def _shown(name: str) -> SinkFormat:
    """A format that hands rows to somebody and keeps nothing."""
    return SinkFormat(name, is_built_in=True, is_lasting=False, takes_partitions=False, takes_whole_result=True)


def _file(name: str) -> SinkFormat:
    return SinkFormat(name, needs_path=True, only_adds=True)


def _table(name: str) -> SinkFormat:
    return replace(_file(name), is_exactly_once=True, overwrites=True, takes_whole_result=True)


#: Every format of which anything is known, in the order in which messages name them.
_DECLARED = (
    SinkFormat(
        "parquet", is_built_in=True, is_exactly_once=True, only_adds=True, options=KNOWN_OPTIONS | PARQUET_OPTIONS
    ),
    *map(_table, ("delta", "iceberg")),
    SinkFormat("kafka", is_exactly_once=True, takes_partitions=False, takes_whole_result=True),
    *map(_shown, ("memory", "console", "noop")),
    replace(_shown("foreachBatch"), is_built_in=False, is_exactly_once=True),
    *map(_file, ("csv", "json", "orc", "text", "xml", "avro")),
)
_BY_NAME = {one.name.lower(): one for one in _DECLARED}


def format_of(name: str) -> SinkFormat:
    """The format of that name, which may be written in any case."""
    return _BY_NAME.get(name.lower()) or SinkFormat(name)


def names_of(can: Callable[[SinkFormat], bool]) -> str:
    """The names of the formats that can do something, for messages: ``memory, console or noop``."""
    *names, last = [one.name for one in _DECLARED if can(one)]
    return f"{', '.join(names)} or {last}"
