"""Two queries over one topic and into one topic, each with a location of its own."""

from __future__ import annotations

import json

import kafka_support
import mixedmode
from kafka_broker import Broker
from kafka_support import check_each_once, numbered, send, without_positions
from pyspark import cloudpickle
from pyspark.sql import functions as F
from support import World, finish, live

cloudpickle.register_pickle_by_value(kafka_support)
NAMES = ("one", "other")


def test_queries_of_two_locations_keep_out_of_each_others_way(world: World, kafka: Broker) -> None:
    """Both read every message and send every row once, at the same time, as one user would with one group of consumers,
    and also when one of them is started again while the other one sends."""
    source, target = kafka.create("read-by-two", 2), kafka.create("sent-by-two", 2)

    def start(name: str) -> mixedmode.MixedQuery:
        reader = world.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
        reader = reader.options(subscribe=source, startingOffsets="earliest", **{"kafka.group.id": "theirs"})
        rows = numbered(mixedmode.read(live=without_positions(reader.load())))
        told = rows.select(F.to_json(F.struct(F.lit(name).alias("by"), "key", "value", "number")).alias("value"))
        writer = told.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
        writer = writer.option("topic", target).option("pipeline.parallelism", 1)
        query = writer.option("checkpointLocation", str(world.folder / name)).start()
        world.queries.append(query)
        return query

    send(kafka, source, range(20))
    queries = {name: start(name) for name in NAMES}
    for query in queries.values():
        live(query)
    send(kafka, source, range(20, 30))
    queries["one"].processAllAvailable()
    queries["one"].stop()
    send(kafka, source, range(30, 40))
    queries["one"] = start("one")
    for query in queries.values():
        finish(query)
    sent = [json.loads(value) for _, value, _ in kafka.committed(target)]
    for name in NAMES:
        check_each_once([(row["key"], row["value"], row["number"]) for row in sent if row["by"] == name], range(40))
