"""Deduplication jobs from history to stream: against Spark in batch, stock streaming and a model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import mixedmode
import pytest
import support
from mixedmode.errors import CheckpointMismatchError
from support import World

DELAY = "100 seconds"


def by_key_and_time(frame: Any) -> Any:
    return frame.withWatermark("ts", DELAY).dropDuplicates(["key", "ts"])


def by_key(frame: Any) -> Any:
    return frame.withWatermark("ts", DELAY).dropDuplicates(["key"])


def within(frame: Any) -> Any:
    return frame.withWatermark("ts", DELAY).dropDuplicatesWithinWatermark(["key"])


def rows_of(events: Iterable[support.Event]) -> list[tuple[Any, ...]]:
    """The events as a reader of the output sees them."""
    times = [(key, None if seconds is None else support.at(seconds), value) for key, seconds, value in events]
    return sorted(times, key=repr)


def survivors(events: Sequence[support.Event], key: Any) -> list[support.Event]:
    """Of each key the event with the least event time, and of those the first; nulls first."""
    first: dict[Any, support.Event] = {}
    for event in sorted(events, key=lambda event: (event[1] is not None, event[1])):
        first.setdefault(key(event), event)
    return list(first.values())


def repeated(rows: int, seed: int, keys: int = 30, step_s: int = 3) -> list[support.Event]:
    """Events in order of time, of which many come again a little later: with their time, or with another one."""
    chance = random.Random(seed)
    now_s, events = 0, []
    for _ in range(rows):
        now_s += chance.randrange(step_s)
        event = (f"k{chance.randrange(keys)}", now_s, chance.randrange(5))
        events.append(event)
        if chance.random() < 0.4:
            events.append((event[0], event[1], chance.randrange(5)))
    return events


HISTORY = repeated(200, seed=1)
END_S = HISTORY[-1][1]
LIVE = [[(k, END_S + s, v) for k, s, v in repeated(20, seed=part, step_s=5)] for part in (2, 3)]


def test_history_then_live_puts_out_one_row_a_key_and_goes_on_with_its_state(world: World) -> None:
    """The keys are those of one batch over everything; in the backlog the first row stays, live the first epoch's."""
    job = by_key_and_time(world.read(HISTORY))
    query = support.live(world.start(job))
    assert world.output() == rows_of(survivors(HISTORY, lambda event: event[:2]))
    again = [(k, s, v) for k, s, v in HISTORY if s > END_S - 90][:5]
    world.feed(query, [*again, *LIVE[0]])
    world.land([*LIVE[0], *LIVE[1]])
    support.finish(query)
    every = [*HISTORY, *LIVE[0], *LIVE[1]]
    frame = world.spark.createDataFrame([(k, support.at(s), v) for k, s, v in every], support.ROW_SCHEMA)
    assert sorted(row[:2] for row in world.output()) == sorted(
        tuple(row) for row in frame.dropDuplicates(["key", "ts"]).select("key", "ts").collect()
    )
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    kept = {row.ts for row in reader.state("seen").select("key.ts").collect()}
    assert min(kept) > support.at(END_S - 100), "keys behind the watermark are forgotten"
    assert reader.timers().count() == reader.state("seen").count()


#: Micro-batches with duplicates in them, across them and behind the watermark, and one of duplicates alone; no event
#: time is equal to a watermark.
BATCHES: list[list[support.Event]] = [
    [("a", 1000, 1), ("b", 1010, 2), ("a", 1000, 1), (None, 1003, 3), (None, 1003, 3), ("n", None, 9)],
    [("a", 1000, 1), ("a", 1199, 4), ("b", 905, 5), ("c", 911, 6), ("n", None, 9)],  # the watermark is 910
    [("c", 1112, 7), ("a", 1098, 1), ("b", 1010, 2), ("a", 1199, 4)],  # 1099: all but the first and last are late
    [("a", 1199, 4), ("a", 1199, 4)],
    [("c", 1650, 7), ("b", 1651, 8), ("e", 1652, 8)],
    [("c", 1549, 9), ("b", 1553, 8), ("e", 1800, 8), ("a", 2600, 11)],
    [("a", 2601, 12), ("e", 2602, 8)],
]
JOBS = {"time": by_key_and_time, "key": by_key, "within": within}


