"""One run of a live phase in Real-Time Mode with the commit protocol, and its figures (README.md).

python benchmarks/real_time/run.py --rate 1000 --seconds 135
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

_HERE = Path(__file__).resolve().parent
# What counts processes, and the tests' broker and the jars that it takes.
sys.path += [str(_HERE.parent), str(_HERE.parents[1] / "tests")]

import commits  # noqa: E402
import local_files  # noqa: E402
import maven_jars  # noqa: E402
import messages  # noqa: E402
import plan  # noqa: E402
import producer  # noqa: E402
import states  # noqa: E402
import summary  # noqa: E402
import usage  # noqa: E402
from kafka_broker import Broker, Use  # noqa: E402
from options import Options, from_command_line  # noqa: E402
from timeline import Timeline  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_FOLDERS = ("log", "reports", "rows", "pieces", "pool", "local", "spark", "spark-events")
_READY_S = 60


def main(options: Options) -> bool:
    """Run it and show what it took; False: the committed state was not as it should be."""
    folder = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    for name in _FOLDERS:
        os.makedirs(f"{folder}/{name}")
    Path(folder, "run.json").write_text(json.dumps({**asdict(options), "load": os.getloadavg()}))
    # Workers import the modules of this folder.
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    os.environ.update(TZ="UTC", SPARK_LOCAL_IP="127.0.0.1")
    os.environ["PYTHONPATH"] = f"{_HERE}:{os.environ.get('PYTHONPATH', '')}"
    use = Use(Path(folder) / "broker", maven_jars.jars("broker"))
    try:
        spark = plan.session(options)
        try:
            right = _run(spark, Broker(use.bootstrap), options)
        finally:
            spark.stop()
    finally:
        use.close()
    summary.show(folder)
    return right


def _run(spark: SparkSession, broker: Broker, options: Options) -> bool:
    folder = options.folder
    log = Timeline(f"{folder}/events.jsonl", who="driver")
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    source, target = broker.create("s", plan.PARTITIONS, **by_broker), broker.create("d", 1, **by_broker)
    local_files.write_without_processes(spark)
    done = commits.Commits(folder, source, states.before(spark, folder, options.keys), log)
    if options.warm_up_s:
        plan.warm_up(spark, broker, options)
    query = _query(spark, broker, source, target, options)
    _wait_until_ready(query, folder)
    _load(query, broker, source, done, options, log)
    if not query.isActive:
        raise RuntimeError(f"the query ended: {query.exception()}")
    query.stop()
    messages.write_times(broker, target, f"{folder}/out.tsv")
    messages.write_times(broker, source, f"{folder}/in.tsv")
    return not options.check or states.compare(broker, source, done.manifests, done.ends, folder)


def _query(spark: SparkSession, broker: Broker, source: str, target: str, options: Options) -> StreamingQuery:
    import shard

    job = shard.Job(options.folder, broker.bootstrap, target, commits.RUN, commits.FIRST_RECORD)
    processed = plan.rows(spark, broker.bootstrap, source).mapInArrow(shard.function(job), plan.SCHEMA)
    place = f"file://{options.folder}/spark-log-{commits.RUN}"
    writer = processed.writeStream.format("noop").outputMode("update").option("checkpointLocation", place)
    return writer.trigger(realTime=f"{options.epoch_s:g} seconds").start()


def _wait_until_ready(query: StreamingQuery, folder: str) -> None:
    """Until a shard waits for rows, and some seconds more for the other."""
    until = time.time() + _READY_S
    while time.time() < until and "shard ready" not in Path(folder, "events.jsonl").read_text():
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.1)
    time.sleep(3)


def _load(
    query: StreamingQuery, broker: Broker, source: str, done: commits.Commits, options: Options, log: Timeline
) -> None:
    """Let rows come, and commit epochs meanwhile."""
    cpu_began, threads_began, began = usage.cpu_s(), usage.threads_cpu_s(), time.time()
    log("load begins")
    waiting = usage.Waiting(log)
    waiting.start()
    feed = producer.start(broker.bootstrap, source, options.rate, options.seconds, options.keys)
    try:
        while query.isActive and feed.poll() is None:
            _commit(query, done)
        ended = time.time()
        used = usage.cpu_s() - cpu_began
        by_thread = {kind: s - threads_began.get(kind, 0) for kind, s in usage.threads_cpu_s().items()}
        log("load ended")
        # With a check the epoch that holds the last rows is waited for, too.
        rows = options.rate * options.seconds - 1
        until = ended + (2 * options.epoch_s + 20 if options.check else 5)
        while query.isActive and time.time() < until and (done.epoch < 0 or done.rows < rows):
            _commit(query, done)
        assert feed.stdout is not None
        told = {"cpu_s": used, "seconds": ended - began, "threads": by_thread, "load": os.getloadavg()}
        told["producer"] = feed.stdout.read() if feed.poll() is not None else ""
        Path(options.folder, "cpu.json").write_text(json.dumps(told))
    finally:
        waiting.end()
        feed.kill()
        feed.wait()


def _commit(query: StreamingQuery, done: commits.Commits) -> None:
    """Commit an epoch, or sleep; not on the way of any row: shards wait for it, but Spark plans for longer."""
    if not done.commit_next(query):
        time.sleep(0.015)


if __name__ == "__main__":
    sys.exit(not main(from_command_line()))
