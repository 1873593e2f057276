"""What a user can get wrong: each error names the thing, and nothing is left half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import (
    CheckpointMismatchError,
    CorruptStateError,
    OptionError,
    OutputSchemaError,
    PlanError,
    QueryError,
)
from mixedmode.runtime.jvm.spark_errors import what_happened
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

EVENTS = support.stream_of(60)


def nothing_written(world: World) -> bool:
    return not world.out.exists() and not world.checkpoints.exists()


def failed(query: mixedmode.MixedQuery) -> BaseException:
    """The cause of a query's failure."""
    with pytest.raises(QueryError) as caught:
        query.awaitTermination(300)
    cause = caught.value.__cause__
    assert cause is not None
    assert set(what_happened(cause).splitlines()) <= set(str(caught.value).partition("failed: ")[2].splitlines())
    return cause


def finished_job(world: World) -> mixedmode.MixedQuery:
    """A bounded job that has run to its end."""
    query = world.start(support.sessions(world.history(EVENTS), None))
    query.awaitTermination(300)
    return query


#: Open sessions stay in the state at the switch.
OBSERVED = {"execution.backlog.final-watermark": "observed"}


def stopped_job(world: World) -> None:
    """A job that was stopped in its live phase, with one checkpoint that has state."""
    query = support.live(world.start(support.sessions(world.history(EVENTS), world.live()), OBSERVED))
    query.stop()


def refused(world: World, keyed: Any = None, options: dict[str, str] | None = None) -> BaseException:
    """Why start() refuses a restart on the same checkpoint location."""
    keyed = keyed or support.sessions(world.history(EVENTS), world.live())
    before = world.output()
    error = support.refusal(lambda: world.start(keyed, {**OBSERVED, **(options or {})}))
    assert world.output() == before
    return error


def restarted(world: World, keyed: Any = None, options: dict[str, str] | None = None) -> BaseException:
    """Why a restart on the same checkpoint location fails."""
    keyed = keyed or support.sessions(world.history(EVENTS), world.live())
    before = world.output()
    cause = failed(world.start(keyed, {**OBSERVED, **(options or {})}))
    assert world.output() == before
    return cause


# -- options and the description ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"execution.interval-during-backlogs": "0"}, ["did you mean execution.interval-during-backlog"]),
        ({"execution.runtime-mode": "fast"}, ["execution.runtime-mode", "'fast'", "batch, streaming, mixed"]),
        (
            {"execution.interval-during-backlog": "1 s", "execution.checkpointing.interval": "10 s"},
            ["execution.interval-during-backlog", "'1 s'", "execution.checkpointing.interval", "10 s"],
        ),
        ({"execution.interval-during-backlog": "-1 s"}, ["execution.interval-during-backlog", "-1 s"]),
        ({"pipeline.backlog.watermark-lag-threshold": "0"}, ["pipeline.backlog.watermark-lag-threshold"]),
        ({"pipeline.backlog.watermark-lag-threshold": "-5 s"}, ["pipeline.backlog.watermark-lag-threshold"]),
    ],
)
def test_bad_option(world: World, options: dict[str, str], parts: list[str]) -> None:
    """A bad option is refused at start() with its name, its value and what is allowed (I1, I9)."""
    with pytest.raises(OptionError) as caught:
        world.start(support.sessions(world.history(EVENTS), None), options)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert nothing_written(world)


def test_missing_key_column(world: World) -> None:
    """A key column that does not exist is named, with what may be meant."""
    with pytest.raises(PlanError, match="key column kye does not exist; did you mean key"):
        world.read(EVENTS, live=False).groupBy("kye")


def test_missing_and_mistyped_time_column(world: World) -> None:
    """The event-time column must exist and be a timestamp."""
    frame = world.read(EVENTS, live=False)
    with pytest.raises(PlanError, match="tss"):
        frame.withWatermark("tss", "1 hour")
    with pytest.raises(PlanError, match="value is of type bigint"):
        frame.withWatermark("value", "1 hour")


def test_key_without_an_order(world: World) -> None:
    """A map cannot be a key, and the error says why."""
    frame = world.history(EVENTS).withColumn("m", F.create_map("key", "value"))
    with pytest.raises(PlanError, match=r"key column m is of type map<string,bigint>"):
        mixedmode.read(history=frame).groupBy("m")


def test_a_key_that_is_a_function_in_sql(world: World) -> None:
    """Spark plans such a key as a step of its own; the error says what to do instead."""
    world.spark.sql("create or replace temporary function twice(x long) returns long return x * 2")
    with pytest.raises(PlanError, match=r"twice\(value\).* as plain keys; compute it with withColumn"):
        world.read(EVENTS, live=False).groupBy(F.expr("twice(value)"))


def test_different_schemas_name_the_columns(world: World) -> None:
    """History and live with different columns are refused, naming each difference."""
    history = world.history(EVENTS).drop("key").withColumn("value", F.col("value").cast("string"))
    with pytest.raises(PlanError, match=r"history lacks key; value is string in history and bigint in live"):
        mixedmode.read(history=history, live=world.live())


