"""The state reader: what a checkpoint holds, found from outside, is what the job's own logic left there."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import CheckpointError, CorruptStateError, StateReader, UnknownStateError
from mixedmode.planner.cli.app import app
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import START, World
from typer.testing import CliRunner

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(160, seed=11)
HISTORY, LIVE = EVENTS[:120], EVENTS[120:]


class Ledger(StatefulProcessor):
    """One variable of each kind and a timer per key; keeps everything."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sums = handle.getValueState("sums", "count long, total long, last timestamp")
        self._seen = handle.getListState("seen", "value long")
        self._by_value = handle.getMapState("by_value", "value long", "times long, note string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        count, total, last = self._sums.get() or (0, 0, None)
        for row in rows:
            count, total, last = count + 1, total + row.value, row.ts
            self._seen.appendValue((row.value,))
            times = (self._by_value.getValue((row.value,)) or (0,))[0]
            self._by_value.updateValue((row.value,), (times + 1, f"{key[0]}/{row.value}"))
        for ts_ms in self._handle.listTimers():
            self._handle.deleteTimer(ts_ms)
        self._handle.registerTimer(support.at_ms(10_000_000 + count))
        self._sums.update((count, total, last))
        yield (key[0],)


def ledger(world: World) -> Any:
    keyed = world.read(HISTORY).withWatermark("ts", "0 seconds")
    return keyed.groupBy("key").transformWithState(Ledger(), "key string", "append", "eventTime")


def lived(world: World, keyed: Any, *parts: list[support.Event], options: dict[str, Any] | None = None) -> None:
    """One life of a job: backlog, some files, stop."""
    support.one_life(world, keyed, {**OBSERVED, **(options or {})}, *parts)


@pytest.fixture(scope="module")
def reader(worlds: Callable[[], World], spark: SparkSession) -> StateReader:
    """A ledger of all events, half of its state from the backlog and half from the stream."""
    world = worlds()
    lived(world, ledger(world), LIVE)
    return mixedmode.state_reader(str(world.checkpoints), spark)


def by_key(events: list[support.Event]) -> dict[str, list[support.Event]]:
    found: dict[str, list[support.Event]] = defaultdict(list)
    for event in events:
        found[event[0]].append(event)
    return found


def test_value_state(reader: StateReader) -> None:
    """A value state is one row per key: key columns, a struct, the shard; state of backlog and stream together."""
    frame = reader.state("sums")
    assert frame.columns == ["key", "value", "partition_id"]
    found = {row.key.key: tuple(row.value) for row in frame.collect()}
    assert found == {
        key: (len(events), sum(event[2] for event in events), support.at(events[-1][1]))
        for key, events in by_key(EVENTS).items()
    }
    assert {row.partition_id for row in frame.collect()} == {0, 1}


def test_list_and_map_state(reader: StateReader) -> None:
    """A list state is a row per element with its position, a map state a row per entry."""
    elements = reader.state("seen").orderBy("key", "position").collect()
    found: dict[str, list[int]] = defaultdict(list)
    for row in elements:
        assert row.position == len(found[row.key.key])
        found[row.key.key].append(row.list_element.value)
    assert found == {key: [event[2] for event in events] for key, events in by_key(EVENTS).items()}
    entries = reader.state("by_value").select("key.key", "user_map_key.value", "user_map_value.*").collect()
    times: dict[tuple[str, int], int] = defaultdict(int)
    for key, _, value in EVENTS:
        times[key, value] += 1
    assert {(row.key, row.value): (row.times, row.note) for row in entries} == {
        (key, value): (count, f"{key}/{value}") for (key, value), count in times.items()
    }


def test_timers(reader: StateReader) -> None:
    """Every pending timer is a row with its kind and time."""
    rows = reader.timers().collect()
    assert {(row.key.key, row.timer_kind, row.expiration_timestamp_ms) for row in rows} == {
        (key, "event", support.at_ms(10_000_000 + len(events))) for key, events in by_key(EVENTS).items()
    }


def test_lookup_agrees_with_the_frames(reader: StateReader) -> None:
    """One key's state and timers, from its shard alone, are those of the whole; an unknown key has nothing."""
    for key, events in by_key(EVENTS).items():
        found = reader.lookup(key)
        values = [event[2] for event in events]
        assert found["key"] == Row(key=key)
        assert found["state"]["sums"].total == sum(values)
        assert found["state"]["seen"] == [Row(value=value) for value in values]
        assert {entry.value: value.times for entry, value in found["state"]["by_value"].items()} == {
            value: values.count(value) for value in values
        }
        assert found["timers"] == {"event": [support.at_ms(10_000_000 + len(events))]}
    assert reader.lookup("k1")["found"] is True
    nobody = reader.lookup("nobody")
    assert nobody["found"] is False
    assert nobody["state"] == {"sums": None, "seen": [], "by_value": {}} and nobody["timers"] == {}


def test_frames_can_be_united(reader: StateReader) -> None:
    """Whatever partition of a larger query a scan lands in, it reads the shards that it is to read."""
    timers, sums = reader.timers().select("key"), reader.state("sums").select("key")
    united = timers.union(sums).union(sums.coalesce(1))
    keys = sorted(by_key(EVENTS))
    assert sorted(row.key.key for row in united.collect()) == sorted(keys * 3)


def test_checkpoints_operators_and_metadata(reader: StateReader) -> None:
    """The reader lists checkpoints with cause, time and size, operators with keys, and variables with schemas."""
    first, last = reader.checkpoints(verify=True)
    assert (first.trigger, first.complete, last.complete, last.committed) == ("switch", True, True, True)
    assert last.id > first.id and last.time is not None and last.size_bytes > 0
    (operator,) = reader.operators()
    assert operator.operator == "transformWithState" and operator.key == ("key string",)
    assert operator.states == ("sums", "seen", "by_value") and operator.shards == 2
    rows = {row.state: row for row in reader.metadata().collect()}
    assert rows["by_value"].kind == "map" and rows["by_value"].user_key_schema == "value bigint"
    assert rows["sums"].value_schema == "count bigint, total bigint, last timestamp"
    assert rows["seen"].key_schema == "key string" and rows["seen"].ttl_ms is None


def test_an_older_checkpoint_shows_its_own_time(reader: StateReader) -> None:
    """A checkpoint that is still retained is read as it was: the one of the switch holds the history only."""
    first = reader.checkpoints()[0].id
    found = {row.key.key: row.value["count"] for row in reader.state("sums", checkpoint=first).collect()}
    assert found == {key: len(events) for key, events in by_key(HISTORY).items()}
    assert reader.lookup("k1", checkpoint=first)["state"]["sums"]["count"] == found["k1"]


@pytest.mark.parametrize(
    ("ask", "parts"),
    [
        (lambda reader: reader.state("sum"), ["no state variable 'sum'", "did you mean 'sums'", "'by_value'"]),
        (lambda reader: reader.state(), ["3 state variables", "'sums', 'seen', 'by_value'"]),
        (lambda reader: reader.timers(operator="other"), ["no operator 'other'"]),
        (lambda reader: reader.state("sums", checkpoint=99), ["no checkpoint 99", "it holds 1, 2"]),
        (lambda reader: reader.lookup("a", "b"), ["2 values", "key string"]),
    ],
)
def test_what_is_not_there(reader: StateReader, ask: Callable[[StateReader], Any], parts: list[str]) -> None:
    """Asking for something unknown is a LookupError that says what there is."""
    with pytest.raises(UnknownStateError) as caught:
        ask(reader)
    assert isinstance(caught.value, LookupError)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_not_a_checkpoint_location(tmp_path: Path, spark: SparkSession) -> None:
    """A folder of something else, or none, is refused; a location without a checkpoint says so."""
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="not a checkpointLocation"):
            mixedmode.state_reader(str(path), spark)
    (tmp_path / "mixedmode" / "checkpoints").mkdir(parents=True)
    with pytest.raises(UnknownStateError, match="no complete checkpoint yet"):
        mixedmode.state_reader(str(tmp_path), spark).state()


