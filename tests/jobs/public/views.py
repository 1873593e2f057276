"""Jobs that say their aggregate in SQL over a temporary view of the stream."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job

JOBS: list[Job] = []


@public_job(
    JOBS,
    "github.com/prashanthsriram145/series-pyspark-structured-streaming-janani: m3/demo-06-aggregations_v4.py",
    inputs=inputs("cars"),
    mode="complete",
    sink="console",
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def car_prices(spark: SparkSession, read: Read) -> Any:
    """CSV files; where(frame.column != 0); view; SQL: avg, min, max, WHERE, GROUP BY an alias."""
    cars = read("cars")
    cars.select("*").where(cars.price != 0).createOrReplaceTempView("car_ads")
    return (
        read.spark.sql(
            "SELECT car AS make, avg(price), min(price), max(price) FROM car_ads WHERE year > 2013 GROUP BY make"
        )
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/IamMayankThakur/test-bigdata: adminmgr/media/code/A3/task1/BD_0980_1528_1600.py",
    inputs=inputs("tweets as files"),
    mode="complete",
    sink="console",
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def five_hashtags_in_sql(spark: SparkSession, read: Read) -> Any:
    """CSV files; view; SQL: count, GROUP BY, ORDER BY descending, LIMIT 5."""
    read("tweets as files").createOrReplaceTempView("tweets")
    return (
        read.spark.sql(
            "SELECT Hashtags, count(Hashtags) AS count FROM tweets GROUP BY Hashtags ORDER BY count DESC LIMIT 5"
        )
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/LeonardoZV/spark-structured-streaming-python-examples: apache-kafka/scripts/"
    "gerar_relatorio_transmissao_job.py",
    inputs=inputs("events of products"),
    mode="update",
    sink="console",
    keys=("codigo_produto",),
    trigger="once",
    replaced=("parquet files: JSON files", "console sink: collected"),
)
def transmission_report(spark: SparkSession, read: Read) -> Any:
    """Parquet files; view; SQL: a nested key, COUNT(*) and COUNT(CASE …), GROUP BY; then withColumn(struct('*')) and
    further columns."""
    read("events of products").createOrReplaceTempView("evento")
    report = read.spark.sql(
        "SELECT payload.data.codigo_produto, COUNT(*) AS total, COUNT(CASE WHEN payload.data.codigo_empresa = 341"
        " THEN 1 END) AS ok FROM evento GROUP BY payload.data.codigo_produto"
    )
    return (
        report.withColumn("data", F.struct("*"))
        .withColumn("value", F.to_json(F.col("data")))
        .writeStream.outputMode("update")
        .format("console")
        .trigger(once=True)
    )
