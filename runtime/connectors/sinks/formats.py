"""Declares what each output format can do, as far as its name alone says it: before there is a sink of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SinkFormat:
    """What a format can do; the defaults are those of a format that only Spark knows."""

    name: str
    #: Whether we write it; every other one is Spark's to write.
    is_ours: bool = False
    #: Whether its output outlives the query.  If not, it does without a ``checkpointLocation``, as in stock Spark.
    is_lasting: bool = True
    takes_path: bool = True
    #: Whether Spark cannot write it without a path or a table.
    needs_path: bool = False
    #: Whether it can only add rows, so that outputMode update has no meaning.
    only_adds: bool = False
    #: Whether one commit overwrites a table: readers see the old rows or the new ones.
    overwrites: bool = False
    #: Whether outputMode complete gives it the whole result each time: in place of the last one, or beside it.
    takes_whole_result: bool = False
    #: Whether it takes several columns of one name.
    takes_repeated_names: bool = False


def _shown(name: str, *, is_ours: bool = True) -> SinkFormat:
    """A format that hands rows to somebody and keeps nothing."""
    return SinkFormat(
        name,
        is_ours=is_ours,
        is_lasting=False,
        takes_path=False,
        takes_whole_result=True,
        takes_repeated_names=True,
    )


def _file(name: str) -> SinkFormat:
    return SinkFormat(name, needs_path=True, only_adds=True)


def _table(name: str) -> SinkFormat:
    return SinkFormat(name, needs_path=True, only_adds=True, overwrites=True, takes_whole_result=True)


#: Every format of which anything is known, in the order in which messages name them.
_DECLARED = (
    SinkFormat("parquet", is_ours=True, only_adds=True),
    _table("delta"),
    _table("iceberg"),
    _shown("memory"),
    _shown("console"),
    _shown("noop"),
    _shown("foreachBatch", is_ours=False),
    *map(_file, ("csv", "json", "orc", "text", "xml", "avro")),
    SinkFormat("kafka", takes_whole_result=True),
)
_BY_NAME = {one.name.lower(): one for one in _DECLARED}
#: Options that all of ours take, as stock Spark's do: jobs are tried with the console and keep them.  By lower case.
KNOWN_OPTIONS = {name.lower(): name for name in ("path", "checkpointLocation", "numRows", "truncate")}


def format_of(name: str) -> SinkFormat:
    """The format of that name, which may be written in any case."""
    return _BY_NAME.get(name.lower()) or SinkFormat(name)


def names_of(can: Callable[[SinkFormat], bool]) -> str:
    """The names of the formats that can do something, for messages: ``memory, console or noop``."""
    *names, last = [one.name for one in _DECLARED if can(one)]
    return f"{', '.join(names)} or {last}"
