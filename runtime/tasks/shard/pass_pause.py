"""Pauses a sorted pass of the backlog between two shards, and keeps the finished ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyarrow import fs

from ...storage.filesystem import exists


@dataclass(frozen=True)
class PauseMarker:
    """A file that is there while no shard is to be begun.

    A file, not a message: tasks that have begun must go on, and the others are handed out to executors already.
    """

    filesystem: fs.FileSystem
    path: str

    @property
    def is_there(self) -> bool:
        return exists(self.filesystem, self.path)


@dataclass(frozen=True)
class PassPause:
    """The driver's pauses, as the jobs of a pass see them."""

    marker: PauseMarker
    #: Spark job tag of the jobs that may be cancelled for a pause.
    tag: str
    #: How often a pause was begun.
    pauses_begun: Callable[[], int]
    is_wanted: Callable[[], bool]
    #: Returns when no pause is wanted; raises if the run is to end.
    hold: Callable[[], None]
