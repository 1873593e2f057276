"""Names the folders and files of a checkpoint location: ``<checkpointLocation>/mixedmode``.

::

    job.json                      which job this location belongs to
    lease/                        which driver has it (:mod:`.lease.claims`)
    newest.json                   id of the newest checkpoint whose output is visible
    checkpoints/chk-00000007/_metadata
    state/<operator uid>/*.sst|*.log     pool of immutable files, shared by checkpoints
    output/                       staged rows of sinks that are not files

All but the first two are below ``branch-00000003/`` once a driver has taken over from one that might still have been
running (:mod:`.branch`).
"""

from __future__ import annotations

from pyarrow import fs

from ..storage.filesystem import delete_quietly
from ..support.ids import CheckpointId
from .branch import Branch, branch_that_counts
from .lease.claims import ClaimFolder, authority
from .spark_log import SparkLog

#: Folders of a checkpointLocation in which mixedmode and Spark remove what they do not need.
CLEANED_FOLDERS = ("mixedmode", "spark")


class CheckpointFolders:
    """The folders of one checkpoint location, in the branch that counts.

    Args:
        filesystem: of the location.
        location: its path there.
        branch: the branch that is meant, whatever drivers do; None: the one that counts.
    """

    def __init__(self, filesystem: fs.FileSystem, location: str, branch: Branch | None = None) -> None:
        self.filesystem = filesystem
        self.location = location
        self.root = f"{location}/mixedmode"
        self._branch = branch
        #: True: whatever drivers do, this one branch is meant.
        self._is_fixed = branch is not None

    @property
    def branch(self) -> Branch:
        """What is read and written here; a reader's follows the drivers whenever it looks for checkpoints."""
        if self._branch is None:
            claim = authority(ClaimFolder(self.filesystem, self.root).look())
            self._branch = branch_that_counts(self.filesystem, self.root, claim)
        return self._branch

    def work_in(self, branch: Branch) -> None:
        """Read and write this branch from now on: its driver does."""
        self._branch, self._is_fixed = branch, True

    def look_again(self) -> None:
        """Follow the drivers: another branch may count by now."""
        if not self._is_fixed:
            self._branch = None

    @property
    def home(self) -> str:
        """Folder of the branch: all that its driver changes is below it."""
        return self.branch.home(self.root)

    @property
    def spark_location(self) -> str:
        """Folder of the live source's query."""
        return f"{self.home}/spark" if self.branch.number else f"{self.location}/spark"

    @property
    def spark_log(self) -> SparkLog:
        """Spark's own log of the live source."""
        return SparkLog(self.filesystem, self.spark_location)

    def pool(self, uid: str) -> str:
        """Folder of an operator's state files."""
        return f"{self.home}/state/{uid}"

    def handoff(self, uid: str) -> str:
        """Folder of what a stage hands on to others."""
        return f"{self.home}/exchange/{uid}"

    @property
    def runs(self) -> str:
        """Folder of the runs of partial aggregates of a sorted pass, by stage; nothing there outlives the pass."""
        return f"{self.home}/runs"

    @property
    def backlog(self) -> str:
        """Folder of what an unfinished sorted pass leaves to the next run."""
        return f"{self.home}/backlog"

    @property
    def backlog_pin(self) -> str:
        """File that says of which pass it is."""
        return f"{self.backlog}/pin.json"

    def discard_backlog(self) -> None:
        """Remove that folder; state and output files that it names become garbage."""
        delete_quietly(self.filesystem, self.backlog_pin)
        delete_quietly(self.filesystem, self.backlog)

    @property
    def output(self) -> str:
        """Folder for staged output of sinks that have no folder of their own."""
        return f"{self.home}/output"

    def folder(self, checkpoint_id: CheckpointId) -> str:
        """Folder of a checkpoint."""
        return f"{self.home}/checkpoints/chk-{checkpoint_id:08d}"

    @property
    def newest(self) -> str:
        """File that names the newest checkpoint whose output is visible; it outlives the checkpoints' folders."""
        return f"{self.home}/newest.json"
