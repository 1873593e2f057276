"""Numbers that are not to be mixed up with others: what takes one takes no plain ``int``."""

from __future__ import annotations

from typing import NewType

#: Of a checkpoint of one job: they ascend, over restarts and branches.
CheckpointId = NewType("CheckpointId", int)

#: What a job has before its first checkpoint.
NO_CHECKPOINT = CheckpointId(0)
