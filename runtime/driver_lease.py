"""One driver per checkpoint location: ``<checkpointLocation>/mixedmode/driver.json`` says which run it is.

A second driver would rewind Spark's log and sweep files under the feet of the first.  A run whose process is known to
live keeps the location: the newcomer is refused.  Where that cannot be known (another host or container) the newcomer
takes the location over, and the run that lost it must not complete another checkpoint.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from ..errors import CheckpointError
from ..state.owner import is_alive, place, process_start_time
from .filesystem import delete_quietly, exists, read_bytes, write_atomically


@dataclass(frozen=True)
class Holder:
    """The run that has a location."""

    run: str
    #: Host and pid namespace in which the pid means something.
    place: str
    pid: int
    started: int

    @property
    def lives(self) -> bool | None:
        """Whether its process runs; None: it is elsewhere, so that cannot be known."""
        return is_alive(self.pid, self.started) if self.place == place() else None


@dataclass(frozen=True)
class DriverLease:
    """The claim of one run on a checkpoint location; ``root`` must exist when it is taken."""

    filesystem: fs.FileSystem
    root: str
    run_id: str

    @property
    def _path(self) -> str:
        return f"{self.root}/driver.json"

    def take(self) -> None:
        """Claim the location; raises as :meth:`check_free`."""
        self.check_free()
        pid = os.getpid()
        body = {"run": self.run_id, "place": place(), "pid": pid, "started": process_start_time(pid) or 0}
        write_atomically(self.filesystem, self._path, json.dumps(body).encode())

    def check_free(self) -> None:
        """Raise CheckpointError if a run that lives on this host has the location."""
        holder = self.holder()
        if holder is not None and holder.lives:
            where = "in this process" if holder.pid == os.getpid() else f"in process {holder.pid} on this host"
            raise CheckpointError(
                f"another driver (run {holder.run}, {where}) runs this job on the same checkpointLocation: "
                f"{self.root}. Stop one of them"
            )

    def check(self) -> None:
        """Raise CheckpointError if another run has taken the location over."""
        holder = self.holder()
        if holder is not None and holder.run != self.run_id:
            raise CheckpointError(
                f"another driver (run {holder.run}) has taken over this job's checkpointLocation: {self.root}. "
                "This run ends; what it has processed since its last checkpoint is the other one's"
            )

    def release(self) -> None:
        """Give the location free, if this run still has it."""
        holder = self.holder()
        if holder is not None and holder.run == self.run_id:
            delete_quietly(self.filesystem, self._path)

    def holder(self) -> Holder | None:
        """The run that has the location; None: nobody, or a file that says nothing."""
        if not exists(self.filesystem, self._path):
            return None
        try:
            body: dict[str, Any] = json.loads(read_bytes(self.filesystem, self._path))
            return Holder(body["run"], body["place"], body["pid"], body["started"])
        except (ValueError, TypeError, KeyError, FileNotFoundError):
            return None
