"""The same job by stock Structured Streaming and by us, over the same micro-batches.

A job takes what gives the frame of a source, stock's or ours, and says what is written.  Ours runs live over the same
files, or has the first of them as history.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import support
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType
from session_options import session_options

SCHEMA = "key long, ts timestamp, value long"
#: A row of a source: its key, its event time in seconds, its value; of a source with a schema of its own its columns.
Given = tuple[Any, ...]
#: By source the rows of a micro-batch.
Batch = Mapping[str, Sequence[Given]]
Frames = Callable[[str], Any]
Job = Callable[[Frames], Any]
#: A stream throughout, as stock runs it: each file an epoch.
STREAM = {"execution.runtime-mode": "streaming"}
_OURS = {"pipeline.parallelism": 2}


class Change(Protocol):
    """What is another than before from a restart on."""

    @property
    def query(self) -> Job | None: ...

    @property
    def mode(self) -> str: ...

    @property
    def session(self) -> Mapping[str, str]: ...

    @property
    def inputs(self) -> Mapping[str, str]: ...

    @property
    def refused(self) -> str: ...


class TwoWays:
    """The sources of jobs, each micro-batch a file of each.

    Args:
        spark: the session.
        folder: for all of it.
        batches: what comes.
        schemas: of the sources whose rows are not those of SCHEMA, as DDL.
        restarts: the numbers of micro-batches before which the query ends and is started again, perhaps with changes.
        named: whether our live inputs are called as their sources are; else they have no name of their own.
        empty_files: whether a source that gets no row in a micro-batch gets an empty file; else it gets none.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        batches: Sequence[Batch],
        schemas: Mapping[str, str] | None = None,
        restarts: Sequence[int] | Mapping[int, Change] = (),
        *,
        named: bool = True,
        empty_files: bool = True,
    ) -> None:
        self.spark, self.folder, self._runs = spark, folder, 0
        self._ends, self._named = [*restarts, len(batches)], named
        self._changes: Mapping[int, Change] = restarts if isinstance(restarts, Mapping) else {}
        self._first_schemas: Mapping[str, str] = schemas or {}
        self._schemas = dict(self._first_schemas)
        #: What a run after a change was refused with.
        self.refusal: Exception | None = None
        self._sources = sorted({name for batch in batches for name in batch} | set(self._schemas))
        for name in self._sources:
            (folder / "all" / name).mkdir(parents=True)
            schema = self._schemas.get(name)
            for number, batch in enumerate(batches):
                if number in self._changes:
                    schema = self._changes[number].inputs.get(name, schema)
                path = self._file(name, number)
                if not (empty_files or batch.get(name)):
                    continue
                _write(path, batch.get(name, ()), schema)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def stock(self, job: Job, output_mode: str = "append") -> list[str]:
        """What Structured Streaming delivers of a job without a processor, sorted; in complete mode the last table."""
        with support.one_partition(self.spark):
            return _sorted(self._delivered(self.live, job, output_mode, {}))

    def ours(
        self, job: Job, output_mode: str = "append", *, history: int = 0, options: Mapping[str, Any] | None = None
    ) -> list[str]:
        """What we deliver of the same; ``history``: so many micro-batches are there before."""
        given = {**_OURS, **(options or {} if history else {**STREAM, **(options or {})})}
        return _sorted(self._delivered(lambda name: self.read(name, history), job, output_mode, given, history))

    def stock_rows(self, job: Job, output_mode: str = "append") -> list[Row]:
        """The rows that Structured Streaming delivers, in the order of writing."""
        with support.rocksdb_state_store(self.spark):
            return self._delivered(self.live, job, output_mode, {})

    def our_rows(self, job: Job, output_mode: str = "append", *, history: int = 0) -> list[Row]:
        """The rows that we deliver, in the order of writing.

        The history, if there is one, is a backlog of a run of its own; then each file is an epoch.
        """
        return self._delivered(
            lambda name: self.read(name, history), job, output_mode, {**_OURS, **STREAM}, history, _OURS
        )

    def live(self, name: str) -> DataFrame:
        """A source as Spark reads it."""
        schema = self._schemas.get(name, SCHEMA)
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self._landing(name)))

    def read(self, name: str, history: int = 0) -> Any:
        """A source as we read it; ``history``: so many micro-batches are."""
        live: Any = {name: self.live(name)} if self._named else self.live(name)
        if not history:
            return mixedmode.read(live=live)
        paths = [self._file(name, number) for number in range(history)]
        files = [str(path) for path in paths if path.exists()]
        schema = self._schemas.get(name, SCHEMA)
        read = self.spark.read.schema(schema)
        return mixedmode.read(history=read.parquet(*files) if files else self._nothing(schema), live=live)

    def _nothing(self, schema: str) -> DataFrame:
        return self.spark.createDataFrame([], schema)

    def _file(self, name: str, number: int) -> Path:
        return self.folder / "all" / name / f"{number:03d}.parquet"

    def _landing(self, name: str) -> Path:
        """The folder in which the files of a run land; before there is one, that of all files."""
        return self.folder / (f"run-{self._runs}" if self._runs else "all") / name

    def _delivered(
        self,
        read: Frames,
        job: Job,
        output_mode: str,
        options: Mapping[str, Any],
        first: int = 0,
        of_history: Mapping[str, Any] | None = None,
    ) -> list[Row]:
        """What a job writes of the files from a number on, in one run up to each restart.

        Args:
            read: gives the frame of a source.
            job: makes the frame that is written; after a restart it may be another one.
            output_mode: of the query.
            options: of each run.
            first: the number of the first file that lands.
            of_history: options of a run before all files land; None: there is none.
        """
        found: list[list[Row]] = []

        def take(rows: DataFrame, number: int) -> None:
            got = rows.collect()
            if output_mode == "complete":
                found.clear()
            found.append(got)

        self._runs += 1
        self._schemas, self.refusal = dict(self._first_schemas), None
        for name in self._sources:
            self._landing(name).mkdir(parents=True)
        runs = [
            (end, options, self._changes.get(begin))
            for begin, end in zip([-1, *self._ends[:-1]], self._ends, strict=True)
        ]
        if first and of_history is not None:
            runs.insert(0, (first, of_history, None))
        with ExitStack() as sessions:
            for end, given, change in runs:
                for name in self._sources:
                    for number in (one for one in range(first, end) if self._file(name, one).exists()):
                        os.link(self._file(name, number), self._landing(name) / f"{number:03d}.parquet")
                first = max(first, end)
                if change is not None:
                    job, output_mode = change.query or job, change.mode or output_mode
                    self._schemas.update(change.inputs)
                    sessions.enter_context(session_options(self.spark, change.session))
                try:
                    writer = job(read).writeStream.outputMode(output_mode).foreachBatch(take).options(**given)
                    checkpoints = str(self.folder / f"checkpoints-{self._runs}")
                    query = writer.option("checkpointLocation", checkpoints).trigger(availableNow=True).start()
                    query.awaitTermination(300)
                except Exception as error:
                    if change is None or not change.refused:
                        raise
                    self.refusal = error
                    break
                assert query.exception() is None
                self.progress = query.recentProgress
        return [row for rows in found for row in rows]


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(tuple(map(_plain, row))) for row in rows)


def _write(path: Path, rows: Sequence[Given], schema: str | None) -> None:
    if schema is None:
        start_us = round(support.START.timestamp() * 1_000_000)
        rows = [(key, None if at is None else start_us + round(at * 1_000_000), value) for key, at, value in rows]
    fields = StructType.fromDDL(schema or SCHEMA).fields
    arrow = pa.schema([(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in fields])
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(arrow)]
    pq.write_table(pa.Table.from_arrays(columns, schema=arrow), path)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if hasattr(value, "asDict") else value
