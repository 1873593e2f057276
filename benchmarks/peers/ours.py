"""Run as a process of its own, JVM and imports included, as the peers are: the same keyed totals in ours and in Spark.

python ours.py <way> <folder with the files> <scratch folder>
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sessions import new_session
from workload import OUTPUT, Totals

DDL = "key long, ts timestamp, value double"


def aggregate(frame: Any) -> Any:
    """Declarative."""
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("value").alias("total"))


def processor(frame: Any) -> Any:
    """In Python."""
    return frame.groupBy("key").transformWithState(
        Totals(), outputStructType=OUTPUT, outputMode="update", timeMode="none"
    )


def run(spark: SparkSession, way: str, folder: Path, scratch: Path) -> None:
    """One way."""
    tool, _, kind = way.partition(" ")
    job = {"aggregate": aggregate, "processor": processor}[kind]
    history = spark.read.schema(DDL).parquet(str(folder / "*.parquet"))
    if tool == "plain":
        job(history).write.format("noop").mode("overwrite").save()
        return
    if tool == "mixedmode":
        import mixedmode

        keyed = job(mixedmode.read(history=history))
    else:
        keyed = job(spark.readStream.schema(DDL).option("pathGlobFilter", "*.parquet").parquet(str(folder)))
    writer = keyed.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(scratch / "checkpoints")).start().awaitTermination()


def main() -> None:
    """Run one way."""
    spark = new_session(Path(sys.argv[3]) / "warehouse")
    run(spark, sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    print(json.dumps({}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
