"""The same function and micro-batches in stock ``applyInPandasWithState``: state, timeouts, late rows, numpy keys.

As in :mod:`test_stock`, no row is exactly at the watermark and no timeout is due at exactly a watermark.  The function
changes the state in each call: stock forgets to take back the timeout of a call that does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import support
from mixedmode import PlanError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from session_options import session_options
from support import World

support.by_value(__name__)

DELAY = "100 seconds"
# No arrays: stock 4.3 puts the state's schema into lower case, and then cannot read it.
STATE = "start timestamp, count long, tags string"
OUTPUT = f"half int, key string, what string, {STATE}, watermark long"


def sessions(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A row per call; a key that has been quiet for five minutes is closed."""
    start, count, tags = state.getOption or (None, 0, "")
    if state.hasTimedOut:
        what = "closed"
        assert [len(frame) for frame in frames] == [0]
        state.remove()
    else:
        what = "rows"
        last = 0
        for frame in frames:
            start = min([frame["ts"].min(), *([] if start is None else [pd.Timestamp(start)])]).to_pydatetime()
            count += np.int64(len(frame))
            tags = " ".join(sorted([*tags.split(), *(f"t{value}" for value in frame["value"])]))
            last = max(last, frame["ts"].max().value // 1_000_000)
        state.update((start, count, tags))
        state.setTimeoutTimestamp(max(last + 300_000, state.getCurrentWatermarkMs() + 1))
    assert isinstance(key[0], np.integer) or np.isnan(key[0])
    yield pd.DataFrame(
        {
            "key": [key[1]],
            "half": [key[0]],
            "what": [what],
            "start": [start],
            "count": [count],
            "tags": [tags],
            "watermark": [state.getCurrentWatermarkMs()],
        }
    )


def job_of(read: Any) -> Any:
    half = F.when(F.col("value") != 4, F.when(F.col("key") > "b", 2).otherwise(1)).alias("half")
    return (
        read.withWatermark("ts", DELAY)
        .select("key", "ts", "value", half)
        .groupBy("half", "key")
        .applyInPandasWithState(sessions, OUTPUT, STATE, "append", GroupStateTimeout.EventTimeTimeout)
    )


def plain(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect() if row.key != support.FLUSH_KEY), key=repr)


@pytest.mark.slow
def test_a_stream_agrees_with_stock(worlds: Any, spark: SparkSession) -> None:
    """Micro-batch by micro-batch, each key's rows in one call, as stock has them; in any number of frames."""
    stock, world = worlds(), worlds()
    found: list[Any] = []
    with session_options(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}):
        writer = job_of(stock.live()).writeStream.foreachBatch(lambda frame, number: found.extend(frame.collect()))
        with support.one_partition(spark):
            reference = writer.option("checkpointLocation", str(stock.folder / "stock")).start()
        options = {"execution.runtime-mode": "streaming", "pipeline.timers": "after-rows"}
        query = support.live(world.start(job_of(world.read()), options))
        for batch in support.OUT_OF_ORDER:
            for one, its in ((stock, reference), (world, query)):
                one.land(batch)
                its.processAllAvailable()
        reference.stop()
        query.stop()
    schema = spark.createDataFrame([], OUTPUT).schema
    expected = sorted((tuple(row) for row in found if row.key != support.FLUSH_KEY), key=repr)
    assert plain(spark.read.schema(schema).parquet(str(world.out))) == expected
    assert {row[2] for row in expected} == {"rows", "closed"}


COUNTED = "key string, calls long, rows long"


