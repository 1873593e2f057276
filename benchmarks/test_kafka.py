"""Kafka as the live source: a topic as backlog, and small micro-batches of messages."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import mixedmode
import pytest
from confluent_kafka import Producer
from dataset import Dataset, Shape, batches, dataset
from in_turn import OURS, STOCK, start, told
from micro_batches import live_run, watched
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from race import Race, ratio
from topics import OBSERVED, TopicWays, broker, fill, rows_of, text_of
from ways import MIXED, PLAIN, STOCK_TEN
from workload import aggregate, by_hour, processor


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker of these benchmarks' own."""
    with broker(tmp_path_factory.mktemp("kafka")) as made:
        yield made


@pytest.fixture(scope="module")
def topics(spark: SparkSession, kafka: Any) -> dict[str, str]:
    """Names of topics by the shape whose rows they hold; each is filled once."""
    return {}


def _topic(spark: SparkSession, kafka: Any, topics: dict[str, str], shape: Shape) -> str:
    if shape.name not in topics:
        topic = kafka.create("rows", 4)
        fill(spark, kafka.bootstrap, topic, dataset(shape))
        topics[shape.name] = topic
    return topics[shape.name]


def windows(frame: Any) -> Any:
    """An aggregate by event time: of each hour."""
    return by_hour(frame.withWatermark("ts", "1 hour"), "value")


def few_keys(keys: int) -> Any:
    """The processor on so many keys, whatever the topic has."""
    return lambda frame: processor(frame.withColumn("key", F.xxhash64(F.pmod("key", F.lit(keys)))))


@pytest.mark.parametrize("name", ["aggregate", "windows", "processor"])
def test_kafka_backlog(
    benchmark: Any, spark: SparkSession, bench: Any, kafka: Any, topics: dict[str, str], name: str
) -> None:
    """All ways in turn, round by round; stock only in the first ones."""
    sizes = bench.sizes
    shape = Shape(sizes.kafka_rows, sizes.kafka_keys)
    job = {"aggregate": aggregate(), "windows": windows, "processor": few_keys(sizes.kafka_processor_keys)}[name]
    names = {
        "aggregate": (PLAIN, MIXED, STOCK_TEN),
        "windows": (PLAIN, MIXED, OBSERVED),
        "processor": (MIXED, STOCK_TEN),  # Spark in batch keeps the state store for a processor
    }[name]
    keys = {"processor": sizes.kafka_processor_keys}.get(name, shape.keys)
    title = f"Kafka backlog, {name}: {shape.rows:,} messages in 4 partitions, {keys:,} keys"
    begun = bench.begin(f"kafka-{name}", title, shape=shape.name, keys=keys, rounds=sizes.kafka_rounds)
    limit_s, mode = sizes.kafka_stock_limit_s, "append" if name == "windows" else "update"
    found = []
    for one in (Shape(1_000, 100), shape):
        topic = _topic(spark, kafka, topics, one)
        found.append(
            TopicWays(spark, job, kafka.bootstrap, topic, one.rows, limit_s, mode, name == "aggregate").of(*names)
        )
    warm_up, ways = found
    for way in warm_up.values():
        with bench.scratch() as folder:
            way(folder)
    rounds = {way: sizes.slow_rounds if way == STOCK_TEN else sizes.kafka_rounds for way in ways}
    seconds = Race(ways, rounds, bench.scratch).run(benchmark)
    findings = {
        "aggregate": lambda: {
            "kafka-plain": ratio(seconds, MIXED, PLAIN),
            "kafka-aggregate-stock": ratio(seconds, MIXED, STOCK_TEN),
        },
        "windows": lambda: {
            "kafka-windows-plain": ratio(seconds, MIXED, PLAIN),
            "kafka-observed-plain": ratio(seconds, OBSERVED, PLAIN),
        },
        "processor": lambda: {"kafka-processor-stock": ratio(seconds, MIXED, STOCK_TEN)},
    }[name]()
    stopped = f"stock was stopped after {limit_s} s: its figure, and so the ratio to it, is a lower bound"
    bench.record(
        begun,
        rows=shape.rows,
        seconds=seconds,
        baselines=tuple(way for way in (PLAIN, STOCK_TEN) if way in ways),
        findings=findings,
        notes=(stopped,) if max(seconds.get(STOCK_TEN, [0])) >= limit_s else (),
    )


def test_kafka_latency(benchmark: Any, spark: SparkSession, bench: Any, kafka: Any) -> None:
    """Both queries hold the same state and get the same messages in turn."""
    sizes = bench.sizes
    rows, keys = sizes.latency_batch_rows, sizes.small_latency_keys
    history = Shape(keys, keys, files=1, each_key_once=True)
    small = Shape(rows * (sizes.latency_batches + 1), keys, files=sizes.latency_batches + 1)
    title = f"Kafka stream, processor: micro-batches of {rows:,} messages on {keys:,} keys of state"
    begun = bench.begin("kafka-latency", title, history=history.name, small=small.name)
    tiny = dataset(Shape(100, 100, files=1, each_key_once=True)), Shape(20, 100, files=2)
    _feed_both(spark, kafka, *tiny, bench)
    found = benchmark.pedantic(_feed_both, args=(spark, kafka, dataset(history), small, bench), rounds=1)
    seconds, notes = told(found)
    findings = {"kafka-latency-stock": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=rows, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)


def _feed_both(spark: SparkSession, kafka: Any, history: Dataset, small: Shape, bench: Any) -> dict[str, list[Any]]:
    """Every micro-batch but the first, of ours and of stock's query."""
    feeds = {way: kafka.create(way, 1) for way in (OURS, STOCK)}
    state = kafka.create("state", 4)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    reader = reader.option("startingOffsets", "earliest")
    # A batch of messages is one request, which the broker takes as a whole: so it is one micro-batch, too.
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 500, "log_level": 0})
    with bench.scratch() as folder, watched(spark) as seen:
        before = spark.read.schema(history.shape.ddl).parquet(*history.files)
        live, ours, stock = rows_of(reader.option("subscribe", feeds[OURS]).load()), None, None
        try:
            ours = start(processor(mixedmode.read(history=before, live=live)), folder / "ours", False)
            assert ours.wait_for("live", 600), ours.exception()
            ids = {OURS: live_run(ours)}
            fill(spark, kafka.bootstrap, state, history)
            both = rows_of(reader.option("subscribe", f"{state},{feeds[STOCK]}").load())
            stock = start(processor(both), folder / "stock", False)
            ids[STOCK] = str(stock.runId)
            seen.wait_for(ids[STOCK], 1)
            found: dict[str, list[Any]] = {OURS: [], STOCK: []}
            for number in range(small.files):
                for way, run in ids.items():
                    loaded = len(seen.of(run))
                    for batch in batches(small, number):
                        for key, ts, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                            producer.produce(feeds[way], text_of(int(ts.timestamp()), value), str(key))
                    assert producer.flush(60) == 0
                    seen.wait_for(run, loaded + 1)
                    found[way] += seen.of(run)[loaded:]
        finally:
            for query in (ours, stock):
                if query is not None:
                    query.stop()
        return {way: each[1:] for way, each in found.items()}
