"""On a cluster, starts a job once with each Python that its workers may run, and prints what ``start()`` says.

``INTERPRETERS`` has their names, ``FOLDER`` is that of the job.
"""

from __future__ import annotations

import os

import mixedmode
from pyspark.sql import SparkSession


def main() -> None:
    spark = SparkSession.builder.appName("interpreters").getOrCreate()
    history = spark.range(3).toDF("key")
    folder = os.environ["FOLDER"]
    for name in os.environ["INTERPRETERS"].split():
        spark.sparkContext.pythonExec = name  # as PYSPARK_PYTHON sets it for a new context
        writer = mixedmode.read(history=history).groupBy("key").count().writeStream.option("path", f"{folder}/out")
        try:
            writer.option("checkpointLocation", f"{folder}/{name}").start().awaitTermination()
            print("told", name, "nothing", flush=True)
        except mixedmode.MixedModeError as error:
            print("told", name, error.code, " ".join(str(error).split()), flush=True)
    print("all have been tried", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