def test_a_damaged_file_is_named(world: World) -> None:
    """A flipped bit, which only reading finds, and a missing file, found at once, are named; nothing is short."""
    lived(world, ledger(world))
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    frame = reader.state("sums")
    victim = next(path for path in (world.checkpoints / "mixedmode" / "state").rglob("e*") if path.is_file())
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 4
    victim.write_bytes(bytes(data))
    with pytest.raises(Exception, match=victim.name.replace(".", r"\.")):
        frame.collect()
    assert [found.complete for found in reader.checkpoints()] == [True]
    (found,) = reader.checkpoints(verify=True)
    assert not found.complete and victim.name in str(found.damage)
    os.unlink(victim)
    with pytest.raises(CorruptStateError, match="is missing"):
        reader.state("sums")
    whose = world.checkpoints / "mixedmode" / "job.json"
    whose.write_text(whose.read_text().replace("max_parallelism", "least_parallelism"))
    with pytest.raises(CorruptStateError, match=r"job\.json is damaged"):
        reader.checkpoints(verify=True)


def test_a_running_job_is_read_and_not_disturbed(world: World) -> None:
    """The reader takes no lease and holds no file: a live query goes on while its state is read."""
    query = support.live(world.start(ledger(world), OBSERVED))
    seen = []
    for part in (LIVE[:20], LIVE[20:]):
        world.feed(query, part)
        frame = mixedmode.state_reader(str(world.checkpoints), world.spark).state("sums")
        seen.append(frame.agg(F.sum("value.count")).first()[0])
    support.stop(query)
    assert seen == [len(HISTORY) + 20, len(EVENTS)]


