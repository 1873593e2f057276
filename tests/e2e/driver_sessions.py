"""A job in a process of its own, to be killed: history, what waits at the live source, then files one after the other.

``SESSIONS_MASTER=local[2,3] python driver_sessions.py <folder> <job> <backlog options as name=value>...`` runs the job
of the folder from wherever an earlier run left it, and prints ``done`` when everything is processed and committed.
With ``FILES="at once"`` all files land together, and each micro-batch takes one.
``<job>`` is a function of :mod:`support`, or ``<module>:<function>`` of one beside it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import support


def main(folder: Path, job: str, options: dict[str, str]) -> None:
    settings = {
        "spark.shuffle.reduceLocality.enabled": "false",
        # On a cluster; how many attempts of a stage lost executors cost depends on when each is lost.
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
    }
    spark = support.driver_session(os.environ["SESSIONS_MASTER"], settings)
    support.compact_eagerly()
    world = support.World(spark, folder)
    history = world.history()
    module, _, name = job.rpartition(":")
    described = getattr(import_module(module or "support"), name)
    at_once = os.environ.get("FILES") == "at once"
    live = world.live(maxFilesPerTrigger="1") if at_once else world.live()
    query = world.start(described(history, live), options)
    try:
        query.wait_for("live", 300)
        query.processAllAvailable()
        for path in sorted((folder / "pending").glob("*.parquet")):
            path.rename(folder / "landing" / path.name)
            if not at_once:
                query.processAllAvailable()
        support.finish(query)
        query.awaitTermination(1)
    except mixedmode_error() as error:
        print(f"failed: {error}", flush=True)
        os._exit(3)
    print("done", flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def mixedmode_error() -> type[Exception]:
    from mixedmode import MixedModeError

    return MixedModeError


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[3:]))
