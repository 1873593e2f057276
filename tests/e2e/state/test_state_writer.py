"""Savepoints built and changed offline: jobs that begin with them, and what is refused before anything is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timezone
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from failing import fail_at
from mixedmode import CheckpointError, OptionError, PlanError, StateSchemaError, UnknownStateError
from mixedmode.planner.cli.app import app
from mixedmode.runtime.checkpoints.savepoints import folder as savepoint_folder
from mixedmode.runtime.support import failpoints
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World
from typer.testing import CliRunner

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(160, seed=5)
PAST, LIVE = EVENTS[:100], EVENTS[100:]
#: So long that nobody's account closes before the flush.
QUIET_MS = 10**8
SCHEMA = "key string, closed long, count int, total long, seen string, odd string"


class Account(StatefulProcessor):
    """All that a key has had, in state of each kind; told when it has been quiet for long."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sum = handle.getValueState("sum", "count int, total long")
        self._seen = handle.getListState("seen", "value long")
        self._parity = handle.getMapState("parity", "odd boolean", "rows long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        count, total = self._sum.get() or (0, 0)
        last_ms = 0
        for row in sorted(rows, key=lambda row: row.ts):
            count, total = count + 1, total + row.value
            self._seen.appendValue((row.value,))
            odd = (row.value % 2 == 1,)
            self._parity.updateValue(odd, ((self._parity.getValue(odd) or (0,))[0] + 1,))
            last_ms = round(row.ts.replace(tzinfo=timezone.utc).timestamp() * 1000)
        self._sum.update((count, total))
        for ts_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(ts_ms)
        self._handle.registerTimer(last_ms + QUIET_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        count, total = self._sum.get() or (0, 0)
        seen = " ".join(str(value) for (value,) in self._seen.get())
        odd = " ".join(f"{key[0]}:{value[0]}" for key, value in self._parity.iterator())
        yield (key[0], expiredTimerInfo.getExpiryTimeInMs(), count, total, seen, odd)


FLUSH = [(support.FLUSH_KEY, EVENTS[-1][1] + 2 * QUIET_MS // 1000, 0)]


def accounts(world: World) -> Any:
    history, live = world.history(PAST), world.live()
    keyed = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds").groupBy("key")
    return keyed.transformWithState(Account(), SCHEMA, "append", "eventTime").uid("accounts")


def writer_of(world: World, keyed: Any, **options: Any) -> Any:
    """What start() would start."""
    writer = keyed.writeStream.option("path", str(world.out)).option("checkpointLocation", str(world.checkpoints))
    return writer.options(**{"pipeline.parallelism": 2, **OBSERVED, **options})


def lived(world: World, keyed: Any, rows: list[Any], **options: Any) -> list[tuple[Any, ...]]:
    """The output of a job in which some rows and the flush come live."""
    query = support.live(world.start(keyed, {**OBSERVED, **options}))
    world.feed(query, rows)
    world.land(FLUSH)
    support.finish(query)
    return world.results()


def content_of(folder: Path) -> dict[str, str]:
    """The files below a folder, with their checksums."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


class Frames:
    """The state of ``PAST`` as plain Spark computes it of the rows."""

    def __init__(self, world: World) -> None:
        past = world.history(PAST)
        self.sum = past.groupBy("key").agg(F.count("*").cast("int").alias("count"), F.sum("value").alias("total"))
        in_order = past.groupBy("key").agg(F.sort_array(F.collect_list(F.struct("ts", "value"))).alias("rows"))
        placed = in_order.select("key", F.posexplode("rows").alias("position", "row"))
        self.seen = placed.select("key", "position", F.col("row.value").cast("int").alias("value"))
        self.parity = past.groupBy("key", (F.col("value") % 2 == 1).alias("odd")).agg(F.count("*").alias("rows"))
        latest = past.groupBy("key").agg(F.max("ts").alias("last"))
        self.timers = latest.selectExpr("key", f"unix_millis(last) + {QUIET_MS} AS expiration_timestamp_ms")


@pytest.fixture(scope="module")
def seeded(worlds: Any) -> tuple[World, Path]:
    """A savepoint that was built of data frames, and the world that they are of."""
    world = worlds()
    frames, path = Frames(world), world.folder / "seeded"
    writer = mixedmode.state_writer(writer_of(world, accounts(world)))
    writer.state("sum", frames.sum).state("seen", frames.seen).state("parity", frames.parity).timers(frames.timers)
    written = writer.event_time(support.at(PAST[-1][1])).write(path)
    assert written == str(path) and not (path / "_unfinished").exists() and not (path / "work").exists()
    return world, path


def test_job_goes_on_from_built_state_as_from_its_history(seeded: tuple[World, Path], worlds: Any) -> None:
    """State that Spark computes of the history stands for it, in another number of shards as well."""
    first, path = seeded
    expected = lived(first, accounts(first), LIVE)
    assert len(expected) > 5
    second = worlds()
    more = {"execution.savepoint.path": str(path), "pipeline.parallelism": 3}
    assert lived(second, accounts(second), LIVE, **more) == expected
    # What the job itself has written of the same rows says the same, with the watermark.
    ours = mixedmode.state_reader(path).checkpoints(verify=True)[0]
    assert ours.complete and ours.trigger == "state-writer"


@pytest.mark.slow
def test_savepoint_is_changed_by_spark(seeded: tuple[World, Path], worlds: Any) -> None:
    """Values are read, changed and written back, keys are removed; the savepoint that is changed stays as it was."""
    world, path = seeded
    before = content_of(path)
    target = world.folder / "changed"
    reader, writer = mixedmode.state_reader(path), mixedmode.state_writer(savepoint=path)
    sums = reader.state("sum").withColumn("value", F.struct("value.count", (F.col("value.total") * 10).alias("total")))
    gone = world.spark.createDataFrame([("k0",), ("k1",), ("never seen",)], "key string")
    one = world.spark.createDataFrame(
        [("k2", 0, 7), ("k2", 1, 8), ("new", 5, 9)], "key string, position int, value int"
    )
    writer.state("sum", sums.where("key.key != 'k3'")).remove_keys(gone)
    writer.state("seen", one, mode="merge").remove_state("parity").write(target)
    assert content_of(path) == before
    after = mixedmode.state_reader(target)
    assert after.checkpoints(verify=True)[0].complete

    def rows(reader: Any, name: str) -> set[tuple[Any, ...]]:
        return {(row.key.key, *row[1]) for row in reader.state(name).collect()}

    # What is removed is removed first: a frame of the same call may set it anew.
    assert rows(after, "sum") == {(key, count, total * 10) for key, count, total in rows(reader, "sum") if key != "k3"}
    others = {row for row in rows(reader, "seen") if row[0] not in ("k0", "k1", "k2")}
    assert rows(after, "seen") == others | {("k2", 7), ("k2", 8), ("new", 9)}
    pending = {(row.key.key, row[1], row.timer_kind) for row in after.timers().collect()}
    assert pending == {
        (row.key.key, row[1], row.timer_kind) for row in reader.timers().collect() if row.key.key not in ("k0", "k1")
    }
    assert after.operators()[0].states == ("sum", "seen")
    # The job finds the variable that was removed empty, and all else as it was left.
    second = worlds()
    closed = {
        row[0]: row[2:]
        for row in lived(
            second, accounts(second), [("k2", LIVE[-1][1], 4)], **{"execution.savepoint.path": str(target)}
        )
    }
    count, total = next(row[1:] for row in rows(reader, "sum") if row[0] == "k2")
    assert closed["k2"] == (count + 1, 10 * total + 4, "7 8 4", "False:1")
    assert "k0" not in closed and closed["k3"][:2] == (0, 0) and "new" not in closed


@pytest.mark.slow
def test_history_goes_through_operators_of_any_kind(worlds: Any) -> None:
    """A deduplication and an aggregate begin with what the history has made of them; keys of theirs can be removed."""

    def job(world: World) -> Any:
        rows = world.read([*PAST, *PAST[:20]])
        unique = rows.withWatermark("ts", "10 hours").dropDuplicates(["key", "ts"]).uid("unique")
        return unique.groupBy("key").agg(F.sum("value").alias("total"), F.count("*").alias("rows")).uid("totals")

    def last_rows(world: World, **options: Any) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}

        def keep(rows: Any, number: int) -> None:
            found.update({row[0]: (row[1], row[2]) for row in rows.collect()})

        writer = job(world).writeStream.foreachBatch(keep).outputMode("update")
        writer = writer.option("checkpointLocation", str(world.checkpoints)).options(**{**OBSERVED, **options})
        query = writer.start()
        world.queries.append(query)
        support.live(query)
        world.land([*LIVE, *PAST[40:60]])
        support.finish(query)
        return found

    first, second = worlds(), worlds()
    path = first.folder / "passed"
    described = job(first).writeStream.format("noop").outputMode("update").options(**OBSERVED)
    gone = first.spark.createDataFrame([("k1",)], "key string")
    mixedmode.state_writer(described).run_history().remove_keys(gone, operator="totals").write(path)
    assert not (path / "work").exists()
    expected, found = last_rows(first), last_rows(second, **{"execution.savepoint.path": str(path)})
    touched = {key for key, *_ in LIVE} - {"k1"}
    assert touched and {key: found[key] for key in touched} == {key: expected[key] for key in touched}
    live_only = [value for key, _, value in LIVE if key == "k1"]
    assert found["k1"] == (sum(live_only), len(live_only))
    with pytest.raises(StateSchemaError, match=r"state 'x' of stage 'totals' cannot be set: the state of .* engine's"):
        mixedmode.state_writer(savepoint=path).state("x", gone, operator="totals")


def test_command_line_writes_state_from_files(seeded: tuple[World, Path], tmp_path: Path) -> None:
    """``mixedmode state write`` does the same with files, for a job's program or from a savepoint."""
    world, path = seeded
    (tmp_path / "sums.json").write_text('{"key": "a", "count": 3, "total": 30}')
    (tmp_path / "gone.csv").write_text("key\nk0\n")
    program = tmp_path / "job.py"
    program.write_text(
        "import mixedmode\nfrom pyspark.sql import SparkSession\nfrom test_state_writer import Account, SCHEMA\n"
        "spark = SparkSession.getActiveSession()\n"
        f"live = spark.readStream.schema('key string, ts timestamp, value long').parquet({str(world.landing)!r})\n"
        "keyed = mixedmode.read(live=live).withWatermark('ts', '0 seconds').groupBy('key')\n"
        "keyed = keyed.transformWithState(Account(), SCHEMA, 'append', 'eventTime').uid('accounts')\n"
        f"keyed.writeStream.option('checkpointLocation', {str(tmp_path / 'c')!r}).start({str(tmp_path / 'o')!r})\n"
    )

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["state", "write", *words])

    new = ["--job", str(program), "--set", f"sum={tmp_path / 'sums.json'}", "--event-time", "2024-01-01T00:00:00"]
    made = run(str(tmp_path / "new"), *new)
    assert made.exit_code == 0, made.output
    found = mixedmode.state_reader(tmp_path / "new").state("sum").collect()
    assert [(row.key.key, *row.value) for row in found] == [("a", 3, 30)]
    changed = ["--savepoint", str(path), "--merge", f"sum={tmp_path / 'sums.json'}", "--json"]
    made = run(str(tmp_path / "more"), *changed, "--remove-keys", str(tmp_path / "gone.csv"))
    assert made.exit_code == 0 and json.loads(made.stdout) == {"savepoint": str(tmp_path / "more")}
    keys = {row.key.key for row in mixedmode.state_reader(tmp_path / "more").state("sum").collect()}
    assert keys == {row.key.key for row in mixedmode.state_reader(path).state("sum").collect()} - {"k0"} | {"a"}
    assert (
        run(str(tmp_path / "no")).exit_code == 2
        and run(str(tmp_path / "no"), *changed[:2], "--set", "x").exit_code == 2
    )
    refused = run(str(tmp_path / "no"), "--savepoint", str(path), "--set", f"sums={tmp_path / 'sums.json'}")
    assert refused.exit_code == 1 and "has no state 'sums'" in refused.output
    unread = run(str(tmp_path / "no"), "--savepoint", str(path), "--timers", str(tmp_path / "nowhere.orc"))
    assert unread.exit_code == 1 and "cannot be read as orc" in unread.output


def test_what_does_not_fit_is_refused_by_name(seeded: tuple[World, Path], tmp_path: Path) -> None:
    """Columns, types, names, modes and jobs are checked when they are given; the message has the name and what is
    allowed."""
    world, path = seeded
    spark, frames = world.spark, Frames(world)
    job = writer_of(world, accounts(world))

    def refused(error: type[Exception], words: str, call: Any) -> None:
        with pytest.raises(error, match=words):
            call(mixedmode.state_writer(job))

    def made(ddl: str) -> Any:
        return spark.createDataFrame([], ddl)

    refused(
        UnknownStateError, "has no state 'sums'; it has 'sum', 'seen', 'parity'", lambda w: w.state("sums", frames.sum)
    )
    refused(UnknownStateError, "no stage 'other'; there are 'accounts'", lambda w: w.state("sum", frames.sum, "other"))
    refused(
        OptionError,
        "mode = 'append' is not allowed; allowed: overwrite, merge",
        lambda w: w.state("sum", frames.sum, mode="append"),
    )
    refused(
        StateSchemaError,
        r"no column 'total' \(bigint\), nor a struct 'value'.*did you mean 'totals'",
        lambda w: w.state("sum", made("key string, count int, totals long")),
    )
    refused(
        StateSchemaError,
        "column 'total' in .* is string; it takes bigint",
        lambda w: w.state("sum", made("key string, count int, total string")),
    )
    refused(
        StateSchemaError,
        "has column 'more', which is neither the key's nor the state's",
        lambda w: w.state("sum", made("key string, count int, total long, more int")),
    )
    refused(StateSchemaError, r"column 'key' in .* is int; it takes string", lambda w: w.remove_keys(made("key int")))
    refused(
        StateSchemaError,
        "column 'value' of .* its fields must be count int, total bigint",
        lambda w: w.state("sum", made("key string, value struct<count:int>")),
    )
    refused(StateSchemaError, "no column 'expiration_timestamp_ms'", lambda w: w.timers(made("key string, at long")))
    refused(
        StateSchemaError,
        "state 'sum' of stage 'accounts' is set or removed twice",
        lambda w: w.state("sum", frames.sum).remove_state("sum"),
    )
    refused(PlanError, "comes first", lambda w: w.state("sum", frames.sum).run_history())
    refused(PlanError, "exclude each other", lambda w: w.run_history().keep_history().write(tmp_path / "no"))
    refused(StateSchemaError, "got source 'tape'; the job's are live", lambda w: w.event_time(0, "tape"))
    refused(CheckpointError, "holds a savepoint; a savepoint needs a folder that is empty", lambda w: w.write(path))
    with pytest.raises(OptionError, match="needs a job, for a new savepoint"):
        mixedmode.state_writer()
    with pytest.raises(OptionError, match="got a str as its job"):
        mixedmode.state_writer("job")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"pipeline.max-parallelism is 64, .* written with 128"):
        mixedmode.state_writer(writer_of(world, accounts(world), **{"pipeline.max-parallelism": 64}), savepoint=path)
    other = world.read().withWatermark("ts", "0 seconds").groupBy("value")
    keyed = writer_of(world, other.transformWithState(Account(), SCHEMA, "append", "eventTime").uid("accounts"))
    with pytest.raises(mixedmode.CheckpointMismatchError, match="its key is key string, this job's is value int64"):
        mixedmode.state_writer(keyed, savepoint=path)
    with pytest.raises(PlanError, match=r"event_time.. is for new savepoints"):
        mixedmode.state_writer(savepoint=path).event_time(0)
    with pytest.raises(UnknownStateError, match="no stage 'gone' to remove; the savepoint has 'accounts'"):
        mixedmode.state_writer(savepoint=path).remove_operator("gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("sum", [("a", 1, 1), ("a", 2, 2)], "value state 'sum' .* got 2 rows for key key = 'a'"),
        ("seen", [("a", 0, 1), ("a", 0, 2)], "list state 'seen' .* got position 0 twice for key key = 'a'"),
        ("seen", [("a", None, 1), ("a", 1, 2)], "list state 'seen' .* got 2 rows without a position"),
        ("parity", [("a", True, 1), ("a", True, 2)], r"map state 'parity' .* got user key \(True,\) twice"),
        ("sum", [("a", 2**31, 1)], "has count = 2147483648; int takes -2147483648 to 2147483647"),
        ("sum", [("a", None)], "has a row whose value is null; leave the row out"),
    ],
)
def test_what_comes_twice_leaves_nothing(
    seeded: tuple[World, Path], tmp_path: Path, name: str, rows: list[Any], words: str
) -> None:
    """Two values where state holds one are an error that names the key; no savepoint is left, nor anything of it."""
    ddl = {"sum": "key string, count long, total long", "seen": "key string, position int, value long"}
    ddl["parity"] = "key string, odd boolean, rows long"
    schema = ddl[name] if len(rows[0]) == 3 else "key string, value struct<count:int,total:bigint>"
    frame = seeded[0].spark.createDataFrame(rows, schema)
    writer = mixedmode.state_writer(writer_of(seeded[0], accounts(seeded[0]))).state(name, frame)
    with pytest.raises(Exception, match=words):
        writer.write(tmp_path / "sp")
    assert not (tmp_path / "sp").exists()


@pytest.mark.slow
def test_savepoint_of_a_killed_writer_is_none(
    seeded: tuple[World, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its last file nobody takes it for a savepoint, nor writes to its place; without the kill it is gone."""
    path = tmp_path / "sp"
    fail_at(monkeypatch, "state-writer-before-complete=raise")
    monkeypatch.setattr(savepoint_folder, "give_up", lambda *_: None)  # who is killed cleans nothing up
    writer = mixedmode.state_writer(savepoint=seeded[1])
    gone = seeded[0].spark.createDataFrame([("k0",)], "key string")
    with pytest.raises(failpoints.InjectedFailure):
        writer.remove_keys(gone).write(path)
    monkeypatch.undo()
    assert list((path / "state/accounts").iterdir())
    with pytest.raises(CheckpointError, match="never finished"):
        mixedmode.state_writer(savepoint=path)
    with pytest.raises(CheckpointError, match="what is left of a savepoint that was never finished"):
        writer.write(path)
