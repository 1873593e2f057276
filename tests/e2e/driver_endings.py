"""A job in a process of its own that is killed while it ends, or while it writes a savepoint.

``python driver_endings.py <folder> drain|suspend|savepoint|rescale|on|restored [<savepoint> <failpoints>]`` processes
what has landed.  Then it stops with a savepoint (drains or not), or takes one and goes on, or deals its shards anew
(their number stands in the savepoint's place), or just goes on: to what is pending, and to an ordinary stop.  The
failpoints count from the moment at which the savepoint is asked for, or from the start if none is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import support
from mixedmode.runtime.support.failpoints import VARIABLE


def main(folder: Path, how: str, savepoint: str = "", failpoints: str = "") -> None:
    world = support.World(support.driver_session(), folder)
    history = world.history()
    options: dict[str, Any] = {"execution.backlog.final-watermark": "observed"}
    if how == "rescale":  # as many as there were
        options["pipeline.parallelism"] = None
    if how == "restored":  # it begins from the savepoint, elsewhere
        world.checkpoints, world.out = folder / "restored" / "checkpoints", folder / "restored" / "out"
        options["execution.savepoint.path"] = savepoint
        history = None
    if how == "on":
        os.environ[VARIABLE] = failpoints
    query = world.start(support.sessions(history, world.live()).uid("sessions"), options)
    query.wait_for("live", 300)
    query.processAllAvailable()
    if how in ("drain", "suspend"):
        os.environ[VARIABLE] = failpoints
        query.stopWithSavepoint(savepoint, drain=how == "drain")
    else:
        if how == "savepoint":
            os.environ[VARIABLE] = failpoints
            query.savepoint(savepoint)
        if how == "rescale":
            os.environ[VARIABLE] = failpoints
            query.rescale(int(savepoint))
        for path in sorted((folder / "pending").glob("*.parquet")):
            path.rename(folder / "landing" / path.name)
            query.processAllAvailable()
        query.stop()
    query.awaitTermination(1)
    print("done", flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
