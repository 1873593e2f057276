"""Folders, data, processors and oracles that the end-to-end tests and the kill drivers share."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from intervals import VARIABLE as INTERVAL
from mixedmode.runtime.checkpoints.metadata import CheckpointMetadata
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.driver.checkpoint import housekeeping
from mixedmode.runtime.driver.epochs import epoch_runner
from mixedmode.state.store import state_manifest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from mixedmode import MixedQuery
    from mixedmode.planner.frames.frame import MixedFrame
    from pyspark.sql.streaming import StreamingQuery

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
GAP_S = 300
ROW_SCHEMA = "key string, ts timestamp, value long"
SESSION_SCHEMA = "key string, start timestamp, count long, total long"
CLOSED_SCHEMA = "key string, closed timestamp, count long, total long"
#: A row of this key pushes the watermark past everything; no result is expected of it.
FLUSH_KEY = "flush"
#: Variables of a driver's environment that its workers have too begin so.
WORKERS = ("MIXEDMODE_", "TEST_")
ARROW_SCHEMA = pa.schema(
    [pa.field("key", pa.string()), pa.field("ts", pa.timestamp("us", "UTC")), pa.field("value", pa.int64())]
)

#: (key, seconds since START, value)
Event = tuple[Any, Any, Any]
#: What stock Spark has made of events.
_STOCK_SESSIONS: dict[tuple[Event, ...], list[tuple[Any, ...]]] = {}


def at(seconds: float) -> datetime:
    """A moment of the tests' day, as PySpark hands it to Python (naive UTC)."""
    return (START + timedelta(seconds=seconds)).replace(tzinfo=None)


def at_ms(seconds: float) -> int:
    return round((START.timestamp() + seconds) * 1000)


def stream_of(rows: int, seed: int = 1, keys: int = 12, step_s: int = 40) -> list[Event]:
    """Events in order of time whose keys fall into sessions."""
    chance = random.Random(seed)
    now_s, events = 0, []
    for _ in range(rows):
        now_s += chance.randrange(step_s)
        events.append((f"k{chance.randrange(keys)}", now_s, chance.randrange(100)))
    return events


