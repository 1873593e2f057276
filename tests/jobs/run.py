"""One run of a job, by stock Structured Streaming or by mixedmode; the job's function is the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any

import mixedmode
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from session_options import session_options

from . import files
from .job import COLLECTED_SINKS, Job, JobFunction, Output
from .results import Results, first_line, results
from .store import Store

#: Options of ours that are set: it changes how soon results come, never which.
OURS = {"pipeline.parallelism": 2}
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
#: Options of the session in both: few tasks, and times as the stored results have them.
SESSION = {SHUFFLE_PARTITIONS: "2", "spark.sql.session.timeZone": "UTC"}
#: A run that is not over by then has failed.
_PATIENCE_S = 120
#: A result that is not there when all input is processed may come so much later (a checkpoint, an idle epoch).
_GRACE_S = 8
#: The same for a job that waits for timeouts.
_TIMEOUTS_S = 30
#: Collected sinks that write to a path.
_LAKE_SINKS = ("delta", "iceberg")
#: The address of Kafka's brokers is this place's, as paths are.
_BROKERS = "localhost:9092"
#: An error that says no more than that this installation lacks the sink's jars.
_LACKS_JARS, _LACKS_PACKAGE = "Failed to find the data source", "MIXEDMODE_CONNECTOR_MISSING"
_FILE_SINKS = ("parquet", "csv", "json", "orc", "text")
#: Spark's errors for a folder that no sink has written to yet.
_NOTHING_WRITTEN = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_numbers = count()


class Refused(Exception):
    """mixedmode did not take the job: an error before or at ``start()``."""


class Failed(Exception):
    """A query ended with an error, or did not end."""


@dataclass
class Place:
    """What a job is given in one run: see ``Read`` in job.py."""

    spark: SparkSession
    job: Job
    root: Path
    stream: Callable[[str], Any]
    store: Store = field(default_factory=Store)

    def __call__(self, name: str) -> Any:
        return self.stream(name)

    def static(self, name: str) -> DataFrame:
        source, folder = self.job.tables[name], self.root / "tables" / name
        if not folder.exists():
            files.write(source, files.rows_of(self.job, name), folder / f"0.{source.format}")
        return files.read_all(self.spark, source, folder)

    def path(self, name: str) -> str:
        folder = self.root / "out" / name
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


@dataclass
class Sink:
    """One query's sink in one run: where it writes, and how that is read back."""

    place: Place
    output: Output
    name: str = field(default_factory=lambda: f"job_{next(_numbers)}")
    calls: list[tuple[list[str], list[Row]]] = field(default_factory=list)

    def writer(self, writer: Any) -> Any:
        """The author's writer with its sink in this run's folders."""
        sink = self.output.sink
        if sink in COLLECTED_SINKS:
            writer = writer.foreachBatch(self._collect)
        elif sink == "memory":
            writer = writer.queryName(self.name)
        elif sink in _FILE_SINKS:
            writer = writer.option("path", self.place.path(self.name))
        return writer.option("checkpointLocation", str(self.place.root / "checkpoints" / self.name))

    def start(self, writer: Any) -> Any:
        return writer.toTable(self.name) if self.output.sink == "table" else writer.start()

    def read(self) -> Results:
        """What the sink holds now."""
        return results(self.output, *self._rows())

    def clear(self) -> None:
        if self.output.sink == "table":
            self.place.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        elif self.output.sink == "memory":
            self.place.spark.catalog.dropTempView(self.name)

    def _rows(self) -> tuple[list[str], list[Any]]:
        spark, output = self.place.spark, self.output
        if output.holds is not None:
            try:
                held = output.holds(spark, self.place)
            except AnalysisException as error:
                if error.getCondition() not in _NOTHING_WRITTEN:
                    raise
                return [], []
            return (held.columns, held.collect()) if hasattr(held, "collect") else (["line"], [(row,) for row in held])
        if output.sink in COLLECTED_SINKS:
            calls = list(self.calls)
            columns = calls[-1][0] if calls else []
            kept = calls[-1:] if output.mode == "complete" else calls
            return columns, [row for _, rows in kept for row in rows]
        if output.sink in ("foreachBatch", "foreach"):
            return list(self.place.store.columns), list(self.place.store.rows)
        if output.sink in ("memory", "table"):
            if not spark.catalog.tableExists(self.name):
                return [], []
            frame = spark.table(self.name)
        else:
            frame = _files_of(spark, output.sink, Path(self.place.path(self.name)))
        return (frame.columns, frame.collect()) if frame is not None else ([], [])

    def _collect(self, rows: DataFrame, number: int) -> None:
        self.calls.append((rows.columns, rows.collect()))


