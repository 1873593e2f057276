"""A history cut into slices: each row in exactly one, in event-time order, the same after a restart."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from mixedmode.runtime.catalyst.columns import event_time_us
from mixedmode.runtime.connectors.sources.history import HistoryCut, cut
from session_options import session_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2024, 1, 1)


@pytest.fixture(scope="module")
def history(spark: SparkSession) -> DataFrame:
    """1,000 rows out of order, some with one event time, some without any."""
    rows = [(n, START + timedelta(seconds=n * 7919 % 500)) for n in range(990)] + [(n, None) for n in range(990, 1000)]
    return spark.createDataFrame(rows, "n int, ts timestamp").cache()


def slices(history: DataFrame, where: HistoryCut, event_time: str | None) -> list[list[tuple]]:
    found = []
    while not where.done:
        found.append([tuple(row) for row in where.take(history, event_time).collect()])
        where = HistoryCut(where.slices, where.bounds_us, where.next + 1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("event_time", ["ts", None])
def test_each_row_is_in_one_slice(history: DataFrame, event_time: str | None) -> None:
    """The slices together are the history, each row once, with and without an event time."""
    found = slices(history, cut([(history, event_time)], 100), event_time)
    assert len(found) == 10
    assert Counter(row for part in found for row in part) == Counter(tuple(row) for row in history.collect())


@pytest.mark.slow
@pytest.mark.parametrize("event_time", ["ts", None])
def test_rest_is_what_the_next_slices_hold(history: DataFrame, event_time: str | None) -> None:
    """After some slices the rest is exactly the rows of the others."""
    where = cut([(history, event_time)], 300)
    parts = slices(history, where, event_time)
    for following in range(where.slices):
        rest = HistoryCut(where.slices, where.bounds_us, following).rest(history, event_time)
        assert Counter(map(tuple, rest.collect())) == Counter(row for part in parts[following:] for row in part)


def test_slices_come_in_event_time_order(history: DataFrame) -> None:
    """No row of a slice is older than a row of the slice before; rows without a time are in the first."""
    found = slices(history, cut([(history, "ts")], 100), "ts")
    assert sum(row[1] is None for row in found[0]) == 10
    times = [[row[1] for row in part if row[1] is not None] for part in found]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(times))


def test_slices_are_about_as_large_as_asked(history: DataFrame) -> None:
    """A slice holds no more than twice the rows that one epoch is to take."""
    assert max(len(part) for part in slices(history, cut([(history, "ts")], 100), "ts")) <= 200


def test_small_history_is_one_slice(history: DataFrame) -> None:
    """A history that fits into one epoch is not filtered at all."""
    where = cut([(history, "ts")], 1000)
    assert where == HistoryCut(1, None)
    assert where.take(history, "ts") is history


def test_empty_history_is_one_slice(history: DataFrame) -> None:
    """An empty history is one slice without rows."""
    assert slices(history.limit(0), cut([(history.limit(0), "ts")], 10), "ts") == [[]]


def test_one_event_time_for_all_rows_is_not_lost(spark: SparkSession) -> None:
    """Rows that cannot be told apart by time stay together in one slice."""
    frame = spark.createDataFrame([(n, START) for n in range(50)], "n int, ts timestamp")
    assert sorted(map(len, slices(frame, cut([(frame, "ts")], 10), "ts")))[-1] == 50


def test_cut_survives_a_checkpoint(history: DataFrame) -> None:
    """A cut that went through JSON is the same cut."""
    for event_time in ("ts", None):
        where = cut([(history, event_time)], 100)
        assert HistoryCut.from_json(json.loads(json.dumps(where.to_json()))) == where


def test_event_time_of_both_timestamp_types(spark: SparkSession) -> None:
    """timestamp_ntz counts as UTC wall clock, so both types give the same microseconds."""
    frame = spark.sql("select timestamp'2024-01-01 00:00:01.5' a, timestamp_ntz'2024-01-01 00:00:01.5' b")
    row = frame.select(event_time_us(frame, "a"), event_time_us(frame, "b")).first()
    assert row is not None and row[0] == row[1] == 1_704_067_201_500_000


def test_event_time_without_zone_knows_no_summer_time(spark: SparkSession) -> None:
    """A timestamp_ntz is the same moment whatever the session's zone, also where that zone's clock jumps."""
    walls = [datetime(2024, 3, 31, 2, 30), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1)]
    walls += [datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1911, 3, 10, 23, 55)]
    with session_options(spark, {"spark.sql.session.timeZone": "Europe/Paris"}):
        frame = spark.createDataFrame([(wall,) for wall in [*walls, None]], "a timestamp_ntz")
        found = [row[0] for row in frame.select(event_time_us(frame, "a")).collect()]
    assert found == [*((wall - datetime(1970, 1, 1)) // timedelta(microseconds=1) for wall in walls), None]
