"""A job in a process of its own that runs until somebody stops it from outside.

``python driver_requests.py <folder>``: history and landing zone of the folder; prints ``live`` when it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import support


def main(folder: Path) -> None:
    world = support.World(support.driver_session(), folder)
    history = world.history()
    options = {"execution.backlog.final-watermark": "observed"}
    query = world.start(support.sessions(history, world.live()).uid("sessions"), options)
    query.wait_for("live", 300)
    print("live", flush=True)
    query.awaitTermination()
    print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
