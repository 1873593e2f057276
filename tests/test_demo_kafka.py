"""The demo whose December is messages, with a few flights and the broker of the tests."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import demo
import flights
import flights.rotations
from flights.data import Flights, cut, read_table, write_parquet
from flights.screen import Screen

if TYPE_CHECKING:
    from kafka_broker import Broker
    from pyspark.sql import SparkSession


@pytest.mark.kafka
def test_messages_give_what_one_batch_over_history_and_december_does(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """The query goes through the history, switches, and takes messages while they come; its output is EQUAL, and the
    screen shows that, and that it goes live."""
    cloudpickle.register_pickle_by_value(flights.rotations)
    data, table = Flights(tmp_path / "flights"), read_table()
    data.lake.mkdir(parents=True)
    data.december.mkdir()
    months = table.pop("month")
    write_parquet(table[months == 11].tail(600), data.lake / "2013-11.parquet")
    for number, some in enumerate(cut(table[months == 12].head(3_000), 3)):
        write_parquet(some, data.december / f"{number:02d}.parquet")
    shown = io.StringIO()
    made = demo.Demo(tmp_path, Screen(out=shown), kafka=True, pause_s=0)
    assert made.queries(spark, data, kafka, count=1) == [True], shown.getvalue()
    text = shown.getvalue()
    assert "EQUAL" in text and " phase      live" in text
