"""A topic in, a topic out, exactly once: what each customer has spent, first from a lake that holds the topic's past.

The lake has each message's partition and offset, so the job reads the topic from right behind it: no order is lost or
counted twice.  Each new total is a message of another topic, sent in the transaction of its checkpoint.

python examples/totals_in_kafka.py localhost:9092

needs a broker, ``pip install 'mixedmode[kafka]'``, and Spark's connector, which Maven brings.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run the same Python as this program

import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from mixedmode import kafka
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ORDER = "customer string, ts timestamp, amount long"
CUSTOMERS = 20


def orders(messages: DataFrame) -> DataFrame:
    """What is in the messages, and where each one stood."""
    order = F.from_json(F.col("value").cast("string"), ORDER).alias("order")
    return messages.select(order, "partition", "offset").select("order.*", "partition", "offset")


def send(broker: str, topic: str, numbers: Iterable[int]) -> None:
    """An order for each number, a second apart."""
    producer = Producer({"bootstrap.servers": broker})
    for number in numbers:
        order = {"customer": f"c-{number % CUSTOMERS}", "amount": number % 90}
        order["ts"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + number))
        producer.produce(topic, json.dumps(order), key=str(order["customer"]))
    producer.flush()


def run(spark: SparkSession, broker: str, folder: str) -> bool:
    """Have the job take what the lake has and what goes on coming; whether the totals in the end are right."""
    name = f"{time.time_ns():x}"
    topic, totals = f"orders-{name}", f"totals-{name}"
    admin = AdminClient({"bootstrap.servers": broker})
    for made in admin.create_topics([NewTopic(one, 2, 1) for one in (topic, totals)]).values():
        made.result(60)

    send(broker, topic, range(2_000))
    stored = spark.read.format("kafka").option("kafka.bootstrap.servers", broker)
    orders(stored.option("subscribe", topic).load()).write.parquet(f"{folder}/lake")
    send(broker, topic, range(2_000, 3_000))  # they wait: the lake does not have them

    rows = kafka.read(spark, broker, topic, parse=orders, history=spark.read.parquet(f"{folder}/lake"))
    spent = rows.groupBy("customer").agg(F.sum("amount").alias("spent")).uid("spent")
    message = spent.select(F.col("customer").alias("key"), F.to_json(F.struct("customer", "spent")).alias("value"))
    query = (
        message.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", broker)
        .option("topic", totals)
        .option("checkpointLocation", f"{folder}/checkpoints")
        .option("execution.checkpointing.interval", "1 s")
        .start()
    )
    query.wait_for("live", timeout=120)
    send(broker, topic, range(3_000, 4_000))
    query.processAllAvailable()
    query.stop()  # with a checkpoint, so that all is sent

    committed = stored.option("kafka.isolation.level", "read_committed").option("subscribe", totals).load()
    total = F.from_json(F.col("value").cast("string"), "customer string, spent long").alias("total")
    last = committed.select(total, "offset").groupBy("total.customer").agg(F.max_by("total.spent", "offset"))
    expected = {f"c-{one}": sum(n % 90 for n in range(one, 4_000, CUSTOMERS)) for one in range(CUSTOMERS)}
    equal = {row[0]: row[1] for row in last.collect()} == expected
    print(f"{'EQUAL' if equal else 'NOT EQUAL'} to one batch over everything: {len(expected)} customers")
    return equal


def main(broker: str) -> int:
    """Run it with a session of its own; returns the exit code."""
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    spark = SparkSession.builder.master("local[2]").config("spark.jars.packages", connector).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        equal = run(spark, broker, folder)
    spark.stop()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
