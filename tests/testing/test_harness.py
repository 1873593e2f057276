"""A processor in this process: rows, time, state, timers, events, errors, endings; all without Spark."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from mixedmode.errors import OptionError, PlanError, QueryError, StateSchemaError, UnknownStateError
from mixedmode.runtime.protocols.operator_events.coordinator import OperatorCoordinator
from mixedmode.testing import Event, Harness, Timer
from processors import SCHEMA, Buckets, Counts, CountsInPandas, Forgetful, Matches, at, harness
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

OBSERVED = {"execution.backlog.final-watermark": "observed"}


@pytest.fixture
def buckets() -> Iterator[Harness]:
    with harness(Buckets(), time_mode="eventTime", event_time="ts", delay="10 ms") as made:
        yield made


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


# -- rows and event time -----------------------------------------------------------------------------------------------


def test_a_backlog_and_then_a_stream(buckets: Harness) -> None:
    """A backlog goes key by key and fires what its own watermark has reached; the stream goes on with what is left."""
    assert told(buckets.backlog([("b", at(5), 1), ("a", at(250), 4), ("a", at(3), 2)])) == [
        ("a", "until 100", 2),
        ("b", "until 100", 1),
    ]
    assert (buckets.watermark, buckets.timers()) == (240, [Timer("a", 300)])
    assert told(buckets.push([{"k": "a", "ts": at(320), "v": 1}])) == [("a", "until 300", 4)]
    assert buckets.peek_map_state("sums", "a") == {(400,): (1,)}
    assert told(buckets.end()) == [("a", "until 400", 1)]
    assert buckets.timers() == [] and buckets.state("sums") == {}


def test_at_the_switch_max_fires_all() -> None:
    """MAX_WATERMARK comes at the switch if it is asked for; by default what is open waits for the stream."""
    for options, fired in (({"execution.backlog.final-watermark": "max"}, [("a", "until 100", 2)]), (None, [])):
        with harness(Buckets(), time_mode="eventTime", event_time="ts", options=options) as made:
            assert told(made.backlog([("a", at(3), 2)])) == fired
            assert told(made.end()) == [("a", "until 100", 2)][len(fired) :]


def test_the_watermark_is_moved_by_hand(buckets: Harness) -> None:
    """set_watermark fires what is due, at its time or behind it, and makes earlier rows late."""
    assert buckets.watermark is None
    assert (buckets.push([("a", at(3), 2)]), buckets.watermark) == ([], -7)
    assert told(buckets.set_watermark(at(100))) == [("a", "until 100", 2)]
    assert buckets.push([("a", at(99), 2), ("a", at(100), 3)]) == []
    assert (buckets.late_rows, buckets.state("sums")) == (1, {"a": {(200,): (3,)}})
    with pytest.raises(PlanError, match="must go forwards, and is 100"):
        buckets.set_watermark(100)


def test_rows_at_once_come_before_their_watermark_fires(buckets: Harness) -> None:
    """Two micro-batches without a rest between: what the first one makes due and late fires and is with the second."""
    assert buckets.push([("a", at(3), 2), ("a", at(150), 1)], settle=False) == [Row(key="a", what="until 100", n=2)]
    assert told(buckets.push([("b", at(20), 7)], settle=False)) == [("b", "until 100", 7)]
    assert buckets.late_rows == 0
    assert (buckets.push([("b", at(20), 7)]), buckets.late_rows) == ([], 1)


def test_a_stream_that_falls_back_into_backlog(buckets: Harness) -> None:
    """A backlog later on is sorted, too, and what has fired stays behind it."""
    buckets.push([("a", at(250), 2)])
    assert told(buckets.backlog([("b", at(430), 1), ("b", at(320), 1), ("b", at(10), 1)])) == [
        ("a", "until 300", 2),
        ("b", "until 400", 1),
    ]
    assert buckets.late_rows == 1


def test_batch_mode_ends_with_the_backlog() -> None:
    """Under runtime-mode batch everything fires in the backlog, and nothing may follow."""
    with harness(
        Buckets(), time_mode="eventTime", event_time="ts", options={"execution.runtime-mode": "batch"}
    ) as made:
        assert told(made.backlog([("a", at(3), 2)])) == [("a", "until 100", 2)]
        with pytest.raises(QueryError, match=r"push\(\): the input has ended"):
            made.push([])


# -- processing time ---------------------------------------------------------------------------------------------------


def test_processing_time_and_ttl_are_the_tests() -> None:
    """Timers and the time to live of state go by the test's clock alone."""
    with harness(Forgetful(), time_mode="processingTime", processing_time=1_000) as made:
        assert told(made.push([("a", None, 1), ("a", None, 2)])) == [("a", "first", 1), ("a", "again", 2)]
        assert made.timers("a") == [Timer("a", 1050)] and made.timers("b") == []
        assert told(made.set_processing_time(1_060)) == [("a", "alarm", 1050)]
        assert made.state("last") == {"a": (2,)}
        made.set_processing_time(1_100)
        assert (made.state("last"), made.peek_value_state("last", "a")) == ({}, None)
        assert told(made.push([("a", None, 3)])) == [("a", "first", 3)]
        with pytest.raises(PlanError, match="must go forwards, and is 1100"):
            made.set_processing_time(1)


