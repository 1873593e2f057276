"""A job whose coordinator and shards count, in a process of its own, to be killed.

``SESSIONS_MASTER=local[2,3] python driver_events.py <folder> <events>`` goes on with the job of the folder, lets files
land while the coordinator sends from a thread of its own, and prints ``done`` when all is processed and committed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import intervals
import numbering
import support
from mixedmode import MixedModeError
from pyspark import cloudpickle


def main(folder: Path, total: int) -> None:
    cloudpickle.register_pickle_by_value(numbering)
    settings = {
        "spark.shuffle.reduceLocality.enabled": "false",
        # On a cluster; how many attempts of a stage lost executors cost depends on when each is lost.
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
    }
    spark = support.driver_session(os.environ["SESSIONS_MASTER"], settings)
    world = support.World(spark, folder)
    history = world.history()
    serialises_first = os.environ.get("SERIALISES") == "first"
    coordinator = numbering.Numbering(total, every_s=0.02, per_checkpoint=4, serialises_first=serialises_first)
    job = numbering.described(history, world.live(), coordinator)
    query = world.start(job, {"execution.checkpointing.interval": intervals.named("50 ms")})
    try:
        query.wait_for("live", 300)
        query.processAllAvailable()
        for path in sorted((folder / "pending").glob("*.parquet")):
            path.rename(folder / "landing" / path.name)
            query.processAllAvailable()
        while coordinator.sent < total:
            query.processAllAvailable()
        support.finish(query)
        query.awaitTermination(1)
    except MixedModeError as error:
        print(f"failed: {error}", flush=True)
        os._exit(3)
    print("done", flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
