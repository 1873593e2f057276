"""The branch of a location: the folder in which the driver that has it works.

::

    mixedmode/, spark/             branch 0
    mixedmode/branch-00000003/     begun by generation 3, which took over from a driver that may still have been running

A branch holds all that a driver changes: checkpoints, state files, staged output, the log of Spark's query.  Whoever
takes over from a driver that is not known to have ended begins a new one, seeded with links to, or copies of, what
counts then.  So no two drivers that may run at the same time have one file in common, however late the older one wakes
up: what it writes is never taken for a checkpoint, and what it removes nobody needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyarrow import fs

from ...errors import CorruptStateError
from ..storage.filesystem import exists, list_files
from ..support.ids import CheckpointId
from .lease.claims import LeaseClaim

_CHECKPOINT = re.compile(r"chk-(\d{8})$")
_FOLDER = re.compile(r"branch-(\d{8})$")


@dataclass(frozen=True)
class Branch:
    """Where checkpoints are, and which of them count."""

    number: int = 0
    #: Ids of those that count; None: all that are complete.
    only: frozenset[CheckpointId] | None = None

    def home(self, root: str) -> str:
        """Its folder below that of the location."""
        return f"{root}/branch-{self.number:08d}" if self.number else root

    def counts(self, checkpoint_id: CheckpointId) -> bool:
        """True if a checkpoint that is there is to be taken for one."""
        return self.only is None or checkpoint_id in self.only


def checkpoint_folders(filesystem: fs.FileSystem, home: str) -> dict[CheckpointId, str]:
    """The folders of checkpoints of a branch, oldest first; also those of checkpoints that are not complete."""
    found = ((_CHECKPOINT.search(info.path), info.path) for info in list_files(filesystem, f"{home}/checkpoints"))
    return dict(sorted((CheckpointId(int(match[1])), path) for match, path in found if match))


def is_complete(filesystem: fs.FileSystem, folder: str) -> bool:
    """True if a checkpoint's folder holds a checkpoint."""
    return exists(filesystem, f"{folder}/_metadata")


def branch_that_counts(filesystem: fs.FileSystem, root: str, claim: LeaseClaim | None) -> Branch:
    """What is to be read, given the claim that counts.

    A branch that was not seeded to the end holds nothing yet: what it was to be seeded from counts, and of that only
    what was complete when it was claimed.

    Raises:
        CorruptStateError: the claim is damaged, and what it said is needed.
    """
    if claim is None or claim.branch == 0:
        return Branch()
    if is_seeded(filesystem, root, claim):
        return Branch(claim.branch)
    if claim.seed is None:
        raise CorruptStateError(
            f"{root}/lease/{claim.name}.claim, which says what branch {claim.branch} goes on from, is damaged: restore"
            " it, or use a new checkpointLocation and a new output path"
        )
    return Branch(claim.parent, frozenset(map(CheckpointId, claim.seed)))


def is_seeded(filesystem: fs.FileSystem, root: str, claim: LeaseClaim) -> bool:
    """True if a claim's branch has all that it goes on from: a checkpoint, or the log of Spark's query."""
    home = Branch(claim.branch).home(root)
    has_checkpoint = any(is_complete(filesystem, one) for one in checkpoint_folders(filesystem, home).values())
    return has_checkpoint or exists(filesystem, f"{home}/{SEEDED}")


#: Marks a branch that goes on from no checkpoint.
SEEDED = "seeded"


def branches_in(filesystem: fs.FileSystem, root: str) -> list[int]:
    """The branches that have a folder of their own."""
    matches = (_FOLDER.search(info.path) for info in list_files(filesystem, root))
    return sorted(int(match[1]) for match in matches if match)
