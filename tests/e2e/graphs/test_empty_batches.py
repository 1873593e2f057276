"""Micro-batches of which Spark knows before any job that no row is left, as no file, or no offset, is."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World
from two_ways import SCHEMA, TwoWays

EVENTS = support.stream_of(120, seed=5, keys=6)
OPTIONS = {"execution.checkpointing.interval": "1 hour"}


class Kinds:
    """A landing zone with a folder for each kind of events, of which a job takes one.

    Args:
        world: the job's folders.
    """

    def __init__(self, world: World) -> None:
        self._world, self._landed = world, 0

    @property
    def live(self) -> DataFrame:
        """The events of a kind, as a stream."""
        rows = self._world.spark.readStream.schema(f"{support.ROW_SCHEMA}, kind string").parquet(
            str(self._world.landing)
        )
        return rows.where("kind = 'wanted'").drop("kind")

    def land(self, kind: str, events: Any) -> None:
        """One more file."""
        folder = self._world.landing / f"kind={kind}"
        folder.mkdir(exist_ok=True)
        support.write(folder / f".{self._landed}.parquet", events)
        (folder / f".{self._landed}.parquet").rename(folder / f"{self._landed}.parquet")
        self._landed += 1


def jobs(world: World) -> int:
    """How many Spark has been asked for so far."""
    return int(world.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def hours(frame: Any) -> Any:
    """Totals of windows."""
    rows = frame.observe("seen", F.count("*").alias("n")).withWatermark("ts", "0 seconds")
    return rows.groupBy("key", F.window("ts", "1 hour")).agg(F.sum("value").alias("total"), F.count("*").alias("n"))


@pytest.mark.slow
@pytest.mark.parametrize("job", [hours, support.sessions], ids=["an aggregate", "a processor"])
def test_a_micro_batch_without_rows_takes_no_job_and_counts_as_one(world: World, job: Any) -> None:
    """What is due by then fires as always, what comes later is as if there had been none, and progress says 0."""
    kinds = Kinds(world)
    history = world.history(EVENTS[:40])
    if job is hours:
        described = hours(mixedmode.read(history=history, live=kinds.live))
    else:
        described = support.sessions(history, kinds.live)
    query = support.live(world.start(described, {**OPTIONS, "execution.backlog.final-watermark": "observed"}))
    wanted = [EVENTS[40:80], EVENTS[80:], support.flush_after(EVENTS)]
    for part in wanted:
        kinds.land("wanted", part)
        query.processAllAvailable()
        # Those are due now that no row was there to fire; without observed metrics of nothing, which take a job once.
        for _ in range(2):
            kinds.land("other", EVENTS[:5])
            query.processAllAvailable()
        before, epochs = jobs(world), len(query.recentProgress)
        kinds.land("other", EVENTS[:5])
        query.processAllAvailable()
        assert jobs(world) == before
        assert len(query.recentProgress) == epochs + 1, "it is an epoch all the same"
        last = query.lastProgress
        assert last is not None and last["numInputRows"] == 0
        if job is hours:
            assert last["observedMetrics"]["seen"].n == 0
    support.stop(query)
    if job is hours:
        made = [(key, support.at(seconds), value) for key, seconds, value in EVENTS]
        rows = hours(world.spark.createDataFrame(made, support.ROW_SCHEMA)).collect()
        expected = sorted((row.key, row.window.start, row.total, row.n) for row in rows)
        shown = world.spark.read.parquet(str(world.out)).where(F.col("key") != support.FLUSH_KEY).collect()
        assert sorted((row.key, row.window.start, row.total, row.n) for row in shown) == expected
    else:
        assert world.results() == support.sessions_of(EVENTS)


@pytest.mark.slow
def test_without_keys_there_is_a_row_of_no_rows(world: World) -> None:
    """A count of everything is shown again where nothing came, as Spark's own stream does."""
    kinds, shown = Kinds(world), []

    def note(rows: DataFrame, _: int) -> None:
        shown.append([row.n for row in rows.collect()])

    frame = mixedmode.read(history=world.history(EVENTS[:40]), live=kinds.live)
    writer = frame.groupBy().agg(F.count("*").alias("n")).writeStream.outputMode("update").foreachBatch(note)
    writer = writer.option("checkpointLocation", str(world.checkpoints)).option(
        "execution.checkpointing.interval", "1 hour"
    )
    query = writer.start()
    world.queries.append(query)
    support.live(query)
    kinds.land("wanted", EVENTS[40:50])
    query.processAllAvailable()
    kinds.land("other", EVENTS[50:60])
    support.finish(query)
    assert shown[-2:] == [[50], [50]], shown


def functions() -> list[Any]:
    """Aggregates that need not be null of no rows, and some that are."""
    texts = ["count(value)", "sum(value)", "avg(value)", "stddev(value)", "max(key)"]
    texts += ["collect_list(value)", "collect_set(key)", "approx_count_distinct(value)", "count_if(value > 3)"]
    texts += ["percentile_approx(value, 0.5)", "corr(value, value)", "max_by(key, value, 2)", "bool_and(value > 0)"]
    return [F.expr(text).alias(f"a{place}") for place, text in enumerate(texts)]


GLOBALS: dict[str, Any] = {
    "one stage": lambda rows: rows.where("value < 0").agg(*functions()),
    "several stages": lambda rows: rows.where("value < 0").dropDuplicates(["key"]).groupBy().agg(*functions()),
    "of several rows of one order the last": lambda rows: rows.agg(
        F.max_by("value", F.col("key") % 1).alias("x"), F.min_by("value", F.col("key") % 1).alias("y")
    ),
    "a union of which one part has rows": lambda rows: (
        rows.where("value < 0").union(rows.where("key = 1")).groupBy().agg(F.count("*").alias("n"))
    ),
}


@pytest.mark.parametrize(
    ("job", "mode", "histories"),
    [
        ("one stage", "update", (0, 1)),
        pytest.param("several stages", "update", (0, 1), marks=pytest.mark.slow),
        *(pytest.param(job, "update", (0,), marks=pytest.mark.slow) for job in GLOBALS if "stage" not in job),
        # Several stages show no more in this mode: what is shown is of the last one.
        pytest.param("one stage", "complete", (0,), marks=pytest.mark.slow),
    ],
)
def test_aggregate_without_keys_begins_with_the_first_micro_batch_as_in_stock(
    spark: Any, tmp_path: Any, job: str, mode: str, histories: tuple[int, ...]
) -> None:
    """Though a filter drops every row: as a stream, and of one and of several stages with the first micro-batch as
    history."""
    batches = [{"in": [(7, 1, 5), (8, 2, 6)]}, {"in": [(7, 3, 4)]}]
    ways = TwoWays(spark, tmp_path, batches)
    expected = ways.stock_rows(lambda read: GLOBALS[job](read("in")), mode)[-1]
    for history in histories:
        shown = ways.our_rows(lambda read: GLOBALS[job](read("in")), mode, history=history)
        assert shown[-1] == expected, history


@pytest.mark.slow
def test_aggregate_without_keys_of_sources_that_have_given_nothing_is_not_shown(spark: Any, tmp_path: Any) -> None:
    """As in stock Spark, where no micro-batch has run."""
    ways = TwoWays(spark, tmp_path, [], {"in": SCHEMA})
    for found in (ways.stock_rows, ways.our_rows):
        assert found(lambda read: read("in").groupBy().count(), "complete") == []
