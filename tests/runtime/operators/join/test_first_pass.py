"""What Spark makes of both sides of a join that meet no state, by a model."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import pytest
from both_sides import SECOND_US, Case, as_told, frame_of, some_rows
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

#: None yet; where rows are that then stay, a millisecond behind them; the end of all input.
WATERMARKS = (MIN_WATERMARK, 30_000, 30_001, MAX_WATERMARK)
SECONDS = SECOND_US
CASES = {
    "inner": Case("inner"),
    "left": Case("left"),
    "right": Case("right", -5 * SECONDS, 7 * SECONDS, (5 * SECONDS, 7 * SECONDS)),
    "full": Case("full"),
    "full, kept for ever on one side": Case("full", None, 0, (None, 0), compares=False),
    "full, gone before its time": Case("full", 3 * SECONDS, 9 * SECONDS, (-3 * SECONDS, 9 * SECONDS)),
    "leftsemi": Case("leftsemi"),
    "inner, no bounds": Case("inner", None, None, (None, None), compares=False),
}


def spec(watermark_ms: int, delay_ms: int = 0) -> EpochSpec:
    return EpochSpec(1, "sorted", MIN_WATERMARK, watermark_ms, MIN_WATERMARK, 0, MIN_WATERMARK, delay_ms=delay_ms)


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    """A session that spends no time on a few rows."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_pairs_and_rows_that_are_over_go_out_and_others_stay(quick: SparkSession, name: str) -> None:
    """Whatever watermark the pass ends at, with nulls and ties at the bounds and rows that are there twice."""
    case, left, right = CASES[name], some_rows(1, 60), some_rows(2, 60)
    frame, operator = frame_of(quick, left, right), CASES[name].operator()
    found: dict[str, list[DataFrame]] = {"output": [], "kept": []}
    for place, watermark_ms in enumerate(WATERMARKS):
        made = operator.first_pass(frame, spec(watermark_ms, 2_000), lambda rows: rows, counted=False)
        found["output"].append(made.output.withColumn("place", F.lit(place)))
        if made.rows is not None:
            found["kept"].append(made.rows.withColumn("place", F.lit(place)))
    told = {what: _by_place(reduce(DataFrame.union, frames)) for what, frames in found.items()}
    for place, watermark_ms in enumerate(WATERMARKS):
        output, kept = case.first_pass(left, right, watermark_ms, 2_000)
        assert told["output"].get(place, Counter()) == output, f"output at {watermark_ms}"
        assert told["kept"].get(place, Counter()) == kept, f"kept at {watermark_ms}"


def _by_place(frame: DataFrame) -> dict[int, Counter[Any]]:
    found: dict[int, list[Any]] = {}
    for row in frame.collect():
        found.setdefault(row[-1], []).append(tuple(row)[:-1])
    return {place: as_told(rows) for place, rows in found.items()}
