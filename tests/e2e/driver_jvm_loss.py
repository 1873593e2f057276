"""A job whose JVM is killed, and then every method of its handle: prints what each says, as JSON.

``python driver_jvm_loss.py <folder>``
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import support
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease
from pyarrow import fs


def said(call: Callable[[], Any]) -> list[str]:
    """Type and text of what a call raises, or its value."""
    try:
        return ["value", str(call())]
    except BaseException as error:
        return [type(error).__name__, str(error)]


def main(folder: Path) -> None:
    spark = support.driver_session()
    world = support.World(spark, folder)
    events = support.stream_of(60, seed=3)
    world.land(events[:30])
    options = {"execution.checkpointing.interval": "1 hour", "pipeline.late-data.path": str(folder / "late")}
    query = support.live(world.start(support.sessions(world.history(events), world.live()), options))
    query.processAllAvailable()
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)  # type: ignore[union-attr]
    calls: dict[str, Callable[[], Any]] = {
        "processAllAvailable": query.processAllAvailable,
        "awaitTermination": lambda: query.awaitTermination(120),
        "exception": query.exception,
        "savepoint": lambda: query.savepoint(str(folder / "sp")),
        "stopWithSavepoint": lambda: query.stopWithSavepoint(str(folder / "sp")),
        "lateRows": lambda: query.lateRows,
        "lastProgress": lambda: query.lastProgress,
        "status": lambda: query.status["message"],
        "stop": query.stop,
        "isActive": lambda: query.isActive,
        "lease": DriverLease(fs.LocalFileSystem(), f"{world.checkpoints}/mixedmode", "next").check_free,
    }
    print(json.dumps({name: said(call) for name, call in calls.items()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
