"""A job as it runs in a pod: places come from the environment.

``LAKE`` (history, Parquet), ``LANDING`` (live, Parquet), ``OUTPUT`` and ``LOCATION`` (checkpointLocation) are folders
or URIs on storage that outlives the pod.  ``SAVEPOINT`` is what a new location begins with; none if it is not set.
SIGTERM, with which Kubernetes ends a pod, ends the job with a checkpoint: that is the library's own default.
"""

import os
from typing import Any

import mixedmode
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "customer string, ts timestamp, amount long"


def described(spark: SparkSession) -> Any:
    """The job, not started."""
    writer = (
        mixedmode.read(
            history=spark.read.schema(SCHEMA).parquet(os.environ["LAKE"]),
            live=spark.readStream.schema(SCHEMA).parquet(os.environ["LANDING"]),
        )
        .withWatermark("ts", "1 hour")
        .groupBy("customer", F.window("ts", "1 day"))
        .agg(F.sum("amount").alias("spent"))
        .uid("spending")  # names the state: it is found again by the next version
        .writeStream.queryName("spending")
        .format("parquet")
        .option("path", os.environ["OUTPUT"])
        .option("checkpointLocation", os.environ["LOCATION"])
    )
    savepoint = os.environ.get("SAVEPOINT")
    return writer.option("execution.savepoint.path", savepoint) if savepoint else writer


def main() -> None:
    """Run until the pod is to end."""
    # Where nobody gives a master (a StatefulSet), Spark runs in this pod.
    spark = SparkSession.builder.appName("spending").master(os.environ.get("SPARK_MASTER", "local[*]")).getOrCreate()
    query = described(spark).start()
    query.awaitTermination()
    spark.stop()
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main()