@pytest.mark.slow
def test_an_aggregate_with_windows(world: World) -> None:
    """Windows are key columns under Spark's names, buffers are fields named by their SQL."""
    keyed = (
        world.read(HISTORY)
        .withWatermark("ts", "1000 days")
        .groupBy("key", F.window("ts", "10 minutes"))
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"), F.avg("value").alias("mean"))
    )
    lived(world, keyed, LIVE)
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    frame = reader.state()
    assert frame.columns == ["key", "value", "partition_id"] and frame.select("key.*").columns == ["key", "window"]
    rows = frame.select("key.key", "key.window.start", "value.*").collect()
    stock = world.spark.createDataFrame([(key, support.at(s), value) for key, s, value in EVENTS], support.ROW_SCHEMA)
    wanted = stock.groupBy("key", F.window("ts", "10 minutes")).agg(F.count("*").alias("n"), F.sum("value").alias("t"))
    expected = {(row.key, row.window.start): (row.n, row.t) for row in wanted.collect()}
    names = [name for name in rows[0].__fields__ if name not in ("key", "start")]
    (total,) = [name for name in names if name.lower().startswith("sum(") and "value" in name][:1]
    (count,) = [name for name in names if name.lower().startswith("count(")][:1]
    assert {(row.key, row.start): (row[count], row[total]) for row in rows} == expected
    (key, start), (_, wanted_total) = next(iter(expected.items()))
    window = next(row.key.window for row in frame.collect() if row.key.key == key and row.key.window.start == start)
    assert reader.lookup(key, window)["state"]["aggregate"][total] == wanted_total

    def inspect(*keys: str) -> Any:
        given = [word for one in keys for word in ("--key", one)]
        return CliRunner().invoke(app, ["inspect", str(world.checkpoints), *given, "--json"])

    end = start + timedelta(minutes=10)
    done = inspect(key, json.dumps({"start": str(start), "end": f"{end.isoformat()}Z"}))
    assert json.loads(done.stdout)["state"]["aggregate"][total] == wanted_total
    done = inspect(key, json.dumps({"start": str(start), "end": str(end + timedelta(days=99))}))
    assert (done.exit_code, json.loads(done.stdout)["found"]) == (1, False)
    for text, hint in (("2024", "a JSON object with start, end"), ("[", "Expecting value"), ('{"start": ""}', "JSON")):
        done = inspect(key, text)
        assert done.exit_code == 2 and hint in " ".join(done.stderr.replace("│", " ").split()), done.stderr
        assert "key string, window struct<start:timestamp,end:timestamp>" in " ".join(
            done.stderr.replace("│", " ").split()
        )
    assert len(reader.timers().collect()) == len(expected)


