"""Jobs whose histories are read by tasks, in place of Spark: output and state, then and in the stream that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support import World, live
from test_dedup import DELAY, END_S, HISTORY, LIVE, by_key, repeated, within

ENGINES = ("spark", "arrow")


def state_of(world: World) -> list[str]:
    return sorted(str(row) for row in mixedmode.state_reader(str(world.checkpoints), world.spark).state().collect())


def run(world: World, keyed: Any, engine: str, landings: Sequence[Callable[[], object]]) -> list[Any]:
    """What is out and what is kept after the backlog, and after what lands then, each landing by itself."""
    query = live(world.start(keyed, {"execution.backlog.engine": engine}))
    found: list[Any] = [world.output(), state_of(world)]
    for land in landings:
        land()
        query.processAllAvailable()
    support.stop(query)
    return [*found, world.output(), state_of(world)]


@pytest.mark.slow
@pytest.mark.parametrize("make", [by_key, within], ids=["for ever", "within"])
def test_a_deduplication_goes_on_with_the_same_state(spark: SparkSession, tmp_path: Any, make: Any) -> None:
    """Whoever has read the history: the rows that went out, the keys that are kept, and what is a duplicate of them."""
    found, new = {}, [("new", END_S + 500, 1), ("new", END_S + 501, 2)]
    for engine in ENGINES:
        world = World(spark, tmp_path / engine)
        keyed = make(world.read(HISTORY))
        landings = [partial(world.land, events) for events in (HISTORY[-20:], *LIVE, new)]
        found[engine] = run(world, keyed, engine, landings)
    assert found["arrow"] == found["spark"]
    assert len(found["arrow"][0]) > 20
    assert found["arrow"][1]
    assert len(found["arrow"][2]) > len(found["arrow"][0])


def test_a_join_goes_on_with_the_same_state(spark: SparkSession, tmp_path: Any) -> None:
    """Rows of either side that waited meet the partners that come later, and go out without one if none does."""
    sides = [repeated(120, seed=seed, keys=12) for seed in (5, 6)]
    found = {}
    for engine in ENGINES:
        worlds = [World(spark, tmp_path / engine / side) for side in ("left", "right")]
        left, right = (
            mixedmode.read(history=world.history(events[:-20]), live={f"live-{side}": world.live()})
            for side, (world, events) in enumerate(zip(worlds, sides, strict=True))
        )
        right = right.selectExpr("key AS who", "ts AS paid", "value AS cents").withWatermark("paid", DELAY)
        condition = F.expr("key = who AND paid BETWEEN ts - INTERVAL 1 MINUTE AND ts + INTERVAL 2 MINUTES")
        keyed = left.withWatermark("ts", DELAY).join(right, condition, "left")
        landings = [
            partial(world.land, landed)
            for world, events in zip(worlds, sides, strict=True)
            for landed in (events[-20:], [("flush", 10_000, 0)])
        ]
        found[engine] = run(worlds[0], keyed, engine, landings)
    assert found["arrow"] == found["spark"]
    assert all(map(len, found["arrow"]))


def test_explain_says_who_reads_the_rows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Small histories are Spark's, as it reads them as fast; an option has tasks read them all the same."""
    keyed = world.read(HISTORY).withWatermark("ts", DELAY)
    for engine, said in (("auto", "spark (auto: the files have 0.0 MiB"), ("arrow", "deduplicate their rows")):
        writer = keyed.dropDuplicates(["key"]).writeStream.option("path", str(world.out))
        writer = writer.option("checkpointLocation", str(world.checkpoints))
        assert said in str(writer.option("execution.backlog.engine", engine).plan())
