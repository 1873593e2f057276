"""Run as a process of its own: a job of :mod:`keyed_rows` in a session that has done nothing yet.

    python keyed_rows_process.py <job> <way> <rows> <seed> <folder>

Prints seconds from ``start()`` (of plain batch, from the call of the writer) and from the first call to the end of the
job, and the CPU-seconds of all processes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fresh import timed
from keyed_rows import row_jobs
from sessions import new_session


def main() -> None:
    """Do what is asked, once."""
    job, way, rows, seed, folder = sys.argv[1:]
    with TemporaryDirectory(dir=folder) as scratch:
        spark = new_session(Path(scratch) / "warehouse")
        described = row_jobs(int(rows), int(seed))[job]
        print(json.dumps(timed(lambda: described.prepared(spark, way, Path(scratch)))), flush=True)
    os._exit(0)  # no need to wait for the JVM to say good-bye


def arguments(job: str, way: str, rows: int, seed: int, folder: Path) -> list[str]:
    """The command line of a process."""
    return [sys.executable, str(Path(__file__)), job, way, str(rows), str(seed), str(folder)]


if __name__ == "__main__":
    main()