def counted(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """What `docs/processors.md` promises of a backlog: one call with all rows of the key."""
    if state.hasTimedOut:
        yield pd.DataFrame({"key": [key[0]], "calls": [-1], "rows": [0]})
        return
    calls, rows = state.getOption or (0, 0)
    rows += sum(len(frame) for frame in frames)
    state.update((calls + 1, rows))
    yield pd.DataFrame({"key": [key[0]], "calls": [calls + 1], "rows": [rows]})


def test_a_backlog_is_one_call_per_key(world: World) -> None:
    """State goes on in the stream; the output mode of function and writer are one, as in stock."""
    events = support.stream_of(120)
    keyed = (
        world.read(events)
        .groupBy("key")
        .applyInPandasWithState(counted, COUNTED, "calls long, rows long", "append", "NoTimeout")
    )
    query = support.live(world.start(keyed))
    world.land([("k1", 5, 1), ("k2", 6, 1), ("k1", 7, 1)])
    support.finish(query)
    counts = {key: sum(1 for one, _, _ in events if one == key) for key, _, _ in events}
    assert world.output() == sorted(
        [*((key, 1, rows) for key, rows in counts.items()), ("k1", 2, counts["k1"] + 2), ("k2", 2, counts["k2"] + 1)],
        key=repr,
    )
    with pytest.raises(PlanError, match="append of applyInPandasWithState does not go with outputMode update"):
        keyed.writeStream.outputMode("update").format("memory").queryName("x").plan()


def test_rows_that_replace_others_do_not_go_to_another_stage(world: World) -> None:
    """As in stock: what comes before a stage is append only."""
    grouped = world.read().groupBy("key")
    for mode in ("append", "update"):
        keyed = grouped.applyInPandasWithState(counted, COUNTED, "calls long, rows long", mode, "NoTimeout")
        writer = keyed.groupBy("calls").count().writeStream.outputMode("update").format("memory").queryName("x")
        if mode == "append":
            writer.plan()
        else:
            with pytest.raises(
                PlanError, match=r"\(outputMode append\): outputMode update of applyInPandasWithState does not"
            ):
                writer.plan()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"func": 5}, "func must be a function of key, frames and state, got int"),
        (
            {"func": lambda key, frames: []},
            "func <lambda> is called with key, frames and state",
        ),
        ({"outputMode": "complete"}, "outputMode complete of applyInPandasWithState is not supported, as in Spark"),
        ({"outputMode": "x"}, "outputMode of applyInPandasWithState is 'x'; use append or update"),
        ({"timeoutConf": "never"}, "timeoutConf is 'never'; use GroupStateTimeout.NoTimeout"),
        ({"timeoutConf": "EventTimeTimeout"}, "timeoutConf EventTimeTimeout needs an event time; call withWatermark"),
        ({"stateStructType": "n"}, "stateStructType 'n' is not a DDL schema"),
        ({"outputStructType": 5}, "outputStructType must be a StructType or a DDL string"),
    ],
)
def test_arguments_are_checked_where_they_are_written(world: World, changes: dict[str, Any], problem: str) -> None:
    arguments = {
        "func": counted,
        "outputStructType": COUNTED,
        "stateStructType": "calls long, rows long",
        "outputMode": "append",
        "timeoutConf": "NoTimeout",
        **changes,
    }
    with pytest.raises(PlanError, match=problem):
        world.read().groupBy("key").applyInPandasWithState(**arguments)


def ended(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A key ends as soon as five seconds behind its last row are behind the watermark, as stock compares them."""
    (last,) = state.getOption or (0,)
    for frame in frames:
        last = max([last, *(time.value // 1_000_000 for time in frame["ts"])])
    if last + 5000 < state.getCurrentWatermarkMs():
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "last": [last]})
    else:
        state.update((last,))
        state.setTimeoutTimestamp(last + 5000)


@pytest.mark.slow
@pytest.mark.parametrize("timers", ["in-order", "after-rows"])
def test_a_timeout_is_behind_the_watermark_that_its_call_sees(world: World, timers: str) -> None:
    """So a function that closes what is strictly behind the watermark closes it at its timeout, as in stock."""
    keyed = (
        world.read([("a", 0, 1), ("b", 3, 1), ("c", 100, 1)])
        .withWatermark("ts", "0 seconds")
        .groupBy("key")
        .applyInPandasWithState(ended, "key string, last long", "last long", "append", "EventTimeTimeout")
    )
    query = support.live(world.start(keyed, {"pipeline.timers": timers}))
    world.feed(query, [("d", 200, 1)])
    support.wait_until(lambda: len(world.output()) >= 3 or not query.isActive, 60)
    query.stop()
    assert world.output() == [("a", support.at_ms(0)), ("b", support.at_ms(3)), ("c", support.at_ms(100))]
