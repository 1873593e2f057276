"""``mixedmode.iceberg.read``: an Iceberg table up to a snapshot as history, and from right behind that as stream."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_support import check_each_once, numbered
from lake_support import numbers
from mixedmode import MixedModeError, OptionError, PlanError, iceberg
from support import World, finish, live, refusal


def add(spark: Any, table: str, values: Any) -> int:
    """Add rows by one snapshot; returns its id."""
    numbers(spark, values).write.format("iceberg").mode("append").saveAsTable(table)
    (row,) = spark.table(f"{table}.refs").where("name = 'main'").collect()
    return int(row.snapshot_id)


@pytest.fixture(scope="module")
def table(spark: Any) -> tuple[str, dict[str, int]]:
    """A table whose third snapshot takes rows away."""
    name = "ice.db.middle"
    ids = {"first": add(spark, name, range(10)), "second": add(spark, name, range(10, 20))}
    spark.sql(f"DELETE FROM {name} WHERE value = 5")
    ids["last"] = add(spark, name, range(20, 30))
    return name, ids


@pytest.mark.parametrize("by", ["name", "path"])
def test_the_stream_begins_behind_a_snapshot_that_is_the_newest(world: World, lake: Any, by: str) -> None:
    """The next snapshot need not be there when the job starts; every row comes once, over stops and starts."""
    spark, name = world.spark, f"ice.db.newest_{by}"
    place = name if by == "name" else str(lake / "ice" / "db" / f"newest_{by}")
    add(spark, name, range(10))
    add(spark, name, range(10, 20))
    for life in range(2):
        query = live(world.start(numbered(iceberg.read(spark, place))))
        add(spark, name, range(20 + 10 * life, 30 + 10 * life))
        finish(query)
        add(spark, name, range(100 + life, 101 + life))
    query = world.start(numbered(iceberg.read(spark, place)), availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), [*range(40), 100, 101])


def test_a_snapshot_in_the_middle(world: World, table: tuple[str, dict[str, int]]) -> None:
    """Snapshots behind it come as a stream; one that takes rows away is refused unless the stream skips such ones."""
    spark, (name, ids) = world.spark, table
    said = str(refusal(lambda: world.start(numbered(iceberg.read(spark, name, snapshot=ids["first"])))))
    assert "ends there unless it skips" in said and "tolerate_gaps=True" in said
    skipping = {"streaming-skip-overwrite-snapshots": True, "streaming-skip-delete-snapshots": True}
    rows = iceberg.read(spark, name, snapshot=ids["first"], options=skipping)
    query = world.start(numbered(rows), availableNow=True)
    assert query.awaitTermination(240)
    check_each_once(world.output(), range(30))


def test_what_does_not_fit_is_refused(world: World, table: tuple[str, dict[str, int]]) -> None:
    """A table, snapshot or history that is none, or another one, is named with what is allowed."""
    spark, (name, ids) = world.spark, table
    fixed = spark.read.option("versionAsOf", ids["second"]).table(name)
    cases: list[tuple[dict[str, Any], type[MixedModeError], str]] = [
        ({"table": ""}, PlanError, "name or the folder of a table"),
        ({"table": "ice.db.nothing"}, PlanError, "cannot be read"),
        ({"table": name, "snapshot": 5}, PlanError, "snapshot = 5 is not one of"),
        ({"table": name, "history": spark.table(name)}, PlanError, "without a snapshot"),
        ({"table": name, "history": fixed, "snapshot": ids["first"]}, PlanError, "between them rows would"),
        ({"table": name, "history": numbers(spark, [1])}, PlanError, "say up to which snapshot"),
        ({"table": name, "options": {"stream-from-timestamp": 3}}, OptionError, "says which snapshots"),
    ]
    for arguments, error, text in cases:
        with pytest.raises(error, match=text):
            iceberg.read(spark, **arguments)
    plan = numbered(iceberg.read(spark, name, history=spark.read.option("versionAsOf", ids["last"]).table(name)))
    explained = plan.writeStream.format("noop").plan().explain()
    assert "the history reads the table up to there, and live from right behind snapshot" in explained
