"""A driver that runs jobs as it is told, in a process of its own, to be killed.

``python driver.py <folder> <reply descriptor> <master>`` takes :mod:`commands`.  ``<folder>`` takes its flags and
kills; see :mod:`disturber`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "e2e"))

import jobs  # noqa: E402
import outputs  # noqa: E402
import support  # noqa: E402
from commands import serve  # noqa: E402
from disturber import Disturber, prepare_workers  # noqa: E402
from mixedmode import MixedQuery, state_reader  # noqa: E402
from mixedmode.runtime.driver.checkpoint import housekeeping  # noqa: E402
from mixedmode.state.store import state_manifest  # noqa: E402
from plans import Plan, plan_of  # noqa: E402
from points import Disturbance  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

_HOUSEKEEPING = (housekeeping.CLEAN_EVERY_MS, housekeeping.KEEP_MS)
_COMPACTION = (state_manifest._FULL_MIN_BYTES, state_manifest._LOGS_MAX)
_SETTINGS = {
    "spark.shuffle.reduceLocality.enabled": "false",
    # How many attempts of a stage a lost daemon or executor costs depends on when it is lost.
    "spark.task.maxFailures": "20",
    "spark.stage.maxConsecutiveAttempts": "20",
}


class Driver:
    """What a driver can be told; each method is a command."""

    def __init__(self, spark: SparkSession, disturber: Disturber) -> None:
        self._spark = spark
        self._disturber = disturber
        self._query: MixedQuery | None = None

    @property
    def query(self) -> MixedQuery:
        assert self._query is not None
        return self._query

    def arm(self, number: int, disturbance: dict[str, Any]) -> None:
        self._disturber.arm(number, Disturbance(**disturbance))

    def disarm(self) -> None:
        self._disturber.disarm()

    def start(self, plan: list[Any], folder: str, history: bool, out: str, checkpoints: str, **options: str) -> None:
        """Start the job of a plan and come to its live phase."""
        made, root = plan_of(*plan[:2], cluster=plan[2]), Path(folder)
        self._disturber.beside_s = made.beside_ms / 1000
        state_manifest._FULL_MIN_BYTES, state_manifest._LOGS_MAX = (0, 2) if made.compacts_eagerly else _COMPACTION
        housekeeping.CLEAN_EVERY_MS, housekeeping.KEEP_MS = (0, 0) if made.compacts_eagerly else _HOUSEKEEPING
        writer = self._job(made, root, history).writeStream
        if made.kind == "totals":
            writer = writer.outputMode("update")
        if made.sink == "function":
            writer = writer.foreachBatch(outputs.idempotent(root / out, checkpoints))
        else:
            writer = writer.option("path", str(root / out))
        for name, value in {"checkpointLocation": str(root / checkpoints), **made.options, **options}.items():
            writer = writer.option(name, value)
        self._query = writer.start()
        if not self.query.wait_for("live", 300):
            self.query.awaitTermination(1)
            raise TimeoutError("the live phase was not reached")

    def _job(self, plan: Plan, root: Path, history: bool) -> Any:
        reader = self._spark.read.schema(support.ROW_SCHEMA)
        past = reader.parquet(str(root / "history.parquet")) if history and plan.history else None
        stream = self._spark.readStream.schema(support.ROW_SCHEMA)
        if plan.beside_ms:
            stream = stream.option("maxFilesPerTrigger", 1)
        return jobs.job_of(
            plan, past, [stream.parquet(str(root / f"live-{n}" / "landing")) for n in range(plan.inputs)]
        )

    def process(self) -> None:
        self.query.processAllAvailable()

    def stop(self) -> None:
        self.query.stop()
        self.query.awaitTermination(1)

    def savepoint(self, path: str, drain: bool) -> None:
        self.query.stopWithSavepoint(path, drain=drain)

    def state(self, location: str, name: str | None) -> list[Any]:
        """The first key column and the value of everything in a state variable."""
        rows = state_reader(location, self._spark).state(name).collect()
        return [[row["key"][0], list(row["value"])] for row in rows]


def main(folder: Path, replies: int, master: str) -> None:
    prepare_workers(folder)
    disturber = Disturber(folder / "kills", folder / "overlaps")
    spark = support.driver_session(master, _SETTINGS)
    cloudpickle.register_pickle_by_value(jobs)
    import mixedmode.runtime.query  # noqa: F401  (and with it whatever has failpoints)

    disturber.install()
    serve(Driver(spark, disturber), replies)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
