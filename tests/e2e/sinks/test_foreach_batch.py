"""The function of foreachBatch is called once for each epoch that has rows, in order, under ids that only grow."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from mixedmode import MixedQuery
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World, counted, counts, counts_after, live

support.by_value(__name__)

Rows = list[tuple[Any, ...]]


class Calls:
    """Keeps what the function was called with.

    Args:
        fails: ids whose call raises, once.
    """

    def __init__(self, *fails: int) -> None:
        self.made: list[tuple[int, Rows]] = []
        self._fails = set(fails)

    def __call__(self, rows: DataFrame, number: int) -> None:
        self.made.append((number, sorted((tuple(row) for row in rows.collect()), key=repr)))
        if number in self._fails:
            self._fails.remove(number)
            raise OSError(f"no room for {number}")

    @property
    def ids(self) -> list[int]:
        return [number for number, _ in self.made]

    @property
    def rows(self) -> list[Rows]:
        return [rows for _, rows in self.made]


def start(world: World, keyed: Any, take: Callable[[DataFrame, int], None], **options: Any) -> MixedQuery:
    """A job whose checkpoints are taken only when somebody asks, so that epochs share them."""
    mode = options.pop("mode", None)
    writer = keyed.writeStream.foreachBatch(take).option("checkpointLocation", str(world.checkpoints))
    for name, value in {"pipeline.parallelism": 2, "execution.checkpointing.interval": "1 hour", **options}.items():
        writer = writer.option(name, value)
    query: MixedQuery = (writer if mode is None else writer.outputMode(mode)).start()
    world.queries.append(query)
    return query


def one_file(world: World) -> DataFrame:
    """The landing zone; each file is a micro-batch of its own."""
    return world.live(maxFilesPerTrigger="1", maxFileAge="36500d")


def calls_recorded(world: World) -> list[tuple[int, list[int]]]:
    """The calls that the newest checkpoint names: their ids and epochs."""
    newest = sorted(world.checkpoints.glob("mixedmode/checkpoints/*/_metadata"))[-1]
    transaction = json.loads(json.loads(newest.read_text())["body"])["transaction"]
    return [(call["id"], call["epochs"]) for call in transaction["calls"]]


@pytest.mark.slow
def test_each_epoch_has_a_call_of_its_own_and_a_backlog_is_one_epoch(world: World) -> None:
    """A processor in update mode: a key once a call, whose rows are exactly those of one epoch.

    The backlog is a history and two files of the stream.  A checkpoint names its calls, and a run without rows calls
    nobody; after a restart, and in a job that begins from a savepoint, ids go on.
    """
    calls = Calls()
    world.land(counted(1), counted(2))
    history = world.history(counted(0))
    query = live(start(world, counts(one_file(world), history), calls))
    assert calls.made == [(1, counts_after(0, 1, 2))]

    world.land(*map(counted, (3, 4, 5)))
    query.processAllAvailable()
    seen = [counts_after(*range(last)) for last in (4, 5, 6)]
    assert calls.made[1:] == list(enumerate(seen, start=2))
    assert [number for number, _ in calls_recorded(world)] == [2, 3, 4]
    epochs = [epoch for _, epochs in calls_recorded(world) for epoch in epochs]
    assert epochs == sorted(set(epochs)) and len(epochs) == 3
    query.stop()

    query = live(start(world, counts(one_file(world), history), calls))
    assert calls.ids == [1, 2, 3, 4], "nothing has come, so nobody is called"
    world.feed(query, counted(6))
    savepoint = query.stopWithSavepoint(str(world.folder / "savepoint"))
    assert calls.made[4:] == [(5, counts_after(*range(7)))]

    other = World(world.spark, world.folder / "other")
    world.land(counted(7))
    options = {"execution.savepoint.path": savepoint}
    query = live(start(other, counts(one_file(world), history), calls, **options))
    support.finish(query)
    assert calls.made[5:] == [(6, counts_after(*range(8)))]
    assert query.exception() is None


def test_a_call_that_raised_is_made_again_and_those_before_it_are_not(world: World) -> None:
    """The second of three calls of a checkpoint raises: it comes again with its id and rows, then the third."""
    calls = Calls(3)
    query = live(start(world, counts(one_file(world)), calls))
    world.feed(query, counted(0))
    world.land(*map(counted, (1, 2, 3)))
    with pytest.raises(mixedmode.QueryError, match=r"(?s)no room for 3.*batch 3"):
        query.processAllAvailable()
    assert calls.ids == [1, 2, 3]

    query = live(start(world, counts(one_file(world)), calls))
    query.stop()
    seen = [counts_after(*range(last)) for last in (1, 2, 3, 4)]
    assert calls.made == [(1, seen[0]), (2, seen[1]), (3, seen[2]), (3, seen[2]), (4, seen[3])]


@pytest.mark.slow
def test_what_is_left_of_a_checkpoint_goes_to_a_sink_with_other_columns(world: World) -> None:
    """The second call raises, and the job is started again with fewer columns: what was called for does not come."""
    calls = Calls(2)
    query = live(start(world, counts(one_file(world)), calls))
    world.land(*map(counted, (0, 1, 2)))
    with pytest.raises(mixedmode.QueryError, match="no room for 2"):
        query.processAllAvailable()
    query = live(start(world, counts(one_file(world)).select("total", "key"), calls))
    query.stop()
    fewer = [sorted((total, key) for key, _, total in counts_after(*range(last))) for last in (2, 3)]
    assert calls.ids == [1, 2, 2, 3]
    assert [sorted(rows) for rows in calls.rows[2:]] == fewer


@pytest.mark.slow
def test_rows_that_replace_others_come_in_one_call_a_checkpoint(world: World) -> None:
    """An aggregate over three epochs: in update mode one row a key, the last; in complete mode the whole result.

    In append mode, and in update mode without its key, each epoch has a call.
    """
    last = [(f"k{key}", 3) for key in range(9)]
    expected: dict[str, list[Rows]] = {
        "update": [last],
        "complete": [last],
        "keyless": [[(nth,)] * 9 for nth in (1, 2, 3)],
        "append": [counted_rows(nth) for nth in (0, 1)],
    }
    made, queries = {}, []
    for name in expected:
        here = World(world.spark, world.folder / name)
        here.landing.rmdir()
        here.landing.symlink_to(world.landing)
        rows = mixedmode.read(live=one_file(here)).withWatermark("ts", "0 seconds")
        keys = ["key", F.window("ts", "100 seconds")] if name == "append" else ["key"]
        totals = rows.groupBy(*keys).agg(F.count("*").alias("n"))
        totals = totals.select("n") if name == "keyless" else totals.select("key", "n")
        made[name] = Calls()
        mode = "update" if name == "keyless" else name
        queries.append(start(here, totals, made[name], mode=mode))
    world.queries += queries
    for query in queries:
        live(query)
    world.land(*map(counted, (0, 1, 2)))
    for query in queries:
        support.finish(query)
    assert {name: [rows for rows in calls.rows if rows] for name, calls in made.items()} == expected
    for name, calls in made.items():
        assert calls.ids == sorted(set(calls.ids)), name


def counted_rows(number: int) -> Rows:
    """A window's rows of one micro-batch, as the next one closes it."""
    return [(key, 1) for key, _, _ in counted(number)]


