"""A driver of jobs in Real-Time Mode, to be held at points, killed and stopped.

``python live_driver.py <folder> <reply descriptor> <brokers> <connector jars>`` takes :mod:`commands`.  A file of its
folder for each point is the flag by which a process is held there (see ``failpoints.py``).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent)]

import kafka_support  # noqa: E402
import live_jobs  # noqa: E402
import local_files  # noqa: E402
import process_tree  # noqa: E402
import support  # noqa: E402
from commands import serve  # noqa: E402
from live_points import POINTS  # noqa: E402
from mixedmode import MixedQuery, state_reader  # noqa: E402
from mixedmode.runtime.checkpoints.store import CheckpointStore  # noqa: E402
from mixedmode.runtime.support import failpoints  # noqa: E402
from mixedmode.state.store import state_manifest  # noqa: E402
from pyarrow import fs  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

#: Two partitions, two shards, one slot to spare, and one for a task of a query that is gone.  A task may fail four
#: times, as on a cluster.
MASTER = "local[6,4]"
_SETTINGS = {
    "spark.python.daemon.module": "warm_daemon",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
    # The place of a driver is taken soon after it was stopped.
    "spark.mixedmode.execution.lease.expiry": "3s",
    "spark.mixedmode.execution.lease.heartbeat-interval": "500ms",
}
_COMPACTION = (state_manifest._FULL_MIN_BYTES, state_manifest._LOGS_MAX)


def flag_of(folder: Path, point: str) -> Path:
    """The flag of a point: nobody is held there while it exists."""
    return folder / POINTS[point]


class LiveDriver:
    """What a driver can be told; each method is a command."""

    def __init__(self, spark: SparkSession, brokers: str) -> None:
        self._spark = spark
        self._brokers = brokers
        self._query: MixedQuery | None = None

    @property
    def query(self) -> MixedQuery:
        assert self._query is not None
        return self._query

    def start(self, kind: str, folder: str, source: str, target: str, compacts: bool, trigger: dict[str, str]) -> None:
        """Start a job, or go on with it."""
        state_manifest._FULL_MIN_BYTES, state_manifest._LOGS_MAX = (0, 2) if compacts else _COMPACTION
        writer = live_jobs.writer(self._spark, self._brokers, source, target, kind)
        options = {"checkpointLocation": f"{folder}/checkpoints", "pipeline.parallelism": "2"}
        for name, value in {**options, "state.checkpoints.num-retained": "500"}.items():
            writer = writer.option(name, value)
        self._query = writer.trigger(**trigger).start()

    def status(self) -> dict[str, Any]:
        """How the job is; there is no question to the JVM, which may be stopped."""
        query = self.query
        is_active = query.isActive
        return {
            "active": is_active,
            "live": query.wait_for("live", 0.01),
            "error": None if is_active else str(query.exception() or "")[:300],
            "jvm": bool(process_tree.find(os.getpid(), "jvm")),
        }

    def process(self) -> None:
        self.query.processAllAvailable()

    def stop(self) -> None:
        self.query.stop()
        self.query.awaitTermination(1)

    def compare(self, kind: str, folder: str, source: str) -> dict[str, Any]:
        """Compare the state of every checkpoint with a plain batch over the offsets before its position.

        Returns:
            How many checkpoints, rows of state and epochs in Real-Time Mode there are, and what differs.
        """
        location = f"{folder}/checkpoints"
        reader = state_reader(location, self._spark)
        store = CheckpointStore(fs.LocalFileSystem(), location)
        frames, ends, triggers = [], [], []
        for one in reader.checkpoints():
            assert one.complete, one.damage
            spark = store.read(one.id).spark
            assert spark is not None, one
            positions = json.loads(spark.offset_entry.splitlines()[2])[source]
            ends += [(one.id, int(partition), end) for partition, end in positions.items()]
            triggers.append(one.trigger)
            state = reader.state("seen" if kind == "processor" else None, checkpoint=one.id)
            frames.append(state.withColumn("number", F.lit(one.id)))
        offsets = self._spark.createDataFrame(ends, "number long, partition int, end long")
        wanted = live_jobs.batches(self._spark, self._brokers, source, kind, offsets).collect()
        all_states = frames[0]
        for frame in frames[1:]:
            all_states = all_states.unionByName(frame)
        found: dict[tuple[int, str], list[str]] = {}
        for row in all_states.collect():
            if kind == "deduplication":
                found.setdefault((row["number"], row["key"][0]), []).append(row["key"][1])
            else:
                found[row["number"], row["key"][0]] = [str(value) for value in row["value"]]
        if kind == "deduplication":
            found = {key: sorted(values) for key, values in found.items()}
        expected = {(row["number"], row["key"]): list(row["values"]) for row in wanted}
        different = [
            f"checkpoint {key[0]}, key {key[1]}: {found.get(key)} in the state, {expected.get(key)} by a batch"
            for key in sorted(found.keys() | expected.keys())
            if found.get(key) != expected.get(key)
        ]
        epochs = sum(trigger == "end of a real-time epoch" for trigger in triggers)
        return {"checkpoints": len(triggers), "rows": len(found), "epochs": epochs, "different": different[:10]}


def main(folder: Path, replies: int, brokers: str, jars: str) -> None:
    for point in POINTS:
        flag_of(folder, point).touch()
    held = ";".join(f"{name}=hold-once:{folder / name}" for name in POINTS.values())
    os.environ[failpoints.VARIABLE] = held
    cloudpickle.register_pickle_by_value(kafka_support)
    cloudpickle.register_pickle_by_value(live_jobs)
    spark = support.driver_session(MASTER, {**_SETTINGS, "spark.jars": jars})
    local_files.write_without_processes(spark)
    serve(LiveDriver(spark, brokers), replies)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
