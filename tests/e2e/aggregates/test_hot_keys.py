"""The example with changing rules, on a few flights."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import hot_keys
from flights.data import Flights, write_parquet

cloudpickle.register_pickle_by_value(hot_keys)


def flights(minute: int, **delays: list[int]) -> pd.DataFrame:
    """Flights to airports with these delays."""
    rows = [(dest, delay) for dest, found in delays.items() for delay in found]
    table = pd.DataFrame(rows, columns=["dest", "dep_delay"])
    table["ts"] = pd.Timestamp("2013-01-01", tz="UTC") + pd.to_timedelta(minute, unit="min")
    for name in ("carrier", "tailnum", "origin"):
        table[name] = "x"
    for name in ("flight", "dep_time", "distance"):
        table[name] = 1
    return table


@pytest.mark.slow
def test_rules_change_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Airports that become hot get the new limit with the epoch after, on every shard; the coordinator counts all."""
    data = Flights(tmp_path / "flights")
    data.lake.mkdir(parents=True)
    data.december.mkdir()
    busy = {name: [90] * (10 + place) for place, name in enumerate("ABCDE")}
    write_parquet(flights(0, **busy, F=[150]), data.lake / "1.parquet")
    write_parquet(flights(1, A=[150, 250], F=[150] + [70] * 20), data.december / "1.parquet")
    write_parquet(flights(2, A=[150, 250], F=[150, 250]), data.december / "2.parquet")
    coordinator = hot_keys.HotAirports()
    query = hot_keys.start(spark, data, tmp_path, coordinator)
    hot_keys.follow(query, data, tmp_path, coordinator)
    assert query.exception() is None
    assert coordinator.late == Counter(A=14, B=11, C=12, D=13, E=14, F=24)
    assert sorted(coordinator.rules.limits) == ["A", "C", "D", "E", "F"]
    rows = spark.read.parquet(str(tmp_path / "reported")).collect()
    versions = {(row.ts.minute, row.rules) for row in rows}
    assert len(versions) == 3, "each batch was under rules of its own"
    assert sorted((row.ts.minute, row.dest, row.delay) for row in rows) == [
        (0, "F", 150),  # the first rules: 120 minutes for all
        (1, "A", 250),  # A has become hot in the history
        (1, "F", 150),  # F has not
        (2, "A", 250),
        (2, "F", 250),  # now it has
    ]
