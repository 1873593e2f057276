"""A job in a process of its own that runs until it gets SIGTERM: ``python driver_sigterm.py <folder> <how>``.

Prints ``live`` when it is, ``ended`` and how many shards it has reused when ``awaitTermination()`` has returned.  Rows
of one key wait for the file that ``TEST_GO`` names.  ``told``: the program has a handler of its own, which prints that
word.  ``two``: a second query runs beside it, everything that is there is processed before it says ``live``, and the
signal has savepoints written to the folder ``sp``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import intervals
import support

SLOW = "k0"


class Patient(support.Sessions):
    """Sessions; one key waits."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        go = Path(os.environ["TEST_GO"])
        while key[0] == SLOW and not go.exists():
            go.with_name("waiting").touch()
            time.sleep(0.02)
        yield from super().handleInputRows(key, rows, timerValues)


def main(folder: Path, how: str) -> None:
    if how == "told":
        signal.signal(signal.SIGTERM, lambda number, frame: print("told", flush=True))
    world = support.World(support.driver_session(), folder)
    options = {
        "execution.checkpointing.interval": intervals.named("200 ms"),
        "execution.backlog.final-watermark": "observed",
    }
    if how == "two":
        options["execution.savepoint.on-sigterm"] = str(folder / "sp")
    history = world.history()
    support.Sessions = Patient  # type: ignore[misc]
    queries = [world.start(support.sessions(history, world.live()).uid("sessions"), options)]
    if how == "two":
        world.out, world.checkpoints = folder / "unique", folder / "unique-checkpoints"
        queries.append(world.start(support.unique(None, world.live()), options))
    if all(query.wait_for("live", 300) for query in queries):
        if how == "two":
            for query in queries:
                query.processAllAvailable()
        print("live", flush=True)
    for query in queries:
        query.awaitTermination()
    print("ended", *support.details(queries[0], "reused"), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
