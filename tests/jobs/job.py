"""A public job: its declaration, its input data, and the places that it reads from and writes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .store import Store

Row = dict[str, Any]
Mode = Literal["append", "update", "complete"]

#: Sinks that a test machine can read back; the job's own sink is used.
OWN_SINKS = ("foreachBatch", "foreach", "memory", "table", "parquet", "csv", "json", "orc", "text")
#: Sinks whose rows are collected by a function of the harness instead (listed on the page as replaced).
COLLECTED_SINKS = ("console", "cassandra", "delta", "eventhubs", "iceberg", "jdbc", "kafka", "mongodb", "noop")


@dataclass(frozen=True)
class Input:
    """Rows of one source.

    Args:
        schema: DDL of the columns, in the order in which the job sees them.
        rows: makes the rows, in event-time order; the random numbers are seeded by the job's name and the input's.
        end: a row far in the future that both sides read in a file of its own at the very end; None: what is open
            at the end of the input stays open, on both sides.
        format: of the files.
        options: of the files' reader.
    """

    schema: str
    rows: Callable[[Random], Sequence[Row]]
    end: Row | None = None
    format: Literal["json", "csv", "text"] = "json"
    options: Mapping[str, str] = field(default_factory=dict)


class Read(Protocol):
    """What a job is given besides the session; calling it is the one line that changes when a job moves."""

    store: Store

    def __call__(self, name: str) -> Any:
        """The rows of an input as a stream: ``spark.readStream…`` or ``mixedmode.read(…)``."""

    def static(self, name: str) -> DataFrame:
        """The rows of one of the job's tables, as a plain DataFrame."""

    def path(self, name: str) -> str:
        """An output folder of this run only."""


#: Returns the writer up to, and without, ``start()`` or ``toTable()``; a list of them for a job of several queries.
JobFunction = Callable[["SparkSession", Read], Any]


@dataclass(frozen=True)
class Output:
    """One query of a job, and how its results are compared.

    Args:
        mode: as the job's author writes it.
        sink: the format that the author writes, or ``foreachBatch``, ``foreach``, ``table``.
        keys: update mode: the columns that identify a result; the last value of each is compared.  Empty: one result.
            ``value.id``: the field ``id`` of the JSON text in column ``value``.
        holds: reads what a ``foreachBatch`` or ``foreach`` has written; None: the rows of ``read.store``.
        ordered: complete mode: the order of the last table's rows is compared, too.
        ignored: columns that depend on the clock (``current_timestamp()``) and are not compared.
        trigger: ``availableNow`` and ``once`` run as nightly runs, one over the history, one over the rest.
    """

    mode: Mode = "append"
    sink: str = "console"
    keys: tuple[str, ...] | None = None
    holds: Callable[[SparkSession, Read], Any] | None = None
    ordered: bool = False
    ignored: tuple[str, ...] = ()
    trigger: Literal["processingTime", "availableNow", "once"] = "processingTime"

    def __post_init__(self) -> None:
        if self.sink not in OWN_SINKS + COLLECTED_SINKS:
            raise ValueError(f"sink {self.sink!r} is unknown; allowed: {', '.join(OWN_SINKS + COLLECTED_SINKS)}")
        if (self.mode == "update") != (self.keys is not None):
            raise ValueError(f"keys={self.keys!r} in mode {self.mode!r}: they are given in update mode, and only there")


@dataclass(frozen=True)
class Job:
    """One public streaming query, written from what it does.

    Args:
        name: of its function; unique.
        facts: what it does, from the function's docstring.
        address: where it was found: repository and path, page, or question.
        commit: of the repository; empty where there is none (a page or a question).
        function: the job.
        inputs: by name, what ``read(name)`` gives.
        tables: by name, what ``read.static(name)`` gives.
        outputs: one for each query of the job.
        replaced: every source, sink and path that is not the author's.
        more_lines: what else had to change for ``moved``, a line each.
        moved: the job with those lines; it is run only if ``function`` is not the same.
        session: Spark options that the job's author sets on the session.
        timeouts: the job has timeouts of processing time, for which stock never ends; both sides are stopped when all
            rows are read and the sink holds so many results.
        listed: the list that the job was committed with before it was run.
    """

    name: str
    facts: str
    address: str
    commit: str
    function: JobFunction
    inputs: Mapping[str, Input]
    outputs: tuple[Output, ...]
    tables: Mapping[str, Input] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    more_lines: tuple[str, ...] = ()
    moved: JobFunction | None = None
    session: Mapping[str, str] = field(default_factory=dict)
    timeouts: int = 0
    listed: str = "first"


#: What Spark asks of each job with a StatefulProcessor.
ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


def public_job(
    jobs: list[Job],
    address: str,
    *,
    inputs: Mapping[str, Input],
    commit: str = "",
    outputs: Sequence[Output] | None = None,
    tables: Mapping[str, Input] | None = None,
    replaced: Sequence[str] = (),
    more_lines: Sequence[str] = (),
    moved: JobFunction | None = None,
    session: Mapping[str, str] | None = None,
    timeouts: int = 0,
    listed: str = "first",
    **output: Any,
) -> Callable[[JobFunction], JobFunction]:
    """Add the decorated function to ``jobs``.

    Args:
        jobs: the list of its file.
        address: see :class:`Job`, like all that are not named here.
        output: the fields of the only :class:`Output`; not together with ``outputs``.
    """
    if outputs is not None and output:
        raise ValueError(f"outputs are given, and {', '.join(output)}")

    def keep(function: JobFunction) -> JobFunction:
        name = function.__name__  # type: ignore[attr-defined]
        facts = " ".join((function.__doc__ or "").split())
        jobs.append(
            Job(
                name,
                facts,
                address,
                commit,
                function,
                inputs,
                tuple(outputs) if outputs is not None else (Output(**output),),
                tables or {},
                tuple(replaced),
                tuple(more_lines),
                moved,
                session or {},
                timeouts,
                listed,
            )
        )
        return function

    return keep


def ending(source: Input, row: Row) -> Input:
    """The input with a row at the end of event time."""
    return replace(source, end=row)
