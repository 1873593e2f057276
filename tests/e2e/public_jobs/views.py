"""Jobs that say their aggregate in SQL over a temporary view of the stream."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []


@public_job(
    SHAPES,
    "github.com/prashanthsriram145/series-pyspark-structured-streaming-janani: m3/demo-06-aggregations_v4.py",
    "complete",
    "console",
    needs=("complete", "views"),
)
def car_prices(frames: Frames) -> Any:
    """CSV files; where(frame.column != 0); view; SQL: avg, min, max, WHERE, GROUP BY an alias."""
    cars = frames.stream("cars")
    cars.select("*").where(cars.price != 0).createOrReplaceTempView("car_ads")
    return frames.spark.sql(
        "SELECT car AS make, avg(price), min(price), max(price) FROM car_ads WHERE year > 2013 GROUP BY make"
    )


@public_job(
    SHAPES,
    "github.com/IamMayankThakur/test-bigdata: adminmgr/media/code/A3/task1/BD_0980_1528_1600.py",
    "complete",
    "console",
    needs=("complete", "views"),
)
def five_hashtags_in_sql(frames: Frames) -> Any:
    """CSV files; view; SQL: count, GROUP BY, ORDER BY descending, LIMIT 5."""
    frames.stream("tweets as files").createOrReplaceTempView("tweets")
    return frames.spark.sql(
        "SELECT Hashtags, count(Hashtags) AS count FROM tweets GROUP BY Hashtags ORDER BY count DESC LIMIT 5"
    )


@public_job(
    SHAPES,
    "github.com/LeonardoZV/spark-structured-streaming-python-examples: apache-kafka/scripts/"
    "gerar_relatorio_transmissao_job.py",
    "update",
    "console",
    trigger={"once": True},
    needs=("tail", "views"),
)
def transmission_report(frames: Frames) -> Any:
    """Parquet files; view; SQL: a nested key, COUNT(*) and COUNT(CASE …), GROUP BY; then withColumn(struct('*')) and
    further columns."""
    frames.stream("events of products").createOrReplaceTempView("evento")
    report = frames.spark.sql(
        "SELECT payload.data.codigo_produto, COUNT(*) AS total, COUNT(CASE WHEN payload.data.codigo_empresa = 341"
        " THEN 1 END) AS ok FROM evento GROUP BY payload.data.codigo_produto"
    )
    return report.withColumn("data", F.struct("*")).withColumn("value", F.to_json(F.col("data")))
