"""A driver in a process of its own that counts as one of another host, and does what it is told line by line.

``MIXEDMODE_PLACE=a.1 python driver_paused.py <folder> local|store|<URI>``:

``run <failpoints>``    start the query and process what is there; answers ``done``, or ``failed:`` and why
``stop``                stop the query; answers ``stopped``, or ``failed:`` and why
``wait``                wait for the query's own end; answers ``ended``, or ``failed:`` and why

``store``: checkpoints and output are on a filesystem without rename, in which a file appears when it is closed.  A URI:
they are below that, which is reached by the settings in ``TEST_HADOOP``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))

import intervals
import refusing
import support
from mixedmode import MixedModeError
from mixedmode.runtime.connectors.sinks import files
from mixedmode.runtime.driver.run import runner
from mixedmode.runtime.support import failpoints
from pyarrow import fs
from pyspark import cloudpickle

OPTIONS = {
    "execution.backlog.final-watermark": "observed",
    "execution.checkpointing.interval": intervals.named("1 hour"),
    "execution.lease.expiry": os.environ.get("TEST_EXPIRY", "3 s"),
    "execution.lease.heartbeat-interval": "200 ms",
    "state.checkpoints.num-retained": "1",
}


def main(folder: Path, kind: str) -> None:
    said = json.loads(os.environ.get("TEST_HADOOP", "{}"))
    spark = support.driver_session(settings={f"spark.hadoop.{name}": text for name, text in said.items()})
    support.compact_eagerly()
    if kind == "store":
        cloudpickle.register_pickle_by_value(refusing)

        def resolve(location: str) -> tuple[fs.FileSystem, str]:
            return fs.PyFileSystem(refusing.ObjectStore(folder / "no flag")), location

        runner.resolve = files.resolve = resolve  # type: ignore[attr-defined]
    world = support.World(spark, folder)
    if "://" in kind:
        world.out, world.checkpoints = f"{kind}/out", f"{kind}/checkpoints"  # type: ignore[assignment]
    history = spark.read.schema(support.ROW_SCHEMA).parquet(str(folder / "history.parquet"))
    query: Any = None
    print("ready", flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        try:
            if command == "run":
                os.environ[failpoints.VARIABLE] = argument
                failpoints._hits.clear()
                query = world.start(support.sessions(history, world.live()), OPTIONS)
                query.wait_for("live", 300)
                query.processAllAvailable()
                print("done", flush=True)
            elif command == "wait":
                query.awaitTermination()
                print("ended", flush=True)
            else:
                query.stop()
                query.awaitTermination(1)
                print("stopped", flush=True)
        except MixedModeError as error:
            print("failed:", str(error).replace("\n", " "), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
