"""A job that sends to Kafka, in a process of its own: ``python driver_kafka_sink.py <folder> <brokers> <topic>``.

With ``TEST_LIFE=inside`` it dies as soon as there are messages in the topic's log.  A checkpoint has several lanes,
with ``TEST_LIFE=small`` a single one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import intervals
import support
from kafka_broker import Broker
from mixedmode.runtime.connectors.sinks.kafka import send_lanes
from mixedmode.runtime.connectors.sinks.kafka import sink as sinks
from pyspark.sql import functions as F


def die_with_the_first_message(broker: Broker, topic: str) -> None:
    """Committed or not."""
    while not sum(broker.ends(topic).values()):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, brokers: str, topic: str) -> None:
    if os.environ["TEST_LIFE"] != "small":
        send_lanes.ROWS_PER_LANE, sinks.ROWS_PER_TRANSACTION = 20, 9
    world = support.World(support.driver_session("local[2,3]"), folder)
    history = world.history()
    if os.environ["TEST_LIFE"] == "inside":
        threading.Thread(target=die_with_the_first_message, args=(Broker(brokers), topic), daemon=True).start()
    messages = support.sessions(history, world.live()).select("key", F.to_json(F.struct("*")).alias("value"))
    writer = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("topic", topic)
    writer = writer.option("execution.backlog.final-watermark", "observed").option("pipeline.parallelism", 2)
    writer = writer.option("execution.checkpointing.interval", intervals.named("1 hour"))
    query = support.live(writer.option("checkpointLocation", str(world.checkpoints)).start())
    for path in sorted((folder / "pending").glob("*.parquet")):
        path.rename(world.landing / path.name)
        query.processAllAvailable()  # which takes the only checkpoints behind the switch
    query.processAllAvailable()  # all that an earlier life has landed, if nothing is left for this one
    query.stop()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
