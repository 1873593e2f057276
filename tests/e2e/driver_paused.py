"""A driver in a process of its own that counts as one of another host, and does what it is told line by line.

``MIXEDMODE_PLACE=a.1 python driver_paused.py <folder> <URI>``:

``run <failpoints>``    start the query and process what is there; answers ``done``, or ``failed:`` and why
``stop``                stop the query; answers ``stopped``, or ``failed:`` and why
``wait``                wait for the query's own end; answers ``ended``, or ``failed:`` and why

With a URI that is not empty checkpoints and output are below that, which is reached by the settings in ``TEST_HADOOP``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))

import intervals
import support
from mixedmode import MixedModeError
from mixedmode.runtime.support import failpoints

OPTIONS = {
    "execution.backlog.final-watermark": "observed",
    "execution.checkpointing.interval": intervals.named("1 hour"),
    "execution.lease.expiry": os.environ.get("TEST_EXPIRY", "3 s"),
    "execution.lease.heartbeat-interval": "200 ms",
    "state.checkpoints.num-retained": "1",
}


def main(folder: Path, root: str) -> None:
    said = json.loads(os.environ.get("TEST_HADOOP", "{}"))
    spark = support.driver_session(settings={f"spark.hadoop.{name}": text for name, text in said.items()})
    support.compact_eagerly()
    world = support.World(spark, folder)
    if root:
        world.out, world.checkpoints = f"{root}/out", f"{root}/checkpoints"  # type: ignore[assignment]
    history = world.history()
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