def test_unsupported_aggregate_lists_the_supported(world: World) -> None:
    """An aggregate function that cannot be split into partials is refused with the list of those that can."""
    with pytest.raises(PlanError, match=r"(?s)histogram_numeric.*(sum|count)"):
        world.read(EVENTS, live=False).groupBy("key").agg(F.histogram_numeric("value", F.lit(3)))


# -- the processor -----------------------------------------------------------------------------------------------------


class Wrong(StatefulProcessor):
    """Yields for key k3 what it is told to."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield self._row if key == ("k3",) else (key[0], 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "parts"),
    [
        (("k3", "many"), ["field 'n'", "'many' (str)", "('k3',)"]),
        (("k3", None), ["field 'n'", "not null", "None", "('k3',)"]),
        (("k3",), ["1 values", "('k3',)", "2 fields"]),
    ],
)
def test_row_that_does_not_fit(world: World, row: Any, parts: list[str]) -> None:
    """A yielded row that does not fit fails the query, naming field, value and key; nothing is visible."""
    keyed = world.read(EVENTS, live=False).groupBy("key")
    cause = failed(world.start(keyed.transformWithState(Wrong(row), "key string, n long not null", "append", "none")))
    assert isinstance(cause, OutputSchemaError)
    assert all(part in str(cause) for part in parts), str(cause)
    assert world.output() == []


def test_error_in_a_handler_reaches_the_user(world: World) -> None:
    """An exception of the user's own code is in the query's error, with its text; nothing is visible."""

    class Failing(Wrong):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            raise ZeroDivisionError("the user's own mistake")

    keyed = world.read(EVENTS, live=False).groupBy("key")
    cause = failed(world.start(keyed.transformWithState(Failing(()), "key string", "append", "none")))
    assert "the user's own mistake" in str(cause)
    assert world.output() == []


# -- the checkpoint location -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_location_of_another_job(world: World) -> None:
    """A location that belongs to a job with another key is refused, naming the difference; its output stays."""
    finished_job(world)
    keyed = world.read(EVENTS, live=False).withWatermark("ts", "0 seconds").groupBy("value")
    other = keyed.transformWithState(support.Sessions(), support.SESSION_SCHEMA, "append", "eventTime")
    cause = refused(world, other)
    assert isinstance(cause, CheckpointMismatchError)
    assert "its key is key string, this job's is value" in str(cause)


def test_location_of_a_stock_query(world: World) -> None:
    """The checkpoint of a stock Structured Streaming query is refused and not touched."""
    (world.checkpoints / "offsets").mkdir(parents=True)
    cause = refused(world)
    assert isinstance(cause, CheckpointMismatchError)
    assert "stock Structured Streaming" in str(cause)
    assert os.listdir(world.checkpoints) == ["offsets"]


def state_files(world: World) -> list[Path]:
    return sorted(path for path in (world.checkpoints / "mixedmode" / "state").rglob("e*") if path.is_file())


@pytest.mark.slow
def test_a_location_that_does_not_fit_or_is_harmed(world: World) -> None:
    """What a restart does not go on from is named, before anything runs if it shows by then, and nothing is written:

    - another pipeline.max-parallelism than that of the state, or a checkpoint of a newer format version;
    - a state file that is gone or cut off;
    - an entry of Spark's log of the live source, or the folder, which is gone: the job would read rows again;
    - state files with a flipped bit, found by their checksums when they are read in, and never read as fewer rows.
    """
    world.land(EVENTS[:5])
    stopped_job(world)
    before = world.output()

    cause = refused(world, options={"pipeline.max-parallelism": "64"})
    assert isinstance(cause, OptionError)
    assert "pipeline.max-parallelism is 64" in str(cause) and "128" in str(cause)

    (path,) = (world.checkpoints / "mixedmode" / "checkpoints").glob("*/_metadata")
    with harmed(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))
        cause = refused(world)
        assert isinstance(cause, CheckpointMismatchError)
        assert "format version 99" in str(cause)

    victim = state_files(world)[0]
    for harm in (victim.unlink, lambda: os.truncate(victim, victim.stat().st_size - 1)):
        with harmed(victim):
            harm()
            cause = restarted(world)
            assert isinstance(cause, CorruptStateError)
            assert victim.name in str(cause)

    log = world.checkpoints / "spark" / "sources" / "0"
    entry = max((path for path in log.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    for lost in (entry, log.parent.parent):
        aside = world.folder / "aside"
        lost.rename(aside)
        cause = restarted(world)
        assert isinstance(cause, CorruptStateError), cause
        assert f"{lost} is missing" in str(cause) and "start again with a new checkpointLocation" in str(cause)
        aside.rename(lost)

    for victim in state_files(world):
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(bytes(data))
    world.land(support.flush_after(EVENTS))
    # A local copy that this process has kept open embodies the files already: the restart must not depend on it.
    cause = restarted(world, options={"pipeline.parallelism": "3"})
    assert isinstance(cause, CorruptStateError), cause
    assert "SHA-256" in str(cause)
    assert world.output() == before


@contextmanager
def harmed(path: Path) -> Iterator[None]:
    """Puts a file back as it was."""
    content = path.read_bytes()
    yield
    path.write_bytes(content)


def test_source_that_is_added_later(world: World) -> None:
    """A live source cannot be added to a job that has run without one, and least of all to one that has ended: its
    shards had finished (V1)."""
    finished_job(world)
    cause = support.refusal(lambda: world.start(support.sessions(world.history(EVENTS), world.live()), OBSERVED))
    assert isinstance(cause, CheckpointMismatchError)
    assert "'stage keyed-0' is finished in checkpoint 1 in " in str(cause)
    assert "'source live', which feeds it, is running (it is not in the checkpoint)" in str(cause)


def test_output_and_checkpoints_need_folders_of_their_own(world: World) -> None:
    """One folder for both is refused before anything is written."""
    both = str(world.out)
    writer = support.sessions(world.history(EVENTS), None).writeStream.format("parquet")
    with pytest.raises(OptionError, match="same folder"):
        writer.option("path", both).option("checkpointLocation", f"file://{both}").start()
    assert not world.out.exists()


def test_a_job_does_not_write_where_it_reads(world: World) -> None:
    """Output, checkpoints and late rows below a folder that is read would be input; a hidden folder there is none."""
    world.land(EVENTS[:20])
    job = support.sessions(None, world.live())
    own, within = str(world.folder / "own"), str(world.landing / "own")
    late = "pipeline.late-data.path"

    def start(path: str, checkpoints: str, format: str = "parquet", **options: str) -> None:
        writer = job.writeStream.format(format).options(**options)
        writer.option("path", path).option("checkpointLocation", checkpoints).plan()

    with pytest.raises(OptionError, match=r"path = .* is in the folder .* that live reads"):
        start(within, own)
    for format in ("parquet", "json"):
        with pytest.raises(OptionError, match=r"path = .* is the folder that live reads"):
            start(str(world.landing), own, format)
        with pytest.raises(OptionError, match=r"which live reads, is inside path .*'replace' empties that"):
            start(str(world.folder), f"{world.folder}-own", format, **{"execution.sink.existing": "replace"})
    with pytest.raises(OptionError, match=r"checkpointLocation = .* that live reads"):
        start(own, f"file://{within}")
    with pytest.raises(OptionError, match=rf"{late} = .* that live reads"):
        start(own, f"{own}-2", **{late: within})
    start(str(world.landing / "_own"), own)


def test_files_of_sparks_may_be_where_no_stream_looks(world: World) -> None:
    """Below a folder that is read without those below it, beside what a glob finds, and where a table is read once."""
    world.land(EVENTS[:20])
    landing, spark = world.landing, world.spark
    schema = spark.read.parquet(str(landing)).schema

    def plan(live: Any, out: Path, below: str = ".") -> None:
        writer = mixedmode.read(live=live).dropDuplicates(["key"]).writeStream.format("json")
        writer.option("path", str(out)).option("checkpointLocation", str(world.folder / "own" / below)).plan()

    def streamed(path: Path, **options: str) -> Any:
        return spark.readStream.schema(schema).options(**options).parquet(str(path))

    plan(streamed(landing), landing / "own")
    plan(streamed(world.folder / "*" / "in"), world.folder / "out")
    plan(streamed(landing).join(spark.read.parquet(str(landing)).select("key"), "key", "leftsemi"), world.folder)
    with pytest.raises(OptionError, match=r"path = .* is in the folder .* that live reads"):
        plan(streamed(landing, recursiveFileLookup="true"), landing / "own")
    with pytest.raises(OptionError, match=r"path = .* is the folder that live reads"):
        plan(streamed(world.folder / "*" / "in"), world.folder / "out" / "in")
    with pytest.raises(OptionError, match=r"checkpointLocation = .* is in the folder .*/\*/own' that live reads"):
        plan(streamed(world.folder.parent / "*" / "own"), world.folder / "out", "in")


@pytest.mark.slow
def test_a_job_does_not_write_the_table_that_it_reads(world: World) -> None:
    """By its name, while the source has its folder."""
    world.land(EVENTS[:20])
    world.spark.sql(f"CREATE TABLE read_and_written USING parquet LOCATION '{world.landing}'")
    try:
        writer = support.sessions(None, world.live()).writeStream
        with pytest.raises(OptionError, match=r"toTable = .* is the folder that live reads"):
            writer.option("checkpointLocation", str(world.folder / "own")).toTable("read_and_written")
    finally:
        world.spark.sql("DROP TABLE read_and_written")


def test_a_job_that_has_ended_does_not_swallow_new_input(world: World) -> None:
    """A batch run ends the job; going on with a live source from the same checkpoint is an error, not silence."""
    world.land(EVENTS[:20])
    batch = {"execution.runtime-mode": "batch"}
    world.start(support.sessions(None, world.live()), batch).awaitTermination(300)
    before = world.output()
    world.land(EVENTS[20:])
    with pytest.raises(CheckpointMismatchError, match="ended with checkpoint 1"):
        world.start(support.sessions(None, world.live()))
    assert world.output() == before
