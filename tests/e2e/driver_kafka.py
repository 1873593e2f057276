"""Jobs over Kafka in a process of their own: ``python driver_kafka.py <folder> <brokers> <job>…``.

When all jobs are live, each gets the messages of this life.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import intervals
import kafka_support
import support
from kafka_broker import Broker
from kafka_support import numbered, send, without_positions
from mixedmode import kafka, read
from pyspark import cloudpickle

WAIT_S = 240
#: What each job gets while it is live, by ``TEST_LIFE``.
LIVE = {"second": (range(60, 70), range(70, 80)), "third": (range(90, 100),)}


def described(world: support.World, brokers: str, topic: str, name: str) -> Any:
    """``behind`` a lake by its positions; ``latest`` beside a history that knows of no topic."""
    spark = world.spark
    history = spark.read.parquet(str(world.folder / "lake"))
    if name == "behind":
        return kafka.read(spark, brokers, topic, parse=without_positions, history=history)
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic)
    return read(history=history.select("key", "ts", "value"), live=without_positions(stream.load()))


def main(folder: Path, brokers: str, names: list[str]) -> None:
    cloudpickle.register_pickle_by_value(kafka_support)
    spark, broker, queries = support.driver_session("local[4]"), Broker(brokers), {}
    for name in names:
        world, topic = support.World(spark, folder / name), (folder / name / "topic").read_text()
        job = numbered(described(world, brokers, topic, name))
        queries[topic] = query = world.start(job, {"execution.checkpointing.interval": intervals.named("1 hour")})
        assert query.wait_for("live", WAIT_S), query.exception()
        told = [event.detail for event in query.lifecycle if event.event == "reused"]
        with open(folder / name / "reused", "a") as file:
            file.writelines(told)
    for values in LIVE[os.environ["TEST_LIFE"]]:
        for topic, query in queries.items():
            send(broker, topic, values)
            query.processAllAvailable()  # which takes the only checkpoints behind the switch
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