def driver_session(master: str = "local[2]", settings: dict[str, str] | None = None) -> SparkSession:
    """The session of a driver script, which is a process of its own; called before anything else of Spark is."""
    os.environ["TZ"] = "UTC"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    builder = SparkSession.builder.master(master)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": "",  # a JVM that was started with some has them: no need to bring them to executors
        # As in the tests' own session: a query without rows looks for some less often.
        "spark.sql.streaming.pollingDelay": os.environ.get("MIXEDMODE_POLLING_DELAY", "25ms"),
    }
    # The JVM may be older than this process: its own environment is not what the workers are to have.
    workers = {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith(WORKERS)}
    interval = os.environ.get(INTERVAL)
    by_default = {} if interval is None else {"spark.mixedmode.execution.checkpointing.interval": interval}
    for name, value in {**common, **by_default, **workers, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def by_value(module: str) -> None:
    """Have a test module travel with what is pickled of it: Spark's workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(sys.modules[module])


def compact_eagerly() -> None:
    """Have small states compacted, too, and old files removed behind each checkpoint, by the jobs of this process."""
    state_manifest._FULL_MIN_BYTES, state_manifest._LOGS_MAX = 0, 2
    housekeeping.CLEAN_EVERY_MS = housekeeping.KEEP_MS = 0


def rocksdb_state_store(spark: SparkSession) -> AbstractContextManager[None]:
    """Stock queries that are started in here can run a processor; in one partition, each of which costs seconds."""
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return _options(
        spark, {"spark.sql.streaming.stateStore.providerClass": provider, "spark.sql.shuffle.partitions": "1"}
    )


def one_partition(spark: SparkSession) -> AbstractContextManager[None]:
    """The same for stock queries without a processor: Spark's other state store takes less."""
    return _options(spark, {"spark.sql.shuffle.partitions": "1"})


@contextmanager
def _options(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


#: Micro-batches with rows out of order, rows that are late, null keys, quiet keys, and a flush.
OUT_OF_ORDER: list[list[Event]] = [
    [("a", 1000, 1), ("b", 1010, 2), ("a", 950, 3), (None, 1001, 4)],
    [("a", 1200, 4), ("b", 905, 5), ("c", 911, 6), (None, 1100, 9)],  # the watermark is 910: b is late, c is not
    [("c", 1101, 7), ("a", 1099, 1), ("b", 1650, 8)],  # the watermark is 1100: a is late
    [("d", 1549, 9), ("d", 1551, 10), ("a", 2600, 11), (None, 1990, 12)],
    [("e", 2700, 12)],
    [(FLUSH_KEY, 10_000, 0)],
]


class World:
    """The folders of one job: history, landing zone of the live source, output, checkpoints."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.out = folder / "out"
        self.checkpoints = folder / "checkpoints"
        self.landing = folder / "landing"
        self.landing.mkdir(parents=True, exist_ok=True)
        self._landed = len(list(self.landing.iterdir()))
        self.queries: list[MixedQuery] = []

    def history(self, events: Sequence[Event] | None = None) -> DataFrame:
        """The events as a bounded table; None: those that it has."""
        path = self.folder / "history.parquet"
        if events is not None:
            write(path, events)
        return self.spark.read.schema(ROW_SCHEMA).parquet(str(path))

    def land(self, *batches: Sequence[Event]) -> None:
        """One new file per batch appears in the landing zone, each younger than all before it."""
        self.land_tables(*map(table, batches))

    def land_tables(self, *tables: pa.Table) -> None:
        """The same of rows whose types a test has chosen."""
        for rows in tables:
            hidden = self.landing / f".{self._landed:05d}.parquet"
            pq.write_table(rows, hidden)
            # Spark takes files in the order of their times, in milliseconds; a small one is written in less.
            youngest_ns = max((path.stat().st_mtime_ns for path in self.landing.glob("[!.]*.parquet")), default=0)
            written_ns = max(hidden.stat().st_mtime_ns, youngest_ns + 1_000_000)
            os.utime(hidden, ns=(written_ns, written_ns))
            hidden.rename(self.landing / f"{self._landed:05d}.parquet")
            self._landed += 1

    def feed(self, query: MixedQuery | StreamingQuery, *batches: Sequence[Event]) -> None:
        """The query processes one batch after the other."""
        for batch in batches:
            self.land(batch)
            query.processAllAvailable()

    def live(self, **options: str) -> DataFrame:
        """The landing zone as a stream."""
        return self.spark.readStream.schema(ROW_SCHEMA).options(**options).parquet(str(self.landing))

    def read(self, events: Sequence[Event] | None = None, *, live: bool = True) -> MixedFrame:
        """A job's rows: the events as its history, if there are any, and the landing zone as its live source."""
        history = None if events is None else self.history(events)
        return mixedmode.read(history=history, live=self.live() if live else None)

    def start(self, keyed: Any, options: dict[str, Any] | None = None, **trigger: Any) -> MixedQuery:
        """Start a described job with this world's output and checkpoints."""
        writer = keyed.writeStream.option("path", str(self.out)).option("checkpointLocation", str(self.checkpoints))
        for name, value in {"pipeline.parallelism": 2, **(options or {})}.items():
            writer = writer if value is None else writer.option(name, value)
        query: MixedQuery = (writer.trigger(**trigger) if trigger else writer).start()
        self.queries.append(query)
        return query

    def output(self) -> list[tuple[Any, ...]]:
        """All rows that a reader of the output folder sees, sorted."""
        return committed(self.out)

    def results(self) -> list[tuple[Any, ...]]:
        """The same without that of the flush."""
        return without_flush(self.output())

    def expected(self, events: Sequence[Event]) -> list[tuple[Any, ...]]:
        """The sessions of these events, as stock Spark finds them."""
        return expected_sessions(self.spark, events)

    def stop_all(self) -> None:
        for query in self.queries:
            query.stop()


def live(query: MixedQuery) -> MixedQuery:
    """The query, once it is live."""
    assert query.wait_for("live", 300), query.exception()
    return query


def finish(query: MixedQuery | StreamingQuery) -> None:
    """Has the query process all that is there, and end without an error."""
    query.processAllAvailable()
    stop(query)


def stop(query: MixedQuery | StreamingQuery) -> None:
    """Has the query end without an error."""
    query.stop()
    assert query.exception() is None, query.exception()


def one_life(world: World, keyed: Any, options: dict[str, Any], *parts: Sequence[Event]) -> MixedQuery:
    """One life of a job: to the live phase, then some files, then stop."""
    query = live(world.start(keyed, options))
    world.feed(query, *parts)
    finish(query)
    return query


def latest(world: World) -> CheckpointMetadata:
    """The newest checkpoint of a job."""
    metadata = CheckpointStore(fs.LocalFileSystem(), str(world.checkpoints)).latest()
    assert metadata is not None
    return metadata


def wait_until(true: Callable[[], bool], seconds: float = 300) -> None:
    """Return when something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def wait_beside(query: MixedQuery, true: Callable[[], object], seconds: float = 300) -> None:
    """Return when something is true that the query does by itself; it may not end meanwhile."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, query.lifecycle
        assert query.awaitTermination(0.02) is False


def in_flight(query: MixedQuery) -> bool:
    """Whether a checkpoint of a query that runs is on its way now."""
    assert query.isActive, query.exception()
    return query._runner.running.checkpoints.in_flight is not None  # type: ignore[union-attr]


def is_at_rest(query: MixedQuery) -> bool:
    """Nothing is done beside epochs: no checkpoint is completed, no state compacted, no file removed."""
    with query._runner.context.turn:
        checkpoints = query._runner.running.checkpoints  # type: ignore[union-attr]
        one = checkpoints.housekeeping._round
        return checkpoints.in_flight is None and (one is None or one.at_rest.is_set())


@contextmanager
def at_failpoints(world: World, act: Callable[[str, MixedQuery], None]) -> Iterator[None]:
    """The query that is started in here calls a function at each failpoint of its epochs."""
    before = len(world.queries)

    def reached(name: str) -> None:
        wait_until(lambda: len(world.queries) > before)  # start() may be about to return it
        act(name, world.queries[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epoch_runner, "failpoint", reached)
        yield


def stop_in_background(query: MixedQuery, place: Path, **how: bool) -> Future[str]:
    """The answer to stopWithSavepoint() in another thread, which the run knows of when this returns."""
    pool = ThreadPoolExecutor(1)
    asked = pool.submit(query.stopWithSavepoint, str(place), **how)
    pool.shutdown(wait=False)
    while query._runner.context.savepoints.is_empty:
        assert not asked.done(), asked.exception()
    return asked


def refusal(start: Callable[[], MixedQuery]) -> mixedmode.MixedModeError:
    """What a start() raises that must not give a query."""
    with pytest.raises(mixedmode.MixedModeError) as caught:
        start()
    assert not isinstance(caught.value, mixedmode.QueryError)
    return caught.value


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows of a frame, sorted."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def write(path: Path, events: Sequence[Event]) -> None:
    pq.write_table(table(events), path)


def write_inputs(folder: Path, history: Sequence[Event], landed: Sequence[Event], *pending: Sequence[Event]) -> None:
    """The inputs of a driver's job: its history, the file that has landed, and those that it lands itself, in turn."""
    for name in ("landing", "pending"):
        (folder / name).mkdir(parents=True)
    first = folder / "landing" / "00.parquet"
    write(folder / "history.parquet", history)
    write(first, landed)
    for number, events in enumerate(pending, start=1):
        path = folder / "pending" / f"{number:02d}.parquet"
        write(path, events)
        # Spark takes files in the order of their times, in milliseconds; a small one is written in less.
        os.utime(path, ns=(first.stat().st_mtime_ns + number * 10_000_000,) * 2)


def parts_of(events: Sequence[Event], count: int) -> list[Sequence[Event]]:
    """Events in so many parts, of which only the last may have fewer."""
    rows = -(-len(events) // count)
    return [events[start : start + rows] for start in range(0, len(events), rows)]


def table(events: Sequence[Event]) -> pa.Table:
    """Events as rows."""
    rows = [
        (key, None if seconds is None else START + timedelta(seconds=seconds), value) for key, seconds, value in events
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


def committed(out: Path) -> list[tuple[Any, ...]]:
    """Rows of the visible files of an output folder, sorted; times without their zone."""
    rows: list[tuple[Any, ...]] = []
    for path in sorted(out.glob("*.parquet")) if out.exists() else []:
        if not path.name.startswith(("_", ".")):
            table = pq.read_table(path)
            rows.extend(zip(*[map(_naive, table.column(name).to_pylist()) for name in table.column_names], strict=True))
    return sorted(rows, key=repr)


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def sessions(history: DataFrame | None, live: DataFrame | None, delay: str = "0 seconds", **more: Any) -> Any:
    """The main test job: sessions per key, closed by an event-time timer."""
    return (
        mixedmode.read(history=history, live=live)
        .withWatermark("ts", delay)
        .groupBy("key")
        .transformWithState(Sessions(), SESSION_SCHEMA, "append", "eventTime", **more)
    )


def means(history: DataFrame | None, live: DataFrame | None) -> Any:
    """A job whose output Spark computes of its aggregates, and filters: the mean value of each key and five minutes."""
    return (
        mixedmode.read(history=history, live=live)
        .withWatermark("ts", "0 seconds")
        .groupBy("key", F.window("ts", f"{GAP_S} seconds"))
        .agg((F.sum("value") / F.count("*")).alias("mean"))
        .where("mean IS NOT NULL")
    )


def means_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The means that are expected: (key, window, mean), sorted."""
    values: dict[tuple[Any, int], list[int]] = {}
    for key, seconds, value in events:
        values.setdefault((key, seconds // GAP_S), []).append(value)
    rows = []
    for (key, nth), some in values.items():
        start, end = (START + timedelta(seconds=GAP_S * (nth + more)) for more in (0, 1))
        rows.append((key, {"start": start, "end": end}, sum(some) / len(some)))
    return sorted(rows, key=repr)


def expected_sessions(spark: SparkSession, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The same by stock Spark: a batch aggregate over session windows, once in a process for the same events."""
    if (given := tuple(events)) not in _STOCK_SESSIONS:
        frame = spark.createDataFrame([(key, at(seconds), value) for key, seconds, value in events], ROW_SCHEMA)
        window = F.session_window("ts", f"{GAP_S} seconds")
        rows = frame.groupBy("key", window).agg(F.count("*").alias("count"), F.sum("value").alias("total"))
        found = rows.select("key", "session_window.start", "count", "total").collect()
        _STOCK_SESSIONS[given] = sorted((tuple(row) for row in found if row.key != FLUSH_KEY), key=repr)
    return [*_STOCK_SESSIONS[given]]


class Sessions(StatefulProcessor):
    """Counts and sums the events of a session; a quiet period of GAP_S closes it.

    Closes by the next row or by a timer, whichever comes first, so the result does not depend on how in-order input
    is cut into micro-batches.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "start long, last long, count long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        gap_ms = GAP_S * 1000
        start, last, count, total = self._open.get() or (0, 0, 0, 0)
        if count:
            self._handle.deleteTimer(last + gap_ms + 1)
        for row in rows:
            ts_ms = round(row.ts.replace(tzinfo=timezone.utc).timestamp() * 1000)
            if count and ts_ms > last + gap_ms:  # as session_window: a row at the very end still belongs
                yield self._closed(key, start, last + gap_ms + 1, count, total)
                count = total = 0
            if not count:
                start = ts_ms
            last, count, total = ts_ms, count + 1, total + row.value
        self._open.update((start, last, count, total))
        self._handle.registerTimer(last + gap_ms + 1)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        start, last, count, total = self._open.get()
        self._open.clear()
        yield self._closed(key, start, last + GAP_S * 1000 + 1, count, total)

    @staticmethod
    def _closed(key: Any, start_ms: int, closed_ms: int, count: int, total: int) -> tuple[Any, ...]:
        return (key[0], _moment(start_ms), count, total)


class ClosedSessions(Sessions):
    """The same, told when they close: event time goes on behind it."""

    @staticmethod
    def _closed(key: Any, start_ms: int, closed_ms: int, count: int, total: int) -> tuple[Any, ...]:
        return (key[0], _moment(closed_ms), count, total)


class Counts(StatefulProcessor):
    """Yields a key, whenever it has rows, with their number and their sum so far."""

    def init(self, handle: Any) -> None:
        self._seen = handle.getValueState("seen", "rows long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        number, total = self._seen.get() or (0, 0)
        for row in rows:
            number, total = number + 1, total + row.value
        self._seen.update((number, total))
        yield (key[0], number, total)


def counts(live: DataFrame, history: DataFrame | None = None) -> Any:
    """A job in update mode whose epochs give the keys that they have rows of, each once."""
    keyed = mixedmode.read(history=history, live=live).groupBy("key")
    return keyed.transformWithState(Counts(), "key string, rows long, total long", "update", "None").uid("counts")


def old_location(world: World) -> None:
    """Have a world's checkpoint location be what an older version has left of :func:`counts`: tests/data/location-3."""
    shutil.copytree(Path(__file__).parents[1] / "data" / "location-3", world.checkpoints)
    world.land(*map(counted, range(7)))
    for entry in (world.checkpoints / "spark" / "sources" / "0").iterdir():
        entry.write_text(entry.read_text().replace("file:///tmp/location-3/landing", world.landing.as_uri()))


def counted(number: int, keys: int = 9) -> list[Event]:
    """The rows of the micro-batch with a number, one of each key; the job before it has seen all with lower numbers."""
    return [(f"k{key}", 100 * number + key, 10 * number + key) for key in range(keys)]


def counts_after(*numbers: int, keys: int = 9) -> list[tuple[Any, ...]]:
    """What :func:`counts` gives in an epoch over the last of these micro-batches, when it has seen the others."""
    return [(f"k{key}", len(numbers), sum(10 * number + key for number in numbers)) for key in range(keys)]


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).replace(tzinfo=None)


def hours(
    history: DataFrame | None, live: DataFrame | None, between: Callable[[Any], Any] = lambda closed: closed
) -> Any:
    """A job of two stages: sessions that close, and how many of each hour, with their rows; more may be between."""
    closed = (
        mixedmode.read(history=history, live=live)
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .transformWithState(ClosedSessions(), CLOSED_SCHEMA, "append", "eventTime", eventTimeColumnName="closed")
        .uid("sessions")
    )
    hour = F.window("closed", "1 hour")
    counted = (
        between(closed.where("count > 0"))
        .groupBy(hour)
        .agg(F.count("*").alias("sessions"), F.sum("count").alias("rows"))
    )
    return counted.uid("hours")


def busy_hours(history: DataFrame | None, live: DataFrame | None) -> Any:
    """The same, and Spark computes something of the second stage's rows, too."""
    return hours(history, live).where("rows > 0")


def shifts(history: DataFrame | None, live: DataFrame | None) -> Any:
    """The same with static tables that Spark does not broadcast: between the stages, and behind the last one."""
    spark = mixedmode.read(history=history, live=live).sparkSession
    twice = spark.range(24).selectExpr("concat('k', id % 12) AS key", "id").hint("merge")
    shift = spark.range(24).selectExpr("cast(id AS int) AS hour", "id % 3 AS shift").hint("merge")
    counted = hours(history, live, lambda closed: closed.join(twice, "key"))
    return counted.withColumn("hour", F.hour("window.start")).join(shift, "hour").drop("hour")


def shifts_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What :func:`shifts` gives: (window, sessions, rows, shift), sorted."""
    return [(window, 2 * sessions, 2 * rows, window["start"].hour % 3) for window, sessions, rows in hours_of(events)]


def hours_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What :func:`hours` gives: (window, sessions, rows), sorted."""
    by_key: dict[str, list[int]] = {}
    for key, seconds, _ in sorted(events, key=lambda event: event[1]):
        by_key.setdefault(key, []).append(seconds)
    counted: dict[int, list[int]] = {}
    for times in by_key.values():
        size = 0
        for here, following in zip(times, [*times[1:], None], strict=True):
            size += 1
            if following is None or following > here + GAP_S:
                of_hour = counted.setdefault((here + GAP_S) // 3600, [0, 0])
                of_hour[0], of_hour[1], size = of_hour[0] + 1, of_hour[1] + size, 0
    windows = {hour: [START + timedelta(hours=hour + more) for more in (0, 1)] for hour in counted}
    rows = [({"start": windows[hour][0], "end": windows[hour][1]}, *counted[hour]) for hour in counted]
    return sorted(rows, key=repr)


def unique(history: DataFrame | None, live: DataFrame | None) -> Any:
    """A job that remembers every pair of key and value."""
    return mixedmode.read(history=history, live=live).dropDuplicates(["key", "value"])


def unique_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What it puts out of events in order of time."""
    first: dict[tuple[Any, Any], Event] = {}
    for event in events:
        first.setdefault((event[0], event[2]), event)
    return sorted(((key, at(seconds), value) for key, seconds, value in first.values()), key=repr)


def events_of(query: MixedQuery) -> list[str]:
    """Names of what happened in a run, in order."""
    return [event.event for event in query.lifecycle]


def details(query: MixedQuery, event: str) -> list[str]:
    """Details of all lifecycle events of one kind."""
    return [found.detail for found in query.lifecycle if found.event == event]


def flush_after(events: Iterable[Event]) -> list[Event]:
    """A row that closes every session of the events."""
    return [(FLUSH_KEY, max(event[1] for event in events) + 100 * GAP_S, 0)]


def without_flush(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] != FLUSH_KEY]


def sessions_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The expected sessions without Spark, for tests that must not start a session of their own."""
    by_key: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda event: event[1]):
        by_key.setdefault(event[0], []).append(event)
    found = []
    for key, ordered in by_key.items():
        start, last, count, total = ordered[0][1], ordered[0][1], 0, 0
        for _, seconds, value in ordered:
            if seconds > last + GAP_S:
                found.append((key, at(start), count, total))
                start, count, total = seconds, 0, 0
            last, count, total = seconds, count + 1, total + value
        found.append((key, at(start), count, total))
    return sorted(found, key=repr)
