"""The demo's own parts: how the flights are cut, how rotations join, how outputs are compared."""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from flights.compare import compare, expected_rotations
from flights.data import cut, prepare, read_table
from flights.feed import Feed
from flights.rotations import QUIET_MS, Rotation, join_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).resolve().parents[1]
_HOUR_MS = 3_600_000


def _leg(hour: int, airport: str = "BOS") -> Rotation:
    return Rotation(hour * _HOUR_MS, hour * _HOUR_MS, 1, 100, airport)


class TestData:
    def test_the_table_has_all_flights_of_the_year_out_of_order(self) -> None:
        """The table has 336,776 flights, and scheduled departures run backwards by less than a day in December."""
        table = read_table()

        december = table[table["month"] == 12]
        behind = december["ts"].cummax() - december["ts"]

        assert len(table) == 336_776
        assert timedelta(0) < behind.max() < timedelta(days=1)
        assert int(table["dep_time"].isna().sum()) == 8_255

    def test_prepared_files_hold_every_flight_once(self, tmp_path: Path) -> None:
        """Lake and feed together have every flight, and a second call leaves the files as they are."""
        flights = prepare(tmp_path / "flights")
        files = [*flights.lake.glob("*.parquet"), *flights.december.glob("*.parquet")]
        before = {path: path.stat().st_mtime_ns for path in files}
        prepare(tmp_path / "flights")

        assert sum(len(pd.read_parquet(path, columns=["ts"])) for path in files) == 336_776
        assert len(list(flights.december.glob("*.parquet"))) == 20
        assert before == {path: path.stat().st_mtime_ns for path in files}

    @given(rows=st.integers(0, 200), parts=st.integers(1, 30))
    def test_pieces_are_consecutive_and_nearly_equal(self, rows: int, parts: int) -> None:
        """Cut pieces give the table when put together, and their lengths differ by at most one."""
        table = pd.DataFrame({"n": range(rows)})

        pieces = cut(table, parts)

        assert [n for piece in pieces for n in piece["n"]] == list(range(rows))
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


class TestFeed:
    def test_every_file_lands_once_and_a_second_feed_has_the_rest(self, tmp_path: Path) -> None:
        """A feed that is stopped leaves what has not landed to the next one."""
        source, waiting, landing = tmp_path / "source", tmp_path / "waiting", tmp_path / "landing"
        source.mkdir()
        for number in range(3):
            (source / f"{number}.parquet").write_text(str(number))
        Feed.fill(source, waiting)
        first = Feed(waiting, landing, pause_s=3600)
        first.start()
        first.stop()
        Feed.fill(source, waiting)
        second = Feed(waiting, landing, pause_s=0)

        assert second.to_come == 2
        second.start()
        second._thread.join()

        assert sorted(path.read_text() for path in landing.iterdir()) == ["0", "1", "2"]
        assert second.to_come == 0


class TestJoinAll:
    def test_a_quiet_period_separates_rotations(self) -> None:
        """Legs less than a quiet period apart are one rotation; exactly a quiet period apart they are two."""
        quiet_hours = QUIET_MS // _HOUR_MS

        assert len(join_all([_leg(0), _leg(quiet_hours - 1)])) == 1
        assert len(join_all([_leg(0), _leg(quiet_hours)])) == 2

    def test_a_late_leg_joins_two_rotations(self) -> None:
        """A leg that comes after rotations on both sides of it makes them one, at the airport of the latest leg."""
        apart = join_all([_leg(0, "BOS"), _leg(60, "MIA")])

        joined = join_all([*apart, _leg(30, "ORD")])

        assert [rotation.legs for rotation in apart] == [1, 1]
        assert joined == [Rotation(0, 60 * _HOUR_MS, 3, 300, "MIA")]

    @given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from("ABC"))), st.integers(0, 10), st.randoms())
    def test_the_result_does_not_depend_on_how_legs_arrive(
        self, legs: list[tuple[int, str]], pieces: int, rng: random.Random
    ) -> None:
        """Legs in any order, in any number of pieces, give the same rotations."""
        arriving = [_leg(*leg) for leg in legs]
        whole = join_all(arriving)
        rng.shuffle(arriving)

        rotations: list[Rotation] = []
        for start in range(pieces + 1):
            rotations = join_all([*rotations, *arriving[start :: pieces + 1]])

        assert rotations == whole


class TestCompare:
    def test_order_does_not_count(self, spark: SparkSession) -> None:
        """Tables with the same rows in another order are equal, also where rows hold nulls."""
        rows = [(1, "a"), (2, None), (2, None)]
        schema = "n int, s string"

        outcome = compare(spark.createDataFrame(rows, schema), spark.createDataFrame(rows[::-1], schema))

        assert outcome.equal
        assert (outcome.rows, outcome.expected_rows) == (3, 3)

    def test_repetitions_count(self, spark: SparkSession) -> None:
        """A row that is there twice instead of once is unexpected once; a row that is not there is missing."""
        actual = spark.createDataFrame([(1,), (1,)], "n int")
        expected = spark.createDataFrame([(1,), (2,)], "n int")

        outcome = compare(actual, expected)

        assert not outcome.equal
        assert (outcome.missing, outcome.unexpected) == (1, 1)
        assert sorted((kind, row.n) for kind, row in outcome.examples) == [("missing", 2), ("unexpected", 1)]

    def test_different_columns_are_an_error(self, spark: SparkSession) -> None:
        """Tables with different columns are not compared; the message has both."""
        with pytest.raises(ValueError, match=r"n:int.*n:bigint"):
            compare(spark.createDataFrame([(1,)], "n int"), spark.createDataFrame([(1,)], "n long"))

    def test_expected_rotations_follow_the_definition(self, spark: SparkSession) -> None:
        """A quiet period begins a new rotation, a cancelled flight is no leg, the turnaround is between departures."""
        start = datetime(2013, 5, 1)
        rows = [
            ("N1", start, 517, "BOS", 100),
            ("N1", start + timedelta(hours=10), 517, "MIA", 200),
            ("N1", start + timedelta(hours=20), None, "ORD", 400),
            ("N1", start + timedelta(hours=46), 517, "LAX", 800),
        ]
        flights = spark.createDataFrame(rows, "tailnum string, ts timestamp, dep_time int, dest string, distance int")

        found = expected_rotations(flights, timedelta(hours=36)).orderBy("first_departure").collect()

        assert [(row.legs, row.miles, row.turnaround_min, row.airport) for row in found] == [
            (2, 300, 600.0, "MIA"),
            (1, 800, None, "LAX"),
        ]
        assert found[0].ends == start + timedelta(hours=46)
