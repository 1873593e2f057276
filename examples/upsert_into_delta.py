"""Totals by customer in a Delta table, from a Delta table: update mode, and a MERGE in foreachBatch, once for each id.

The orders up to a version are the backlog, and the stream goes on right behind that version, which at the start is the
newest.  Of each checkpoint the function gets one row per customer whose total has changed.  After a failure it may get
a batch again, under the same id and with the same rows; Delta remembers the id with the rows that it merged, and skips
what it has.  Here the answer to one MERGE is lost, the query is started again, and no change counts twice.  At the end
the table is compared with one plain Spark batch.

python examples/upsert_into_delta.py       (with pyspark 4.1; for others the package has another number)
"""

import os
import sys
import tempfile
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from mixedmode import delta
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
#: By these settings a statement of Delta's has an id, and is skipped if the table has it.
APPLICATION, VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"


class Upsert:
    """Puts rows in the place of older ones of their customers.

    Args:
        table: folder of the table.
        job: an id of the job that stays the same as long as its checkpointLocation does.
    """

    def __init__(self, table: str, job: str) -> None:
        self.table = table
        self.job = job
        self.lost_answers = 1

    def __call__(self, rows: DataFrame, batch: int) -> None:
        spark = rows.sparkSession
        rows.createOrReplaceTempView("changed")
        spark.conf.set(APPLICATION, self.job)
        spark.conf.set(VERSION, str(batch))
        try:
            spark.sql(
                f"MERGE INTO delta.`{self.table}` t USING changed c ON t.customer = c.customer"
                " WHEN MATCHED THEN UPDATE SET spent = c.spent, orders = c.orders, changes = t.changes + 1"
                " WHEN NOT MATCHED THEN INSERT (customer, spent, orders, changes)"
                " VALUES (c.customer, c.spent, c.orders, 1)"
            )
        finally:
            for name in (APPLICATION, VERSION):  # they are the session's, and would be those of other statements
                spark.conf.unset(name)
        if batch > 1 and self.lost_answers:  # the history is batch 1
            self.lost_answers -= 1
            raise ConnectionError("the answer of the table was lost")


def totals_of(orders: Any) -> Any:
    """The job's one line of logic, for frames of mixedmode and for plain ones."""
    return orders.groupBy("customer").agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", PACKAGE)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        source, table = f"{folder}/orders", f"{folder}/totals"
        orders = spark.range(20_000).selectExpr("concat('customer-', id % 70) AS customer", "id % 90 AS amount")
        orders.write.format("delta").save(source)
        empty = "customer string, spent long, orders long, changes long"
        spark.createDataFrame([], empty).write.format("delta").save(table)
        upsert = Upsert(table, "totals")

        def start() -> mixedmode.MixedQuery:
            return (
                totals_of(delta.read(spark, source))
                .uid("totals")
                .writeStream.outputMode("update")
                .foreachBatch(upsert)
                .option("checkpointLocation", f"{folder}/checkpoints")
                .start()
            )

        query = start()
        if not query.wait_for("live", timeout=120):
            sys.exit(f"not live after two minutes: {query.exception() or query.status}")
        orders.limit(35).write.format("delta").mode("append").save(source)
        try:
            query.processAllAvailable()
        except mixedmode.QueryError as error:
            print(f"the query has failed: {str(error).splitlines()[0]}")
        query = start()
        query.processAllAvailable()
        query.stop()

        found = spark.read.format("delta").load(table)
        batch = totals_of(spark.read.format("delta").load(source))
        expected = sorted(tuple(row) for row in batch.collect())
        most = found.agg(F.max("changes")).first()[0]
        print(f"a customer's total has changed up to {most} times")
        same = sorted(tuple(row) for row in found.drop("changes").collect()) == expected
        print(f"{'EQUAL to' if same else 'DIFFERENT from'} one batch over everything: {len(expected)} customers")
    spark.stop()


if __name__ == "__main__":
    main()
