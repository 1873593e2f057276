"""What Spark has computed of rows on their way, asked of the frame that ran."""

from __future__ import annotations

import datetime

from mixedmode.runtime.catalyst.spark_observations import observed_metrics, unobserved
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F


def test_metrics_are_of_the_one_execution_that_is_asked(spark: SparkSession) -> None:
    """Through exchanges, filters and unions, each row once; what has not been observed is nothing."""
    rows = spark.range(0, 1000, 1, 3).withColumn("ts", F.timestamp_seconds("id"))
    seen = rows.observe("all", F.count("*").alias("n"), F.max("ts").alias("latest"), F.collect_set(F.col("id") % 2))
    few = seen.where("id < 10").observe("few", F.sum("id").alias("s"))
    other = spark.range(5).withColumn("ts", F.lit(None).cast("timestamp")).observe("other", F.count("ts").alias("n"))
    job = few.union(other).groupBy("id").count()

    for _ in range(2):
        again = job.select("*")  # a plan of its own, with counters of its own
        assert len(again.collect()) == 10
        found = observed_metrics(again)
        assert found["all"][:2] == (1000, datetime.datetime(1970, 1, 1, 0, 16, 39))
        assert sorted(found["all"][2]) == [0, 1]
        assert (found["few"], found["other"]) == (Row(s=45), Row(n=0))
    bare = unobserved(job)
    assert bare.count() == 10
    assert observed_metrics(bare) == {}
    assert bare.columns == job.columns
