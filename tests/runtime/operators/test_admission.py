"""The rules of lateness at their bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from mixedmode.runtime.operators.admission import can_be_late, is_late, note_event_time, rows_in_time, windows_over
from mixedmode.runtime.operators.contract import ShardCounters
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("us")])
def test_a_row_is_late_strictly_before_the_bound(kind: pa.DataType) -> None:
    """One microsecond decides, in every unit; a row without event time is in time."""
    micros = pa.array([4_999_999, 5_000_000, 5_000_001, None], pa.timestamp("us"))
    assert rows_in_time(micros.cast(kind), 5_000).to_pylist() == [False, True, True, True]


def test_a_window_is_over_at_its_end() -> None:
    """A window that ends where the bound is takes no rows any more."""
    assert windows_over(np.array([4_999, 5_000, 5_001]), 5_000).tolist() == [True, True, False]


def test_nothing_is_late_before_anything_has_fired() -> None:
    """The least watermark is none."""
    assert not can_be_late(MIN_WATERMARK) and can_be_late(MIN_WATERMARK + 1)


def test_the_greatest_event_time_only_grows() -> None:
    """Rounded down to milliseconds, also before 1970; rows without event time say nothing."""
    counters = ShardCounters()
    seen = []
    for micros in ([None], [-1], [-5_000], [1_999, None], [1_000]):
        note_event_time(counters, pa.array(micros, pa.timestamp("us", "UTC")))
        seen.append(counters.max_event_time_ms)
    assert seen == [None, -1, -1, 1, 1]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_sparks_form_of_a_late_row_is_arrows(spark: SparkSession, kind: str) -> None:
    """Strictly before the bound, never without a time; the least and the greatest watermark are bounds, too."""
    frame = spark.range(-2, 4).selectExpr(f"CAST(timestamp_micros(IF(id = 3, null, id * 1000)) AS {kind}) AS ts")
    bounds_ms = (-1, 0, 1, MIN_WATERMARK, MAX_WATERMARK)
    late = [f"coalesce({is_late(frame, 'ts', late_ms)}, false)" for late_ms in bounds_ms]
    found = frame.selectExpr("ts", *[f"{one} AS late{place}" for place, one in enumerate(late)]).toArrow()
    times = found.column("ts").combine_chunks()
    for place, late_ms in enumerate(bounds_ms[:3]):
        assert found.column(f"late{place}").to_pylist() == pc.invert(rows_in_time(times, late_ms)).to_pylist()
    assert not any(found.column("late3").to_pylist())
    assert found.column("late4").to_pylist() == times.is_valid().to_pylist()


def test_spark_makes_the_same_code_for_every_bound(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """So no epoch waits until code of its own is compiled."""
    codes = []
    for late_ms in (1_000, 2_000):
        frame = spark.range(10).selectExpr("timestamp_seconds(id) AS ts")
        frame.selectExpr(f"{is_late(frame, 'ts', late_ms)} AS late").explain("codegen")
        codes.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("/* ")])
    assert codes[0] == codes[1]
    assert any("long" in line for line in codes[0])
