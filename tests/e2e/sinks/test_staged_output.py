"""A job that is started again, differently, before its last output was shown: shown once, as what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from failing import fail_at
from mixedmode import CheckpointMismatchError, MixedQuery
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World, at, by_value, details, finish, live

by_value(__name__)

BACKLOG = [("a", 0, 1), ("a/b", 1, 2), (None, 2, 3), ("a", 3, 4)]
LATER = [("a", 10, 5), ("c", 11, 6)]


def described(world: World, *exprs: Column) -> Any:
    read = world.read(BACKLOG)
    return read.groupBy("key").agg(*exprs)


def deliver(world: World, keyed: Any, function: Callable[[DataFrame, int], None], mode: str = "update") -> MixedQuery:
    writer = keyed.writeStream.outputMode(mode).foreachBatch(function)
    options = {"checkpointLocation": str(world.checkpoints), "pipeline.parallelism": "2"}
    query: MixedQuery = writer.options(**options).start()
    world.queries.append(query)
    return query


def refuse(rows: DataFrame, number: int) -> None:
    raise RuntimeError(f"the table has no columns {', '.join(rows.columns)}")


def ended(query: MixedQuery) -> MixedQuery:
    live(query)
    finish(query)
    return query


@pytest.mark.slow
def test_output_that_a_sink_refused_is_shown_under_its_new_name(world: World) -> None:
    """What the error says is true: started again with the alias renamed, the job shows the backlog's result once.

    Another column under the old name, and one that was not there, are refused by start(), and nothing is lost.
    """
    total, n = F.sum("value"), F.count("*")
    failed = deliver(world, described(world, total.alias("the total"), n.alias("n"), (total / n).alias("mean")), refuse)
    said = r"(?s)no columns key, the total, n, mean.* start the query again once"
    with pytest.raises(mixedmode.QueryError, match=said):
        failed.awaitTermination(300)
    with pytest.raises(CheckpointMismatchError, match=r"column 'n' was count\(1\), and is max\(value\) in this job"):
        deliver(world, described(world, total.alias("total"), F.max("value").alias("n")), refuse)
    with pytest.raises(CheckpointMismatchError, match=r"this job's column most \(max\(value\)\) is none of them"):
        deliver(world, described(world, total.alias("total"), F.max("value").alias("most")), refuse)

    shown: list[tuple[int, list[str], list[tuple[Any, ...]]]] = []

    def show(rows: DataFrame, number: int) -> None:
        shown.append((number, rows.columns, sorted(map(tuple, rows.collect()), key=repr)))

    # The mean moves, the total is renamed, the count is left out.
    renamed = described(world, (total / n).alias("average"), total.alias("total"))
    query = ended(deliver(world, renamed, show))
    expected = [("a", 2.5, 5), ("a/b", 2.0, 2), (None, 3.0, 3)]
    assert shown == [(1, ["key", "average", "total"], sorted(expected, key=repr))]
    assert "column 'the total' is now called 'total'; it is still sum(value)" in details(query, "state-evolved")

    # A new aggregate starts empty, old groups keep the others; nothing is shown twice.
    world.land(LATER)
    more = described(world, total.alias("total"), F.max("value").alias("most"), (total / n).alias("average"))
    query = ended(deliver(world, more, show))
    assert shown[1:] == [(shown[1][0], ["key", "total", "most", "average"], [("a", 10, 5, 10 / 3), ("c", 6, 6, 6.0)])]
    # The run before had nothing to take a checkpoint of.
    changes = [change.split(":")[0].split(";")[0] for change in details(query, "state-evolved")]
    assert changes[:2] == ["column 'the total' is now called 'total'", "aggregate max(value) (column 'most') is new"]


@pytest.mark.slow
def test_output_of_another_sink_is_shown_by_this_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a partitioned output that was cut short: those that readers see stay, the rest goes to the new sink."""
    fail_at(monkeypatch, "sink-between-files=raise:1")
    query = files(world, "total", "key", world.out)
    with pytest.raises(mixedmode.QueryError):
        query.awaitTermination(300)
    fail_at(monkeypatch, "")
    first = by_spark(world, world.out)
    assert len(first) == 1

    other = world.folder / "other"
    # Killed when the new files are there, but nothing names them.
    fail_at(monkeypatch, "restaged-before-named=raise:1")
    with pytest.raises(mixedmode.QueryError):
        files(world, "sum", "sum", other).awaitTermination(300)
    fail_at(monkeypatch, "")
    files(world, "sum", "sum", other).awaitTermination(300)
    rest = by_spark(world, other)
    assert sorted(first + rest, key=repr) == sorted([("a", 5), ("a/b", 2), (None, 3)], key=repr)
    assert [path.name for path in (world.out / "_mixedmode").glob("*")] == ["writers"], "nothing is staged any more"


def files(world: World, alias: str, partition: str, out: Path) -> MixedQuery:
    """A job over the history alone, whose output has a folder per value of a column."""
    keyed = world.read(BACKLOG, live=False).groupBy("key").agg(F.sum("value").alias(alias))
    writer = keyed.writeStream.format("parquet").partitionBy(partition).option("path", str(out))
    options = {"checkpointLocation": str(world.checkpoints), "pipeline.parallelism": "2"}
    query: MixedQuery = writer.options(**options).start()
    world.queries.append(query)
    return query


def by_spark(world: World, out: Path) -> list[tuple[Any, ...]]:
    """(key, total), whatever the total is called there."""
    frame = world.spark.read.parquet(str(out))
    (total,) = [name for name in frame.columns if name != "key"]
    return [tuple(row) for row in frame.select("key", F.col(total).cast("long")).collect()]


class Counts(StatefulProcessor):
    """Yields each key with the number of its rows so far."""

    def init(self, handle: Any) -> None:
        self._seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        (seen,) = self._seen.get() or (0,)
        seen += sum(1 for _ in rows)
        self._seen.update((seen,))
        yield (key[0], seen, at(seen).date())


def test_a_processors_columns_are_their_names_and_places(world: World) -> None:
    """A renamed column is shown under its new name; an added one would be null, and is refused by start()."""

    def keyed(schema: str) -> Any:
        read = world.read(BACKLOG)
        return read.groupBy("key").transformWithState(Counts(), schema, "append", "none")

    failed = deliver(world, keyed("key string, `how many` long, day date"), refuse, "append")
    with pytest.raises(mixedmode.QueryError):
        failed.awaitTermination(300)
    with pytest.raises(CheckpointMismatchError, match="this job's column more long is none of them"):
        deliver(world, keyed("key string, `how many` long, day date, more long"), refuse, "append")
    shown: list[tuple[Any, ...]] = []
    query = deliver(
        world,
        keyed("key string, n long, day date"),
        lambda rows, number: shown.extend((*row, rows.columns[1]) for row in rows.select("key", "n").collect()),
        "append",
    )
    ended(query)
    assert sorted(shown, key=repr) == sorted([("a", 2, "n"), ("a/b", 1, "n"), (None, 1, "n")], key=repr)
