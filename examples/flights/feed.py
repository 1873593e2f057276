"""Plays the live feed: moves prepared files into a landing folder, one after the other."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path


class Feed:
    """A thread that lets files land.

    A file lands by a rename, so that nobody sees half of it.  What has not landed when a run is interrupted waits in
    ``waiting`` for the next run.

    Args:
        waiting: the files to come, in the order of their names.
        landing: the folder that the live source watches.
        pause_s: time between two files.
    """

    def __init__(self, waiting: Path, landing: Path, pause_s: float) -> None:
        self._waiting = waiting
        self._landing = landing
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        landing.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def fill(source: Path, waiting: Path) -> None:
        """Copy the files of ``source`` to ``waiting``, unless an earlier run has."""
        if waiting.exists():
            return
        unfinished = waiting.with_name(f"{waiting.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(source, unfinished)
        unfinished.rename(waiting)

    @property
    def to_come(self) -> int:
        """Files that have not landed yet."""
        return sum(1 for _ in self._waiting.glob("*.parquet"))

    def start(self) -> None:
        """Begin to let files land."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True until the last file has landed."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Let no further file land."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        for path in sorted(self._waiting.glob("*.parquet")):
            os.utime(path)  # the time of arrival, by which Spark orders files
            path.rename(self._landing / path.name)
            if self._stop.wait(self._pause_s):
                return
