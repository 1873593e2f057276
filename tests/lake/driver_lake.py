"""Jobs over Delta and Iceberg tables in a process of their own: ``python driver_lake.py <folder> <life> <job>…``.

Each job goes over the rows of a table, up to a version as its history and behind that as its stream, into another
table.  What a life adds to the first table while the jobs are live is in :data:`LIVE`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import intervals
import kafka_support
import lake_support
import mixedmode
import support
from kafka_support import numbered
from lake_support import numbers
from mixedmode import delta
from pyspark import cloudpickle
from pyspark.sql import functions as F

WAIT_S = 240
#: What each job's table gets while the job is live.
LIVE = {"first": (range(60, 70),), "second": (range(70, 80), range(80, 90)), "third": (range(90, 100),)}
#: Counts of keys, added up by a MERGE that does so once for each id.
COUNTS = "key string, rows long, total long"


def append_to(spark: Any, name: str, place: str, values: Any) -> None:
    """Add rows to the table that a job reads, by one commit."""
    kind = "iceberg" if name == "iceberg" else "delta"
    numbers(spark, values).write.format(kind).mode("append").save(place)


def merged(folder: Path, life: str) -> Callable[[Any, int], None]:
    """An upsert that is no overwrite, so that doing it twice would be seen; the first life dies in the middle of it."""

    def merge(rows: Any, number: int) -> None:
        spark, dies = rows.sparkSession, life == "first" and not (folder / "died").exists()
        if dies:
            (folder / "died").touch()
            driver = os.getpid()

            @F.udf("long")
            def deadly(value: int) -> int:
                os.kill(driver, signal.SIGKILL)
                return value

            rows = rows.withColumn("rows", deadly("rows"))
        rows.createOrReplaceTempView("counted")
        spark.conf.set("spark.databricks.delta.write.txnAppId", "counts")
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        spark.sql(
            f"MERGE INTO delta.`{folder}/out` t USING counted s ON t.key = s.key"
            " WHEN MATCHED THEN UPDATE SET rows = t.rows + s.rows, total = t.total + s.total"
            " WHEN NOT MATCHED THEN INSERT *"
        )
        for what in ("txnAppId", "txnVersion"):
            spark.conf.unset(f"spark.databricks.delta.write.{what}")

    return merge


def started(spark: Any, folder: Path, name: str, life: str) -> Any:
    """A job's query.

    Args:
        spark: the session.
        folder: of the job.
        name: ``append`` by partitions, ``merge``, ``complete``, or ``iceberg``.
        life: which one it is.
    """
    place, out = source_of(folder, name), str(folder / "out")
    options = {
        "checkpointLocation": str(folder / "checkpoints"),
        "pipeline.parallelism": 2,
        "execution.checkpointing.interval": intervals.named("1 hour"),
    }
    rows = mixedmode.iceberg.read(spark, place) if name == "iceberg" else delta.read(spark, place)
    if name == "append":
        writer = numbered(rows).writeStream.format("delta").partitionBy("key")
        return writer.options(**options).start(out)
    if name == "iceberg":
        return numbered(rows).writeStream.format("iceberg").options(**options).toTable("ice.db.out")
    counts = rows.groupBy("key").agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
    if name == "complete":
        return counts.writeStream.outputMode("complete").format("delta").options(**options).start(out)
    once = numbered(rows).selectExpr("key", "1L AS rows", "value AS total")
    writer = once.writeStream.foreachBatch(added_up(merged(folder, life)))
    return writer.options(**options).start()


def added_up(merge: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """One row of each key for the MERGE."""

    def function(rows: Any, number: int) -> None:
        merge(rows.groupBy("key").agg(F.sum("rows").alias("rows"), F.sum("total").alias("total")), number)

    return function


def source_of(folder: Path, name: str) -> str:
    """The table that a job reads."""
    return "ice.db.source" if name == "iceberg" else str(folder / "source")


def main(folder: Path, life: str, names: list[str]) -> None:
    for module in (kafka_support, lake_support):
        cloudpickle.register_pickle_by_value(module)
    spark = support.driver_session(settings=lake_support.settings(folder))
    queries = {name: started(spark, folder / name, name, life) for name in names}
    for query in queries.values():
        assert query.wait_for("live", WAIT_S), query.exception()
    for values in LIVE[life]:
        for name, query in queries.items():
            append_to(spark, name, source_of(folder / name, name), values)
            query.processAllAvailable()  # which takes the only checkpoints behind the switch
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