# -- state -------------------------------------------------------------------------------------------------------------


def test_state_can_be_set_and_removed() -> None:
    """State that a test has written is what the processor finds, also behind a restart with other shards."""
    with harness(Counts(), shards=4) as made:
        made.update_value_state("count", "a", (7,))
        made.update_list_state("values", "b", [(1, at(5)), (2, None)])
        made.restart(shards=3)
        assert told(made.push([("a", at(1), 5)])) == [("a", "row", 8)]
        assert made.state("values") == {"a": [(5, at(1))], "b": [(1, at(5)), (2, None)]}
        made.delete_state("count", "a")
        assert told(made.push([("a", at(1), 6)])) == [("a", "row", 1)]
        assert made.peek_list_state("values", "c") == []


def test_what_is_no_state_of_the_processor_is_told() -> None:
    """An unknown name, and a variable of another kind, are errors that name those that are there."""
    with harness(Counts()) as made:
        with pytest.raises(UnknownStateError, match="no state 'cuont'; it declares count, values"):
            made.state("cuont")
        with pytest.raises(UnknownStateError, match="'count' is value state, not list state"):
            made.peek_list_state("count", "a")
        with pytest.raises(StateSchemaError, match=r"key field 'k' \(string\) got \('a', 1\)"):
            made.peek_value_state("count", ("a", 1))
    with harness(Counts(), key=["v", "k"]) as made, pytest.raises(PlanError, match=r"key 1 has 1 values; .* are v, k"):
        made.peek_value_state("count", 1)


def test_initial_state_comes_first() -> None:
    """The rows of an initial state go to handleInitialState in the first epoch, whatever that is."""
    given = {"initial_state": [("a", 10), ("z", 3)], "initial_schema": "k string, had long"}
    for first in ("push", "backlog"):
        with harness(Counts(), **given) as made:
            assert told(getattr(made, first)([("a", at(1), 5)])) == [("a", "row", 11)]
            assert told(made.push([("z", at(1), 5), ("y", at(1), 5)])) == [("y", "row", 1), ("z", "row", 4)]


