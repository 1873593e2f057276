"""Latencies of the package's own live phase in Real-Time Mode: a job from Kafka to Kafka, as users write it.

    python benchmarks/real_time/job.py --rate 1000 --seconds 135
    python benchmarks/real_time/job.py --rate 1000 --epoch 0    (the same job with micro-batches)

Prints the figures, and draws each row's latency over time (latencies.svg in the run's folder).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE.parent), str(_HERE.parents[1] / "tests")]

import local_files  # noqa: E402
import maven_jars  # noqa: E402
import messages  # noqa: E402
import mixedmode  # noqa: E402
import producer  # noqa: E402
import usage  # noqa: E402
from kafka_broker import Broker, Use  # noqa: E402
from latencies import Row, quantiles  # noqa: E402
from options import Options, from_command_line  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from pyspark.sql import Row as SparkRow  # noqa: E402
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # noqa: E402

SHARDS, PARTITIONS = 2, 2
#: The first rows find cold code.
_LEFT_OUT_S = 3


class Counting(StatefulProcessor):
    """Answers each row with how many its key has had, and with the row's stamp."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:
        (count,) = self._count.get() or (0,)
        for row in rows:
            count += 1
            yield SparkRow(key=key[0], value=f"{count}|{row.value.rpartition('|')[2]}")
        self._count.update((count,))

    def close(self) -> None:
        pass


def main(options: Options) -> None:
    """Run it and show what it took."""
    shutil.rmtree(options.folder, ignore_errors=True)
    os.makedirs(options.folder)
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    os.environ.update(TZ="UTC", SPARK_LOCAL_IP="127.0.0.1")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    use = Use(Path(options.folder) / "broker", maven_jars.jars("broker"))
    try:
        spark = _session(options)
        try:
            _run(spark, Broker(use.bootstrap), options)
        finally:
            spark.stop()
    finally:
        use.close()


def _session(options: Options) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[8]").appName("real-time job")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": options.jvm,
        "spark.jars": ",".join(map(str, maven_jars.jars("connector"))),
        "spark.local.dir": f"{options.folder}/spark",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    local_files.write_without_processes(spark)
    return spark


def _run(spark: SparkSession, broker: Broker, options: Options) -> None:
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    source, target = broker.create("s", PARTITIONS, **by_broker), broker.create("d", 1, **by_broker)
    query = _writer(spark, broker, source, target, options).start()
    if not query.wait_for("live", 600):
        raise RuntimeError(f"the job is not live: {query.exception() or query.status}")
    time.sleep(options.warm_up_s)
    began, cpu_s, load = time.time(), usage.cpu_s(), os.getloadavg()[0]
    feed = producer.start(broker.bootstrap, source, options.rate, options.seconds, options.keys)
    try:
        told, _ = feed.communicate(timeout=options.seconds + 120)
    finally:
        feed.kill()
    seconds, cpu_s = time.time() - began, usage.cpu_s() - cpu_s
    query.processAllAvailable()
    epochs = [one["batchId"] for one in query.recentProgress]
    query.stop()
    if query.exception() is not None:
        raise query.exception()
    messages.write_times(broker, target, f"{options.folder}/out.tsv")
    answers = _rows(options.folder)
    rows = [row for row in answers if row.at > began + _LEFT_OUT_S]
    way = f"epochs of {options.epoch_s:g} s" if options.epoch_s else "micro-batches"
    job = f"{options.rate:g} rows/s for {options.seconds:g} s, {way}, {options.keys} keys"
    print(f"{job}; load {load:.1f} to {os.getloadavg()[0]:.1f}; {told.strip()}; {len(epochs)} epochs")
    print(f"answers {len(answers)}, of which {len(rows)} to rows behind the first {_LEFT_OUT_S} s:")
    print(quantiles([row.ms for row in rows], 0.5, 0.9, 0.99, 0.999))
    answered = sorted(row.at + row.ms / 1e3 for row in rows)
    pauses = sorted((1e3 * (next_s - this_s) for this_s, next_s in pairwise(answered)), reverse=True)
    print(f"longest times between two answers: {', '.join(f'{ms:.0f} ms' for ms in pauses[:3])}")
    print(f"CPU-seconds per 1,000 rows: {1000 * cpu_s / (options.rate * seconds):.2f}")
    _draw(rows, began, f"{options.folder}/latencies.svg", job)


def _writer(spark: SparkSession, broker: Broker, source: str, target: str, options: Options) -> Any:
    history = spark.range(options.keys).selectExpr("format_string('k%06d', id) AS key", "'0|0' AS value")
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    live = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
    rows = mixedmode.read(
        history=history, live=live.selectExpr("CAST(key AS string) AS key", "CAST(value AS string) AS value")
    )
    counted = rows.groupBy("key").transformWithState(Counting(), "key string, value string", "update", "none")
    writer = counted.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    writer = writer.option("topic", target).option("checkpointLocation", f"{options.folder}/checkpoints")
    writer = writer.option("pipeline.parallelism", SHARDS).outputMode("update")
    if options.epoch_s:
        return writer.trigger(realTime=f"{options.epoch_s:g} seconds")
    return writer.option("execution.sink.delivery-guarantee", "at-least-once")  # as in real time


def _rows(folder: str) -> list[Row]:
    """What came of the topic's rows, in the order in which they were produced; the history has no stamp."""
    lines = Path(folder, "out.tsv").read_text().splitlines()
    found = sorted((int(us), int(ms)) for ms, us in (line.split("\t") for line in lines))
    return [Row(us / 1e6, ms - us / 1e3) for us, ms in found if us]


def _draw(rows: list[Row], began: float, path: str, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    axes.plot([row.at - began for row in rows], [max(row.ms, 1) for row in rows], ".", markersize=1.5, rasterized=True)
    axes.set(yscale="log", xlabel="seconds", ylabel="ms to the answer", title=title)
    axes.grid(alpha=0.3)
    figure.savefig(path)


if __name__ == "__main__":
    main(from_command_line())
