"""What may change between two runs of a job, at once, and what must not: the rows of ``docs/upgrade.md``."""

from __future__ import annotations

from typing import Any

import mixedmode
import pytest
import support
from support import World

support.by_value(__name__)

OBSERVED = {"execution.backlog.final-watermark": "observed"}
EVENTS = support.stream_of(120, seed=3)


class Renamed(support.Sessions):
    """The same code under another name."""


def sessions(live: Any, processor: Any, delay: str = "0 seconds", uid: str = "sessions") -> Any:
    keyed = mixedmode.read(live=live).withWatermark("ts", delay).groupBy("key")
    return keyed.transformWithState(processor, support.SESSION_SCHEMA, "append", "eventTime").uid(uid)


def lived(world: World, keyed: Any, options: dict[str, Any], *parts: Any) -> None:
    support.one_life(world, keyed, {**OBSERVED, **options}, *parts)


@pytest.fixture(scope="module")
def begun(worlds: Any) -> World:
    """A job that has run for a while, and is stopped."""
    world: World = worlds()
    lived(world, sessions(world.live(), support.Sessions()), {}, EVENTS[:40], EVENTS[40:60])
    return world


def test_what_may_not_change_is_refused_with_its_row(begun: World) -> None:
    """Mode batch, other stages, a live source of another kind: start() says which row of the table it is."""
    rate = begun.spark.readStream.format("rate").load()
    rate = rate.selectExpr("CAST(value AS string) AS key", "timestamp AS ts", "value")
    two = begun.read().withWatermark("ts", "0 seconds").dropDuplicates(["key", "ts"]).uid("unique")
    again = two.groupBy("key").transformWithState(support.Sessions(), support.SESSION_SCHEMA, "append", "eventTime")
    cases = [
        ("U2", sessions(begun.live(), support.Sessions()), {"execution.runtime-mode": "batch"}),
        ("U15", again.uid("sessions"), {}),
        ("U18", sessions(rate, support.Sessions()), {}),
        ("U15", sessions(begun.live(), support.Sessions(), uid="visits"), {}),
    ]
    for row, keyed, options in cases:
        error = support.refusal(lambda keyed=keyed, options=options: begun.start(keyed, {**OBSERVED, **options}))  # type: ignore[misc]
        assert f"[upgrade:{row}]" in str(error), (row, str(error))


def test_what_may_change_may_change_at_once(begun: World) -> None:
    """Options of the job and of its source, shards, a delay, a class's name, a column that nobody uses: the job goes on
    as if nothing had been."""
    wider = begun.spark.readStream.schema(f"{support.ROW_SCHEMA}, note string").option("maxFilesPerTrigger", 1)
    wider = wider.parquet(str(begun.landing))
    keyed = sessions(wider, Renamed(), delay="10 seconds")
    query = begun.start(
        keyed,
        {
            **OBSERVED,
            "execution.checkpointing.interval": "1 second",
            "state.checkpoints.num-retained": 1,
            "pipeline.parallelism": 3,
        },
    )
    support.live(query)
    begun.land(EVENTS[60:], support.flush_after(EVENTS))
    support.finish(query)
    assert begun.results() == begun.expected(EVENTS)