class Totals(Counts):
    """As Counts, and says nothing."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        list(super().handleInputRows(key, rows, timerValues))
        yield from ()


def test_a_key_of_several_columns() -> None:
    """Keys of several columns are tuples."""
    with harness(Totals(), key=["V", "k"]) as made:
        made.push([("a", at(1), 5), ("a", at(2), 6), (None, at(2), None)])
        assert made.state("count") == {(5, "a"): (1,), (6, "a"): (1,), (None, None): (1,)}
        assert made.peek_value_state("count", (5, "a")) == (1,)


# -- forms -------------------------------------------------------------------------------------------------------------


def test_handlers_of_pandas_frames() -> None:
    """The pandas form takes and gives frames; the test may, too."""
    with harness(CountsInPandas(), in_pandas=True) as made:
        frame = pd.DataFrame({"k": ["a", "b", "a"], "ts": [at(1), pd.NaT, at(3)], "v": [1, 2, 3]})
        found = made.push(frame)
        assert told(found) == [("a", "row", 1), ("a", "row", 2), ("b", "row", 1)]
        assert found.toPandas().to_dict("list") == {"key": ["a", "a", "b"], "what": ["row"] * 3, "n": [1, 2, 1]}


def test_a_processor_of_two_inputs() -> None:
    """Behind cogroup the rows of both inputs come side by side, and each moves its own part of the watermark."""
    two: dict[str, Any] = {
        "schema": ("order string, v long, ts timestamp", "paid timestamp, n long, o string"),
        "key": (["order"], ["o"]),
        "event_time": ("ts", "paid"),
        "time_mode": "eventTime",
    }
    with harness(Matches(), **two) as made:
        assert made.backlog([("x", 1, at(50))], [(at(5), 7, "y")]) == []
        assert made.watermark == 5
        assert told(made.push([], [(at(60), 8, "x")])) == [("x", "paid", 8)]
        assert made.watermark == 50
        assert told(made.push([("y", 2, at(80))])) == [("y", "paid", 7)]
    orders = [(f"o{n % 5}", n, at(n)) for n in range(5)]
    payments = [(at(10 * n), n, f"o{n % 5}") for n in range(12)]
    harness(Matches(), **{**two, "delay": "20 ms"}).assert_same_results(orders, payments, out_of_order=True)


class CountsInBlocks(Counts):
    """As Counts, blocks of keys at a time."""

    def handleArrowRows(self, block: Any, timerValues: Any) -> Iterator[Any]:
        counted = block.value("count")
        n = np.diff(block.starts) + counted.get().field("n").fill_null(0).to_numpy()
        counted.update({"n": n})
        yield pa.record_batch({"key": block.keys["k"], "what": pa.array(["rows"] * len(block)), "n": n})


def test_handlers_of_blocks_of_keys() -> None:
    """A processor that takes blocks of keys as Arrow columns gets them here, too."""
    with harness(CountsInBlocks()) as made:
        assert told(made.backlog([("a", None, 1), ("b", None, 2), ("a", None, 3)])) == [
            ("a", "rows", 2),
            ("b", "rows", 1),
        ]
        assert told(made.push([("a", None, 4)])) == [("a", "rows", 3)]
        assert made.state("count") == {"a": (3,), "b": (1,)}
    by_time = {"time_mode": "eventTime", "event_time": "ts"}
    for refused, message in (
        ({**by_time, "options": OBSERVED}, "set pipeline.timers to after-rows"),
        ({"in_pandas": True}, "which transformWithStateInPandas does not know"),
        ({"initial_state": [("a", 1)], "initial_schema": "k string, n long"}, "which initialState does not know"),
    ):
        with pytest.raises(PlanError, match=message):
            harness(CountsInBlocks(), **refused)
    for options in ({**OBSERVED, "pipeline.timers": "after-rows"}, None):
        harness(CountsInBlocks(), **by_time, options=options).close()


# -- events ------------------------------------------------------------------------------------------------------------


class Rules(StatefulProcessor):
    """Sends what is above its limit, which comes by event and is kept for the shard."""

    def init(self, handle: Any) -> None:
        self._handle, self._limit = handle, 100

    def handleEvent(self, event: Any) -> None:
        self._limit = event["limit"]

    def snapshotShard(self) -> Any:
        return self._limit

    def restoreShard(self, states: list[Any]) -> None:
        self._limit = min(states, default=100)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            if row.v > self._limit:
                self._handle.coordinator.send({"key": key[0], "v": row.v})
                yield (key[0], "above", row.v)


class Halving(OperatorCoordinator):
    """Halves the limit with each report."""

    def open(self, context: Any) -> None:
        self._context = context
        self.limit = getattr(self, "_restored", 100)

    def restore(self, state: bytes) -> None:
        self._restored = int(state)

    def checkpoint(self) -> bytes:
        return str(self.limit).encode()

    def handleEventFromSubtask(self, shard: int, event: Any) -> None:
        self.limit //= 2
        for one in range(self._context.parallelism):
            self._context.gateway(one).send({"limit": self.limit})


def test_the_coordinator_runs_for_real() -> None:
    """Events go both ways, those of a backlog at the switch, and a restart goes on from what both ends had kept."""
    coordinator = Halving()
    with harness(Rules(), coordinator=coordinator, shards=2) as made:
        assert told(made.backlog([("a", None, 101), ("a", None, 60)])) == [("a", "above", 101)]
        assert [event.event for event in made.events] == [{"key": "a", "v": 101}] and coordinator.limit == 50
        assert told(made.push([("a", None, 60), ("b", None, 45)])) == [("a", "above", 60)]
        assert made.events[-1] == Event(made.events[0].shard, {"key": "a", "v": 60})
        made.settle()
        made.restart()
        assert coordinator.limit == 25
        assert told(made.push([("a", None, 20), ("b", None, 26)])) == [("b", "above", 26)]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_an_error_of_the_processor_is_its_own(buckets: Harness) -> None:
    """What a handler raises comes out as it was raised, with the handler's line; the epoch leaves nothing."""
    buckets.push([("a", at(3), 2)])
    with pytest.raises(ValueError, match="a value of 666") as caught:
        buckets.push([("a", at(4), 5), ("b", at(4), 666)])
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == 'raise ValueError(f"a value of {row.v}")'
    notes = getattr(caught.value, "__notes__", ["handleInputRows, key ('b',)"])
    assert "handleInputRows, key ('b',)" in notes[0]
    assert buckets.state("sums") == {"a": {(100,): (2,)}}
    buckets.push([("b", at(5), 1)])
    assert buckets.peek_map_state("sums", "b") == {(100,): (1,)}