def run_stock(
    spark: SparkSession,
    job: Job,
    root: Path,
    files_per_batch: int = 1,
    count: int = files.FILES,
    partitions: int | None = None,
) -> list[Results]:
    """The results of stock Structured Streaming over all files, in event-time order.

    Args:
        spark: the session.
        job: what to run.
        root: an empty folder of this run.
        files_per_batch: how many files are a micro-batch.
        count: how many files there are, without the one at the end.
        partitions: how many Spark shuffles into; None: as in all other runs.

    Raises:
        Failed: if a query fails: the job is not written as stock Spark takes it.
    """
    _write_inputs(job, root / "in", slice(None), count)

    def stream(name: str) -> DataFrame:
        return files.read_stream(spark, job.inputs[name], root / "in" / name, files_per_batch)

    place = Place(spark, job, root, stream)
    sinks = [Sink(place, output) for output in job.outputs]
    shuffle = {} if partitions is None else {SHUFFLE_PARTITIONS: str(partitions)}
    with session_options(spark, SESSION, job.session, shuffle):
        queries: list[Any] = []
        try:
            for sink, writer in zip(sinks, _writers(place, job.function), strict=True):
                trigger = {"processingTime": "0 seconds"} if job.timeouts else {"availableNow": True}
                queries.append(sink.start(sink.writer(writer).trigger(**trigger)))
            for query, sink in zip(queries, sinks, strict=True):
                patience_s = _PATIENCE_S * max(1, count // files.FILES)
                if not (_all_read(query, sink) if job.timeouts else query.awaitTermination(patience_s)):
                    raise Failed(f"{job.name}: stock has not ended after {patience_s} s")
        finally:
            for query in queries:
                query.stop()
        found = [sink.read() for sink in sinks]
        for sink in sinks:
            sink.clear()
    return found


def _all_read(query: Any, sink: Sink) -> bool:
    """Wait until a query without end has read all rows, and has written as many as the job expects."""
    job, read, deadline = sink.place.job, {}, time.monotonic() + _PATIENCE_S
    rows = sum(len(part) for name in job.inputs for part in files.parts_of(job, name))
    while time.monotonic() < deadline and query.isActive:
        read |= {progress.batchId: progress.numInputRows for progress in query.recentProgress}
        if sum(read.values()) >= rows and len(sink.read().rows) >= job.timeouts:
            return True
        time.sleep(0.2)
    return False


def run_ours(
    spark: SparkSession, job: Job, function: JobFunction, root: Path, expected: list[Results]
) -> list[Results]:
    """The results of mixedmode: the first files are history, the others arrive when it is done.

    Args:
        spark: the session.
        job: what to run.
        function: of the job, or what it is with more lines.
        root: an empty folder of this run.
        expected: by stock; when all input is processed, a different result gets some seconds more to become this one.

    Raises:
        Refused: there was an error before the queries ran.
        Failed: a query failed, or did not end.
    """
    _write_inputs(job, root / "history", slice(files.OF_HISTORY))
    for name in job.inputs:
        (root / "live" / name).mkdir(parents=True)

    def stream(name: str) -> Any:
        source = job.inputs[name]
        return mixedmode.read(
            history=files.read_all(spark, source, root / "history" / name),
            live=files.read_stream(spark, source, root / "live" / name, 1),
        )

    place = Place(spark, job, root, stream)
    sinks = [Sink(place, output) for output in job.outputs]
    nightly = any(output.trigger != "processingTime" for output in job.outputs)
    with session_options(spark, SESSION, job.session):
        if nightly:  # the first night there is only the history
            _one_run(place, function, sinks, lambda: None, nightly, None)
        found = _one_run(place, function, sinks, lambda: _arrive(job, root), nightly, expected)
        for sink in sinks:
            sink.clear()
    return found


def _one_run(
    place: Place,
    function: JobFunction,
    sinks: list[Sink],
    arrive: Callable[[], None],
    nightly: bool,
    expected: list[Results] | None,
) -> list[Results]:
    """Start the job's queries, let the live files arrive, wait until they are processed, and stop."""
    queries: list[Any] = []
    watchdog = Timer(_PATIENCE_S, lambda: [query.stop() for query in queries])
    watchdog.start()
    try:
        if nightly:
            arrive()
        _start(place, function, sinks, nightly, queries)
        if nightly:
            for query in queries:
                query.awaitTermination()
        else:
            for query in queries:
                if not query.wait_for("live", _PATIENCE_S):
                    query.awaitTermination()  # raises what has ended it
                    raise Failed(f"not live after {_PATIENCE_S} s")
            arrive()
            for query in queries:
                query.processAllAvailable()
        found = _settled(sinks, expected)
        if not watchdog.is_alive():
            raise Failed(f"not done after {_PATIENCE_S} s")
        return found
    except Refused:
        raise
    except Exception as error:
        raise Failed(first_line(error)) from error
    finally:
        watchdog.cancel()
        for query in queries:
            query.stop()


def _start(place: Place, function: JobFunction, sinks: list[Sink], nightly: bool, queries: list[Any]) -> None:
    """Start the job's queries by what may be refused.

    Raises:
        Refused: with the error's class and first line.
    """
    trigger = {"availableNow": True} if nightly else {"processingTime": "0 seconds"}
    try:
        for sink, writer in zip(sinks, _writers(place, function), strict=True):
            if sink.output.sink in COLLECTED_SINKS:
                _plan(place, sink, writer)
            queries.append(sink.start(sink.writer(writer).trigger(**trigger).options(**OURS)))
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {first_line(error)}") from error


def _plan(place: Place, sink: Sink, writer: Any) -> None:
    """Have the query planned with the sink that its author wrote, although it is replaced.

    Raises:
        mixedmode.MixedModeError: if the query is refused with that sink.
    """
    planned = f"{sink.name}-planned"
    if sink.output.sink in _LAKE_SINKS:
        writer = writer.option("path", place.path(planned))
    if sink.output.sink == "kafka":
        writer = writer.option("kafka.bootstrap.servers", _BROKERS)
    try:
        writer.option("checkpointLocation", str(place.root / "checkpoints" / planned)).plan()
    except (mixedmode.OptionError, mixedmode.SetupError) as error:
        if error.code != _LACKS_PACKAGE and _LACKS_JARS not in str(error):
            raise


def _settled(sinks: list[Sink], expected: list[Results] | None) -> list[Results]:
    """What the sinks hold, as soon as it is what is expected, or no later than the grace allows."""
    deadline = time.monotonic() + (_TIMEOUTS_S if sinks[0].place.job.timeouts else _GRACE_S)
    while True:
        found = [sink.read() for sink in sinks]
        if expected is None or not _differ(expected, found) or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _differ(expected: list[Results], found: list[Results]) -> bool:
    return any(one.difference(other, "", "") for one, other in zip(expected, found, strict=True))


def _writers(place: Place, function: JobFunction) -> list[Any]:
    made = function(place.spark, place)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _write_inputs(job: Job, root: Path, numbers: slice, count: int = files.FILES) -> None:
    """Write some of the files of each input; one row at the end comes with the last."""
    for name, source in job.inputs.items():
        for number, rows in list(enumerate(files.parts_of(job, name, count)))[numbers]:
            files.write(source, rows, root / name / f"{number:03}.{source.format}", number)


def _arrive(job: Job, root: Path) -> None:
    _write_inputs(job, root / "live", slice(files.OF_HISTORY, None))


def _files_of(spark: SparkSession, kind: str, folder: Path) -> DataFrame | None:
    """What a file sink has written; None: nothing."""
    if not any(found.suffix == f".{kind}" or f".{kind}" in found.name for found in folder.rglob("part-*")):
        return None
    return spark.read.format(kind).load(str(folder))