@pytest.mark.slow
def test_an_aggregate_with_sessions(world: World) -> None:
    """Each open session is a row, with its start and end."""
    keyed = (
        world.read(HISTORY)
        .withWatermark("ts", "1000 days")
        .groupBy("key", F.session_window("ts", f"{support.GAP_S} seconds"))
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    )
    lived(world, keyed, LIVE)
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    rows = reader.state().select("key.key", "value.*").collect()
    (count,) = [name for name in rows[0].__fields__ if name.lower().startswith("count(")]
    (total,) = [name for name in rows[0].__fields__ if name.lower().startswith("sum(")]
    found = sorted(((row.key, row.start, row[count], row[total]) for row in rows), key=repr)
    assert found == world.expected(EVENTS)
    key = found[0][0]
    assert len(reader.lookup(key)["state"]["aggregate"]) == sum(1 for row in found if row[0] == key)


class Remembers(StatefulProcessor):
    """A value that expires at once and one that does not, and a processing-time timer far away."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._short = handle.getValueState("short", "n long", 1)
        self._long = handle.getValueState("long", "n long", 10**12)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        count = sum(1 for _ in rows)
        self._short.update((count,))
        self._long.update((count,))
        self._handle.registerTimer(4_000_000_000_000)
        yield (key[1],)


@pytest.mark.slow
def test_expired_values_and_keys_of_any_name(world: World) -> None:
    """Expired values are not shown, of others the expiry is; key columns may be named like the reader's own."""
    keyed = world.read(HISTORY).groupBy(F.col("value").alias("dotted.name"), F.col("key").alias("value"))
    lived(world, keyed.transformWithState(Remembers(), "key string", "append", "processingTime"))
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    threading.Event().wait(0.01)  # the short value's one millisecond
    assert reader.state("short").collect() == []
    frame = reader.state("long")
    assert frame.columns == ["key", "value", "partition_id"]
    assert [field.name for field in frame.schema["key"].dataType.fields] == ["dotted.name", "value"]  # type: ignore[attr-defined]
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for key, _, value in HISTORY:
        counts[value, key] += 1
    assert {tuple(row.key): row.value.value.n for row in frame.collect()} == dict(counts)
    assert all(row.value.ttlExpirationMs > 10**12 for row in frame.collect())
    one = next(iter(counts))
    found = reader.lookup(*one)
    assert found["state"] == {"short": None, "long": Row(n=counts[one])}
    assert found["timers"] == {"processing": [4_000_000_000_000]}


def test_a_batch_job_keeps_no_state(world: World) -> None:
    """A job in batch mode leaves a checkpoint without state, and the reader says why."""
    world.start(support.sessions(world.history(HISTORY), None), {"execution.runtime-mode": "batch"}).awaitTermination(
        300
    )
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    assert [found.kind for found in reader.checkpoints()] == ["completion"]
    with pytest.raises(UnknownStateError, match="batch mode"):
        reader.state()


def test_the_moment_is_naive_local_time_as_collect_gives_it(reader: StateReader) -> None:
    """Timestamps of a state value come as everywhere in PySpark."""
    last: datetime = reader.lookup("k1")["state"]["sums"].last
    assert last.tzinfo is None and last >= START.replace(tzinfo=None)