def test_an_error_of_init_is_its_own() -> None:
    """The same for init, which a harness calls when it is made."""

    class Broken(StatefulProcessor):
        def init(self, handle: Any) -> None:
            raise KeyError("no such rule")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            yield from ()

    with pytest.raises(KeyError, match="no such rule"):
        harness(Broken())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key": "kk"}, "key column kk does not exist; did you mean k"),
        ({"time_mode": "eventTime"}, "needs an event time; give event_time"),
        ({"event_time": "v"}, "event-time column v is of type bigint"),
        ({"time_mode": "sometimes"}, "timeMode is 'sometimes'"),
        ({"schema": "k string, v"}, "schema 'k string, v' is not a DDL schema"),
        ({"schema": (SCHEMA, SCHEMA)}, "handleInputRows is called with key, left, right, timerValues"),
        ({"delay": None}, "delay is None; give a duration such as '1 hour', or leave it out for none"),
        ({"delay": "ten"}, "delay is 'ten', which is not a duration"),
        ({"shards": 99}, "shards is 99; give a number from 1 to 16"),
        ({"initial_state": []}, "initial_state needs initial_schema"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    """The message names the argument or the column, and what is wrong with it."""
    with pytest.raises(PlanError, match=said):
        harness(Counts(), **changes)


def test_an_unknown_option_is_named() -> None:
    """Options are those of a job, with the same checks."""
    with pytest.raises(OptionError, match=r"did you mean pipeline\.timers"):
        harness(Counts(), options={"pipeline.timer": "in-order"})
    with pytest.raises(
        OptionError, match=r"unknown option pipeline\.qqqqqqqqqqqq \(from options of Harness\); the nearest are"
    ):
        harness(Counts(), options={"pipeline.qqqqqqqqqqqq": 1})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a", at(1), 1), ("a", at(1), "1")], r"row 1 of push\(\) has '1' \(str\) in column v, which is bigint"),
        ([("a", at(1))], r"row 0 of push\(\) has 2 values"),
        ([{"key": "a"}], r"row 0 of push\(\) has 'key', which the schema has not"),
        ([{"k": "a", "ts": at(1), "V": 1}], r"row 0 of push\(\) has 'V', which the schema has not; did you mean v\?"),
        ([("a", at(1), 1), {"k": "a", "v": 1}], r"row 1 of push\(\) lacks column 'ts'; give each column"),
        ([Row(k="a", ts=at(1))], r"row 0 of push\(\) lacks column 'v'; .* None for null"),
        (["abc"], r"row 0 of push\(\) is 'abc'; give a Row, a dict, or a tuple"),
        ("abc", r"push\(\) takes a list of rows"),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_place(rows: Any, said: str) -> None:
    """The message says which row, and what is wrong with it."""
    with harness(Counts()) as made, pytest.raises(PlanError, match=said):
        made.push(rows)
