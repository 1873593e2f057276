"""A live job in a process of its own, to be killed between two calls of its sink's function.

``python driver_calls.py <folder>``: counts of the files in ``pending``, which land together once the job is live, an
epoch each; a line in ``calls`` for each call that has come to its end: its id and its rows.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import support


def main(folder: Path) -> None:
    world = support.World(support.driver_session(), folder)

    def note(rows: Any, number: int) -> None:
        with open(folder / "calls", "a") as calls:
            calls.write(f"{json.dumps([number, sorted(map(list, rows.collect()))])}\n")

    writer = support.counts(world.live(maxFilesPerTrigger="1")).writeStream.foreachBatch(note)
    options = {"execution.checkpointing.interval": "1 hour", "pipeline.parallelism": 2}
    query = support.live(writer.options(checkpointLocation=str(world.checkpoints), **options).start())
    for path in sorted((folder / "pending").glob("*.parquet")):
        path.rename(folder / "landing" / path.name)
    support.finish(query)
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]))