@pytest.mark.slow
def test_a_drain_gives_its_rows_in_a_call_of_their_own(world: World) -> None:
    """Sessions that a row has closed, and those that the drain closes, which are of another epoch."""
    calls = Calls()
    query = live(start(world, support.sessions(None, one_file(world)), calls))
    world.land([("a", 0, 1)], [("a", 1_000, 2), ("b", 1_000, 3)])
    support.wait_until(lambda: sum(progress["numInputRows"] for progress in query.recentProgress) == 3)
    query.stopWithSavepoint(str(world.folder / "savepoint"), drain=True)
    first, rest = [("a", support.at(0), 1, 1)], [("a", support.at(1_000), 1, 2), ("b", support.at(1_000), 1, 3)]
    assert [row for rows in calls.rows for row in rows] == first + rest
    assert calls.rows[-1] == rest and calls.ids == sorted(set(calls.ids))


def test_a_job_of_the_version_before_goes_on_with_greater_ids(world: World) -> None:
    """It has used the ids 1 to 4, one a checkpoint, and its last call had raised: that one comes as it was.

    The checkpoint location is one that format version 3 wrote.
    """
    support.old_location(world)
    calls = Calls()
    query = live(start(world, counts(one_file(world)), calls))
    pending = [*counts_after(*range(6)), *counts_after(*range(7))]
    assert calls.made == [(4, sorted(pending, key=repr))]
    world.land(*map(counted, (7, 8)))
    support.finish(query)
    assert calls.made[1:] == [(5, counts_after(*range(8))), (6, counts_after(*range(9)))]
    assert query.exception() is None


class Lines:
    """For foreach: a file of each partition of a call, with a line for each row."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, partition: int, epoch: int) -> bool:
        self._file = open(self._folder / f"{epoch}-{partition}-{uuid.uuid4().hex}", "w")  # noqa: SIM115 - close() does
        return True

    def process(self, row: Any) -> None:
        self._file.write(f"{json.dumps(row.asDict())}\n")

    def close(self, error: Exception | None) -> None:
        self._file.close()

    @property
    def by_call(self) -> dict[int, Rows]:
        """The rows of each call."""
        found: dict[int, Rows] = {}
        for path in self._folder.iterdir():
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            found.setdefault(int(path.name.split("-")[0]), []).extend((*row.values(),) for row in rows)
        return {number: sorted(rows) for number, rows in sorted(found.items())}


def test_rows_are_taken_one_by_one_without_a_checkpoint_location(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """foreach calls an object of the user's for each row, as stock does, by the calls that foreachBatch would have; the
    location is a temporary one, which is gone with the query."""
    temporary, out = world.folder / "temporary", world.folder / "lines"
    temporary.mkdir()
    out.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    lines = Lines(out)
    writer = counts(one_file(world)).writeStream.foreach(lines).option("truncate", "false")
    query = writer.option("execution.checkpointing.interval", "1 hour").option("pipeline.parallelism", 2).start()
    world.queries.append(query)
    live(query)
    world.land(counted(0), counted(1))
    query.processAllAvailable()
    assert len(list(temporary.glob("mixedmode-*/mixedmode/checkpoints"))) == 1
    support.stop(query)
    assert lines.by_call == {1: counts_after(0), 2: counts_after(0, 1)}
    assert list(temporary.glob("mixedmode-*")) == []