def put_out(stream: Any, checkpoints: Any, rows: list[tuple[Any, ...]], **options: Any) -> Any:
    """A writer that collects the rows of each micro-batch."""
    writer = stream.writeStream.foreachBatch(lambda frame, number: rows.extend(tuple(row) for row in frame.collect()))
    return writer.options(checkpointLocation=str(checkpoints), **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_stream_puts_out_and_drops_what_stock_does(worlds: Any, name: str) -> None:
    """Micro-batch by micro-batch: keys with and without event time, and with a delay; null keys are one."""
    ours, stock = worlds(), worlds()
    given: list[tuple[Any, ...]] = []
    wanted: list[tuple[Any, ...]] = []
    # As stock, which forgets no key before the end of a micro-batch.
    options = {"execution.runtime-mode": "streaming", "pipeline.parallelism": "2", "pipeline.timers": "after-rows"}
    query = put_out(JOBS[name](ours.read()), ours.checkpoints, given, **options).start()
    ours.queries.append(query)
    with support.one_partition(stock.spark):
        other = put_out(JOBS[name](stock.live()), stock.checkpoints, wanted).start()
    try:
        for batch in BATCHES:
            for world, one in ((ours, query), (stock, other)):
                world.feed(one, batch)
    finally:
        other.stop()
    support.stop(query)
    assert sorted(given, key=repr) == sorted(wanted, key=repr)
    assert 5 < len(wanted) < sum(map(len, BATCHES))


def forgetful(events: Sequence[support.Event], delay_s: int = 100) -> list[support.Event]:
    """What an orderly stream puts out within the watermark: a row of time t sees the watermark t - delay."""
    until: dict[Any, int] = {}
    out = []
    for event in sorted(set(events), key=lambda event: (event[1], event[2])):
        if event[1] - delay_s >= until.get(event[0], -delay_s):
            out.append(event)
            until[event[0]] = event[1] + delay_s
    return out


@pytest.mark.slow
def test_within_the_watermark_a_backlog_gives_what_an_orderly_stream_does(world: World) -> None:
    """However it is cut into history and live; a key that comes again after its delay is new, and its state is one."""
    events = [(f"k{n % 7}", 37 * n, n % 3) for n in range(90)]
    events += [(k, s, v + 1) for k, s, v in events[::4]]
    events.sort(key=lambda event: event[1])
    cut = 60
    query = world.start(
        within(world.read(events[:cut])),
        {"pipeline.late-data.path": str(world.folder / "late")},
    )
    support.live(query)
    world.feed(query, events[cut:75], events[75:])
    world.land([("k0", 10, 5), ("new", 11, 5)])  # behind the watermark
    support.finish(query)
    assert world.output() == rows_of(forgetful(events))
    assert len(world.output()) > 30, "keys come again"
    late = world.spark.read.parquet(str(world.folder / "late"))
    assert sorted((row.key, row.value) for row in late.collect()) == [("k0", 5), ("new", 5)]


@pytest.mark.slow
def test_within_the_watermark_behind_another_deduplication_keys_are_forgotten_as_late_as_before_it(
    world: World,
) -> None:
    """Its rows come when the watermark is still a delay behind them."""
    events = [(f"k{n % 4}", 37 * n, n % 3) for n in range(90)]
    first = by_key_and_time(world.read(events[:60]))
    query = support.live(world.start(first.dropDuplicatesWithinWatermark(["key"])))
    world.land(events[60:])
    support.finish(query)
    assert world.output() == rows_of(forgetful(events))
    assert len(world.output()) < len(events), "some come before their key is forgotten"


@pytest.mark.slow
def test_another_run_goes_on_with_other_shards_and_refuses_other_columns(world: World) -> None:
    """Restarted with three shards, of a savepoint and of a checkpoint; what else is in the rows may change."""

    def job() -> Any:
        return world.read(HISTORY).dropDuplicates(["key"])

    query = world.start(job(), availableNow=True)
    query.awaitTermination()
    first = world.output()
    assert first == rows_of(survivors(HISTORY, lambda event: event[0]))
    world.land([*HISTORY[:5], ("fresh", END_S, 1)])
    query = world.start(job(), {"pipeline.parallelism": 3}, availableNow=True)
    query.awaitTermination()
    assert world.output() == sorted([*first, ("fresh", support.at(END_S), 1)], key=repr)
    reader = mixedmode.state_reader(str(world.checkpoints), world.spark)
    assert [(found.operator, found.key, found.shards) for found in reader.operators()] == [
        ("dropDuplicates", ("key string",), 3)
    ]
    assert reader.lookup("fresh")["found"] and not reader.lookup("never")["found"]
    other = world.read(HISTORY).dropDuplicates(["key", "value"])
    error = support.refusal(lambda: world.start(other, availableNow=True))
    assert isinstance(error, CheckpointMismatchError) and "key" in str(error)


def test_batch_mode_keeps_nothing_and_equals_spark(world: World) -> None:
    """All rows at once, by all columns: the rows of ``distinct``."""
    events = [*HISTORY, *HISTORY[:50], (None, None, None), (None, None, None)]
    frame = world.history(events)
    query = world.start(mixedmode.read(history=frame).distinct(), {"execution.runtime-mode": "batch"})
    query.awaitTermination()
    assert world.output() == sorted((tuple(row) for row in frame.distinct().collect()), key=repr)
