"""Queries that go on from what they have kept: StreamingStateStoreFormatCompatibilitySuite, whose checkpoints of an
older Spark are a first run here."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import RESTART, Read, case

SUITE = "StreamingStateStoreFormatCompatibilitySuite"
COMPLETE = {
    "inputs": {"in": "value int"},
    "mode": "complete",
    "steps": [{"in": list(range(10))}, RESTART, {"in": list(range(10, 20))}],
}
COLUMNS = (
    "value",
    "value % 5 AS id",
    "CAST(value AS STRING) AS str",
    "CAST(value AS FLOAT) AS f",
    "CAST(value AS DOUBLE) AS d",
    "CAST(value AS DECIMAL) AS dec",
    "value % 3 AS mod",
)


@case(SUITE, "common functions", **COMPLETE)
def common_aggregates(read: Read) -> Any:
    rows = read("in").selectExpr(*COLUMNS, "named_struct('key', CAST(value AS STRING), 'value', value) AS s")
    counted = rows.groupBy("id").agg(
        *(F.avg(name).alias(f"avg_{name}") for name in ("value", "f", "d", "dec")),
        F.count("value").alias("cnt"),
        F.first("value").alias("first_v"),
        F.first("s").alias("first_s"),
        F.last("value").alias("last_v"),
        F.last("s").alias("last_s"),
        F.min(F.struct("value", "str")).alias("min_struct"),
        F.max("value").alias("max_v"),
        *(F.sum(name).alias(f"sum_{name}") for name in ("value", "f", "d")),
        F.collect_list("value").alias("col_list"),
        F.sort_array(F.collect_set("mod")).alias("col_set"),
    )
    structs = [F.col(f"{name}.value").alias(f"{name}_value") for name in ("first_s", "last_s", "min_struct")]
    return counted.select("*", *structs).drop("first_s", "last_s", "min_struct")


@case(SUITE, "statistical functions", **COMPLETE)
def statistical_aggregates(read: Read) -> Any:
    rows = read("in").selectExpr(*COLUMNS)
    return rows.groupBy("id").agg(
        F.kurtosis("d").alias("kts"),
        F.skewness("d").alias("skew"),
        *(F.approx_count_distinct(name).alias(f"approx_{name}") for name in ("mod", "f", "d", "dec", "str")),
        F.stddev_pop("d").alias("stddev_pop"),
        F.stddev_samp("d").alias("stddev_samp"),
        F.var_pop("d").alias("var_pop"),
        F.var_samp("d").alias("var_samp"),
        F.covar_pop("value", "mod").alias("covar_pop"),
        F.covar_samp("value", "mod").alias("covar_samp"),
        F.corr("value", "mod").alias("corr"),
    )


@case(
    SUITE,
    "deduplicate with all columns",
    inputs={"in": "value long"},
    steps=[{"in": list(range(5))}, RESTART, {"in": [3, 4, 5, 6]}],
)
def deduplicated_by_all_columns(read: Read) -> Any:
    rows = read("in").selectExpr(
        "value",
        "value + 10 AS key",
        "CAST(value AS STRING) AS topic",
        "value + 100 AS partition",
        "value + 5 AS offset",
    )
    return rows.dropDuplicates().select("key", "value", "topic", "partition", "offset")
