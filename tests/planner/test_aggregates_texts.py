"""Arguments whose SQL text does not say what was written are refused; all others are taken over."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from mixedmode.errors import PlanError
from mixedmode.planner.aggregates import plan_aggregate
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

NAMED = "struct<a:int,b:string>"


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], f"k string, v int, f float, s string, st {NAMED}, ts timestamp")


def plan(frame: DataFrame, *exprs: Column) -> Any:
    return plan_aggregate(frame, ["k"], list(exprs), event_time=None, output_mode=None, uid="agg")


@pytest.mark.parametrize(
    "make",
    [
        lambda: F.max_by(F.struct(F.col("v").alias("amount")), "v"),
        lambda: F.max(F.struct(F.col("v").alias("s"), F.col("s").alias("v"))),
        lambda: F.max(F.col("st").cast("struct<x:int,y:string>")),
        lambda: F.max(F.array_max(F.array("s").cast("array<int>"))),
        lambda: F.max(F.to_csv(F.struct("v", "s"), {"sep": "|"})),
        lambda: F.max(F.lit("${env:HOME}")),
    ],
)
def test_what_its_text_does_not_say_is_refused(frame: DataFrame, make: Any) -> None:
    """Names of struct fields, casts to nested types, options and literals that are substituted."""
    with pytest.raises(PlanError, match="cannot be taken over"):
        plan(frame, make())


def test_one_text_for_two_expressions_is_no_way_around(frame: DataFrame) -> None:
    """Both are looked at, whichever comes last."""
    with pytest.raises(PlanError, match="cannot be taken over"):
        plan(frame, F.max(F.struct(F.col("v").alias("amount"))).alias("one"), F.max(F.struct("v")).alias("two"))


@pytest.mark.parametrize(
    ("setting", "value", "make"),
    [
        ("spark.sql.parser.escapedStringLiterals", "true", lambda: F.sum(F.when(F.col("s") == "\\", 1))),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", lambda: F.max(F.lit(datetime(2024, 1, 1, tzinfo=timezone.utc)))),
    ],
)
def test_settings_that_change_the_meaning_of_a_text_are_noticed(
    spark: SparkSession, frame: DataFrame, setting: str, value: str, make: Any
) -> None:
    """The same argument is taken over without the setting."""
    plan(frame, make())
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        with pytest.raises(PlanError, match="cannot be taken over"):
            plan(frame, make())
    finally:
        spark.conf.set(setting, before)


def test_what_its_text_says_is_taken_over(frame: DataFrame) -> None:
    """Quotes, casts, floats, arrays of literals, struct fields, conditions."""
    plan(
        frame,
        F.sum(F.when(F.col("s") == "it's \\n", 1)),
        F.max(F.col("f") + F.lit(1.5).cast("float")).alias("float"),
        F.max(F.array(F.lit(1), F.lit(2))).alias("array"),
        F.max("st.a"),
        F.max(F.struct("v", "s")).alias("struct"),
        F.count_if(F.col("ts") >= F.lit(datetime(2024, 1, 1, 3, tzinfo=timezone.utc))),
        F.expr("sum(v) FILTER (WHERE s RLIKE '1+')"),
    )
