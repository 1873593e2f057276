"""Totals by customer, kept up to date in a table of a database: update mode, and a merge by key in foreachBatch.

Of each checkpoint the function gets one row per customer whose total has changed.  After a failure it may get a batch
again, under the same id and with the same rows, so the table notes, in the same transaction, which ids it has: here
the answer to one merge is lost, the query is started again, and no row counts twice.  At the end the table is compared
with one plain Spark batch.

python examples/merge_by_key.py
"""

import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import mixedmode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "customer string, amount long"
MERGE = """
    INSERT INTO totals VALUES (?, ?, ?, 1)
    ON CONFLICT (customer) DO UPDATE SET spent = excluded.spent, orders = excluded.orders, changes = changes + 1
"""


class Totals:
    """The table; SQLite here, and with another driver any database that has transactions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.repeated: list[int] = []
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE totals (customer TEXT PRIMARY KEY, spent INT, orders INT, changes INT)")
            # Ids are those of one checkpointLocation: a job that starts with another one needs an empty table.
            database.execute("CREATE TABLE merged (batch INT PRIMARY KEY)")

    def merge(self, rows: DataFrame, batch: int) -> None:
        """Put a batch's rows in the place of older ones of their customers, once; all of them or none."""
        with closing(sqlite3.connect(self.path)) as database, database:  # commits, or rolls back what has failed
            if database.execute("SELECT 1 FROM merged WHERE batch = ?", [batch]).fetchone():
                self.repeated.append(batch)
                return
            database.executemany(MERGE, map(tuple, rows.select("customer", "spent", "orders").toLocalIterator()))
            database.execute("INSERT INTO merged VALUES (?)", [batch])

    def read(self, columns: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(f"SELECT {columns} FROM totals ORDER BY customer").fetchall()


def totals_of(orders: Any) -> Any:
    """The job's one line of logic, for frames of mixedmode and for plain ones."""
    return orders.groupBy("customer").agg(F.sum("amount").alias("spent"), F.count("*").alias("orders"))


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        history, landing = f"{folder}/history", f"{folder}/landing"
        orders = spark.range(20_000).selectExpr("concat('customer-', id % 70) AS customer", "id % 90 AS amount")
        orders.write.parquet(history)
        os.makedirs(landing)
        table, answers = Totals(f"{folder}/totals.db"), {"lost": False}

        def merge(rows: DataFrame, batch: int) -> None:
            table.merge(rows, batch)
            if batch > 1 and not answers["lost"]:  # the history is batch 1
                answers["lost"] = True
                raise ConnectionError("the answer of the database was lost")

        def start() -> mixedmode.MixedQuery:
            live = spark.readStream.schema(SCHEMA).parquet(landing)
            return (
                totals_of(mixedmode.read(history=spark.read.parquet(history), live=live))
                .uid("totals")
                .writeStream.outputMode("update")
                .foreachBatch(merge)
                .option("checkpointLocation", f"{folder}/checkpoints")
                .start()
            )

        query = start()
        if not query.wait_for("live", timeout=120):
            sys.exit(f"not live after two minutes: {query.exception() or query.status}")
        orders.limit(35).write.mode("append").parquet(landing)
        try:
            query.processAllAvailable()
        except mixedmode.QueryError as error:
            print(f"the query has failed: {str(error).splitlines()[0]}")
        query = start()
        orders.where("amount < 3").write.mode("append").parquet(landing)
        query.processAllAvailable()
        query.stop()

        batch = totals_of(spark.read.parquet(history).union(spark.read.schema(SCHEMA).parquet(landing)))
        expected = sorted(tuple(row) for row in batch.collect())
        print(f"batches that came again: {table.repeated}")
        print(f"a customer's total has changed up to {max(changes for (changes,) in table.read('changes'))} times")
        same = table.read("customer, spent, orders") == expected
        print(f"{'EQUAL to' if same else 'DIFFERENT from'} one batch over everything: {len(expected)} customers")
    spark.stop()


if __name__ == "__main__":
    main()
