"""``mixedmode.delta.read``: a Delta table as history up to a version, and as stream from right behind that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from failing import fail_at
from kafka_support import check_each_once, numbered
from lake_support import append, numbers
from mixedmode import MixedModeError, OptionError, PlanError, QueryError, delta, read
from support import World, details, finish, live, refusal


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of five versions: 0 to 2 append, 3 takes a row away, 4 appends."""
    path = str(tmp_path_factory.mktemp("delta") / "table")
    for start in (0, 10, 20):
        append(spark, path, range(start, start + 10))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE value = 5")
    append(spark, path, range(40, 50))
    return path


def at_version(spark: Any, version: int) -> Any:
    return spark.read.format("delta").option("versionAsOf", version)


def test_the_stream_begins_behind_a_version_that_is_the_newest(world: World) -> None:
    """The next version need not be there when the job starts; every row comes once, over stops and starts."""
    path, spark = world.folder / "table", world.spark
    append(spark, path, range(10))
    append(spark, path, range(10, 20))
    for life in range(2):
        query = live(world.start(numbered(delta.read(spark, path))))
        if not life:
            (told,) = details(query, "seam")
            assert "up to version 1 is read as a batch, and live from version 2 on" in told
        append(spark, path, range(20 + 10 * life, 30 + 10 * life))
        finish(query)
        append(spark, path, range(100 + life, 101 + life))
    query = world.start(numbered(delta.read(spark, path)), availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), [*range(40), 100, 101])


def test_history_in_slices_goes_on_at_its_version_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that fails within its history is refused with another version, and ends right with its own."""
    path, spark = world.folder / "table", world.spark
    append(spark, path, range(40))
    options = {
        "execution.runtime-mode": "streaming",
        "execution.history.rows-per-epoch": 10,
        "execution.checkpointing.interval": "1 ms",
    }
    with monkeypatch.context() as failing:
        fail_at(failing, "epoch-before-apply=raise:3")
        with pytest.raises(QueryError, match="failpoint"):
            world.start(numbered(delta.read(spark, path)), options).awaitTermination(240)
    append(spark, path, range(40, 50))
    said = str(refusal(lambda: world.start(numbered(delta.read(spark, path)), options)))
    assert "has read a part of its history" in said and "Give the version" in said
    query = world.start(numbered(delta.read(spark, path, version=0)), options, availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), range(50))


@pytest.mark.parametrize("kind", ["path", "name"])
def test_a_version_in_the_middle(world: World, table: str, kind: str) -> None:
    """Versions behind it that only append come as a stream, by the table's folder and by its name."""
    spark = world.spark
    place: dict[str, Any] = {"path": table}
    if kind == "name":
        spark.sql(f"CREATE TABLE IF NOT EXISTS in_the_middle USING delta LOCATION '{table}'")
        place = {"table": "in_the_middle"}
    options = {"skipChangeCommits": True}
    query = world.start(numbered(delta.read(spark, version=1, options=options, **place)), availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), [*range(30), *range(40, 50)])


def test_another_history(world: World, table: str) -> None:
    """A copy holds what the table had; a read of a version says itself which one it is; parse makes rows alike."""
    spark = world.spark
    copy = numbers(spark, range(20)).select("key", "value")

    def parse(rows: Any) -> Any:
        return rows.select("key", "value").where("value < 45")

    rows = delta.read(spark, table, version=1, history=copy, parse=parse, options={"skipChangeCommits": "true"})
    query = world.start(numbered(rows), availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), [*range(30), *range(40, 45)])
    held = at_version(spark, 4).load(table)
    plan = numbered(delta.read(spark, table, history=held.where("value > 3"))).writeStream.format("noop").plan()
    assert "the history reads the table up to there, and live from version 5 on" in plan.explain()
    plain = [read(history=reader.load(table)) for reader in (spark.read.format("delta"), at_version(spark, 4))]
    warned = [numbered(rows).writeStream.format("noop").plan().warnings for rows in plain]
    assert "reads the Delta table" in warned[0][0] and "without a version" in warned[0][0] and not warned[1]


def test_what_the_log_shows_before_anything_runs(world: World, table: str) -> None:
    """A version behind which rows are taken away, or behind which commits are gone, is refused by start()."""
    spark = world.spark
    said = str(refusal(lambda: world.start(numbered(delta.read(spark, table, version=1)))))
    assert "version 3 takes rows away" in said and "skipChangeCommits" in said and "tolerate_gaps=True" in said
    path = world.folder / "shortened"
    for start in range(4):
        append(spark, path, [start], **{"delta.checkpointInterval": 2})
    for commit in range(2):  # as Delta does to those behind a checkpoint of its log
        Path(path, "_delta_log", f"{commit:020d}.json").unlink()
    rows = delta.read(spark, path, version=0, history=numbers(spark, [0]))
    assert "versions 1 to 1 are gone from the table's log" in str(refusal(lambda: world.start(numbered(rows))))
    tolerant = delta.read(spark, path, version=0, history=numbers(spark, [0]), tolerate_gaps=True)
    plan = numbered(tolerant).writeStream.format("noop").plan()
    assert any("are gone" in warning for warning in plan.warnings)


def test_what_does_not_fit_is_refused(world: World, table: str) -> None:
    """A table, version or history that is none, or another one, is named with what is allowed."""
    spark = world.spark
    loose = spark.read.format("delta").load(table)
    fixed = at_version(spark, 2).load(table)
    cases: list[tuple[dict[str, Any], type[MixedModeError], str]] = [
        ({}, PlanError, "either the table's path or its name"),
        ({"path": table, "table": "t"}, PlanError, "either the table's path or its name"),
        ({"path": world.folder / "nothing"}, PlanError, "cannot be read"),
        ({"path": table, "version": 9}, PlanError, "version = 9 is not there: the newest .* is 4"),
        ({"path": table, "version": -1}, PlanError, "0 or more, got -1"),
        ({"path": table, "history": loose}, PlanError, r"without a version.*option\('versionAsOf', 4\)"),
        ({"path": table, "history": fixed, "version": 1}, PlanError, "reads version 2 .*, and version = 1"),
        ({"path": table, "history": numbers(spark, [1])}, PlanError, "say up to which version"),
        ({"path": table, "options": {"startingVersion": 3}}, OptionError, "startingVersion = '3' says which versions"),
    ]
    for arguments, error, text in cases:
        with pytest.raises(error, match=text):
            delta.read(spark, **arguments)
