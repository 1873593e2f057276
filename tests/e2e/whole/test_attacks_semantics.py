"""Agreement with stock Spark where it is easily lost: what waits for the end of input, rows by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mixedmode
import pytest
import support
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World

support.by_value(__name__)

EVENTS: list[support.Event] = [("a", 1, 5), ("b", 2, 7), ("a", 30, 11), (None, None, 13), ("b", 900, 17)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_keys_without_event_time_come_out_when_the_input_ends(world: World, mode: str) -> None:
    """An append of a bounded job gives every key once, at the end, also when the history runs as a stream."""
    history = world.history(EVENTS)
    keyed = mixedmode.read(history=history).groupBy("key").agg(F.sum("value").alias("total"))
    options = {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": "2"}
    query = world.start(keyed, options)
    assert query.awaitTermination(300)
    stock = history.groupBy("key").agg(F.sum("value").alias("total")).collect()
    assert world.output() == sorted((tuple(row) for row in stock), key=repr)


class Swapped(StatefulProcessor):
    """Yields rows whose fields are not in the schema's order."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        values = [row.value for row in rows]
        yield Row(most=max(values), least=min(values), pair=Row(most=max(values), least=min(values)))


def test_rows_of_a_processor_go_by_name(world: World) -> None:
    """As in stock transformWithState, a Row's fields are matched by name, also those of nested structs."""
    keyed = (
        world.read(EVENTS, live=False)
        .groupBy("key")
        .transformWithState(Swapped(), "least long, most long, pair struct<least:long,most:long>", "append", "none")
    )
    query = world.start(keyed)
    assert query.awaitTermination(300)
    assert world.output() == [
        (13, 13, {"least": 13, "most": 13}),
        (5, 11, {"least": 5, "most": 11}),
        (7, 17, {"least": 7, "most": 17}),
    ]


class Counts(StatefulProcessor):
    """Counts the rows of a key."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        yield Row(k=str(key[0]), n=len(list(rows)))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "kind"), [("streaming", "aggregate"), ("mixed", "processor")])
def test_columns_may_have_any_name(world: World, mode: str, kind: str) -> None:
    """Dots, spaces and backticks in the names of keys, values and event time make no difference."""
    odd = world.history([("a", 1, 5), ("b", 900, 7)]).toDF("a.key", "event.time", "x`y z")
    keyed = mixedmode.read(history=odd).withWatermark("`event.time`", "1 second").groupBy("`a.key`")
    if kind == "processor":
        stage: Any = keyed.transformWithState(Counts(), "k string, n long", "append", "eventTime")
    else:
        stage = keyed.agg(F.count("`x``y z`").alias("n.n"))
    query = world.start(stage, {"execution.runtime-mode": mode, "execution.history.rows-per-epoch": "1"})
    assert query.awaitTermination(300)
    assert world.output() == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("name", ["__shard", "__KG", "__key_0"])
def test_names_of_our_own_columns_are_refused(world: World, name: str) -> None:
    """A column that the runtime would overwrite on its way is refused at groupBy, by name."""
    history = world.history(EVENTS).withColumnRenamed("value", name)
    with pytest.raises(mixedmode.PlanError, match=f"column {name} has a name that mixedmode uses"):
        mixedmode.read(history=history).groupBy("key")
