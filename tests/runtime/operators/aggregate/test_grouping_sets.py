"""rollup, cube and groupingSets over epochs: the groups of all sets, which a real null is not mistaken in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from aggregate_support import events, measures, ms, out_of_order, same, tuples
from mixedmode.planner.stages.aggregates.aggregate import InputTraits, plan_aggregate
from mixedmode.runtime.operators.aggregate.grouping import GroupingSets
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

BOUNDED = InputTraits(bounded=True)

SETS = GroupingSets("groupingSets", 2, ((0,), (1,), ()))


def of_spark(frame: DataFrame, grouping: GroupingSets, groups: Sequence[Any], exprs: Sequence[Column]) -> DataFrame:
    """Stock Spark's answer, with the grouping id behind it."""
    if grouping.method == "groupingSets":
        grouped = frame.groupingSets([[groups[place] for place in places] for places in grouping.sets], *groups)
    else:
        grouped = getattr(frame, grouping.method)(*groups)
    return grouped.agg(*exprs, F.grouping_id().alias("gid"))


def planned(frame: DataFrame, groups: Sequence[Any], grouping: GroupingSets, mode: str = "append") -> AggregateOperator:
    return plan_aggregate(
        frame,
        groups,
        measures(),
        event_time="ts",
        output_mode=mode,
        uid="agg",
        traits=BOUNDED,
        grouping=grouping,
    )


def test_grouping_ids_are_sparks() -> None:
    """A bit for each key, from the left, set where the key is not grouped by."""
    assert [GroupingSets.rollup(2).id_of(places) for places in GroupingSets.rollup(2).sets] == [0, 1, 3]
    assert sorted(GroupingSets.cube(3).id_of(places) for places in GroupingSets.cube(3).sets) == list(range(8))
    assert GroupingSets.cube(2).ids_without(0) == (2, 3)
    assert (SETS.counted(1), SETS.counted(None), SETS.counted(0)) == (2, 1, 1)
    assert SETS.described(["k", "p"]) == ["(k)", "(p)", "()"]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["sorted", "random"])
@pytest.mark.parametrize(
    ("grouping", "slide"), [(GroupingSets.rollup(2), "10 minutes"), (GroupingSets.cube(2), "4 minutes")]
)
def test_groups_of_no_window_wait_for_the_end_and_count_late_rows(
    spark: SparkSession, job: Any, style: Any, grouping: GroupingSets, slide: str
) -> None:
    """Windows fire with the rows in time, as ever; the groups beside them have all rows, as in Spark's streams, and
    come when all input ends.  A row counts once, whatever the number of sets and windows."""
    groups = [F.window("ts", "10 minutes", slide), "k"]
    frame = events(spark, out_of_order(epochs=4, seed=7))
    running = job(planned(frame, groups, grouping))
    watermarks = [ms(-120), ms(10), ms(40), ms(70)]
    out: list[tuple[Any, ...]] = []
    for epoch, watermark in enumerate(watermarks):
        rows = frame.where(F.col("e") == epoch)
        fired = running.run(rows, late_ms=watermark, firing_ms=watermark, style=style)
        assert all(row[0] is not None for row in fired)
        assert running.total("rows_in") == rows.where("ts IS NOT NULL").count()
        out += fired
    out += running.run(None, firing_ms=MAX_WATERMARK, style=style)
    assert running.stored_entries() == 0

    late_at = F.element_at(F.array(*[F.lit(w) for w in watermarks]), F.col("e") + 1)
    windows = frame.select("*", F.window("ts", "10 minutes", slide).alias("window"))
    on_time = windows.where(F.unix_millis(F.col("window.end")) > late_at)
    of_windows = of_spark(on_time, grouping, ["window", "k"], measures()).where("gid < 2").drop("gid")
    of_all = of_spark(windows, grouping, ["window", "k"], measures()).where("gid >= 2").drop("gid")
    same(out, tuples(of_windows.toArrow()) + tuples(of_all.toArrow()))


@pytest.mark.slow
@pytest.mark.parametrize("grouping", [GroupingSets.rollup(2), GroupingSets.cube(2), SETS])
def test_a_real_null_is_not_a_key_that_is_left_out(spark: SparkSession, job: Any, grouping: GroupingSets) -> None:
    """Each touched group comes once per epoch with all its rows, equal to a batch over all rows so far."""
    rows = [(0, None, 1.0, 3), (0, "a", 1.0, 3), (1, None, 1.0, 4), (1, "b", 2.0, 5), (2, "a", 1.0, 14)]
    frame = events(spark, rows)
    running = job(planned(frame, ["k", "t"], grouping, mode="update"))
    found: dict[Any, Any] = {}
    for epoch in range(3):
        style = "sorted" if epoch == 0 else "random"
        out = running.run(frame.where(F.col("e") == epoch), style=style)
        expected = tuples(of_spark(frame.where(F.col("e") <= epoch), grouping, ["k", "t"], measures()).toArrow())
        touched = of_spark(frame.where(F.col("e") == epoch), grouping, ["k", "t"], measures()).select("k", "t", "gid")
        now = {tuple(row) for row in touched.collect()}
        same(out, [row[:-1] for row in expected if (row[0], row[1], row[-1]) in now])
        found[epoch] = out
    assert sum(row[0] is None and row[1] is None for row in found[1]) == 2, "all rows, and those without key"


def test_sets_are_part_of_what_a_stage_is(spark: SparkSession) -> None:
    """State of other sets is another job's: a set that comes later would have seen no earlier row."""
    frame = events(spark, [(0, "a", 1.0, 1)])
    of_rollup, of_cube = (planned(frame, ["k", "t"], one) for one in (GroupingSets.rollup(2), GroupingSets.cube(2)))
    assert of_rollup.describe()["grouping sets"] == ["(k, t)", "(k)", "()"]
    assert of_rollup.describe() != of_cube.describe()
    assert of_rollup.key_labels == ("k", "t", "grouping_id()")
    assert of_rollup.output_schema.names == ["k", "t", "n", "total", "greatest", "mean", "all"]


def test_aggregates_beside_a_grouping_id_come_and_go(spark: SparkSession, job: Any) -> None:
    """The id is computed of the key, so it is there for all groups at once; what is left out moves no other column."""
    frame = events(spark, [(0, "a", 1.0, 1), (0, None, 1.0, 2), (1, "a", 1.0, 3)])

    def of(*exprs: Column) -> AggregateOperator:
        return plan_aggregate(
            frame, ["k"], exprs, event_time=None, output_mode="update", uid="agg", grouping=GroupingSets.rollup(1)
        )

    greatest, gid = F.max("v").alias("m"), F.grouping_id().alias("gid")
    jobs = [of(F.sum("v"), greatest), of(F.sum("v"), greatest, gid), of(gid, F.sum("v").alias("s"))]
    running = job(jobs[0])
    same(running.run(frame.where("e = 0")), [("a", 1, 1), (None, 2, 2), (None, 3, 2)])
    operator = jobs[0]
    for changed in jobs[1:]:
        evolved = changed.evolved(operator.registry, operator.state_record, {})
        operator = evolved.operator
        assert evolved.rewrite is None or changed is jobs[2]
    assert operator.output_identities is not None
    assert operator.projection is not None
    assert operator.projection.row_schema.names == ["k0", "k1", "a0"]
    assert operator.output_schema.names == ["k", "gid", "s"]
