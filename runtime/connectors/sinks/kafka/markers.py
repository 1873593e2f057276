"""Records how far a lane has been sent, in a marker that a transaction commits with its messages.

It is an offset that a consumer group of ours commits, one group for each lane of a job: Kafka has both, the offset and
the messages, or neither.  The offset is the position up to which rows are sent, its text says of which transaction.
The group has the name of the lane's producer, its transactional.id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from .....errors import CheckpointError
from ....support.ids import JobId

_VERSION = 1


@dataclass(frozen=True)
class Marker:
    """A lane's rows up to a position are sent."""

    #: The branch of the location that the sender's driver works in.
    branch: int
    #: What tells the sink's transaction from every other one; empty: of none, all older branches are fenced.
    token: str
    #: Number of rows.
    position: int
    #: It is committed for a partition of this topic, whatever the messages' are.
    topic: str

    def text(self) -> str:
        """What goes with the offset."""
        return json.dumps({"v": _VERSION, "branch": self.branch, "transaction": self.token})

    @classmethod
    def read(cls, topic: str, position: int, text: str | None) -> Marker:
        """A marker as it was committed.

        Args:
            topic: what it was committed for.
            position: the offset.
            text: what goes with it.

        Raises:
            CheckpointError: it is not one that this version knows.
        """
        try:
            said = json.loads(text or "")
            if said["v"] == _VERSION:
                return cls(int(said["branch"]), str(said["transaction"]), position, topic)
        except (ValueError, KeyError, TypeError):
            pass
        raise CheckpointError(
            f"an offset of the job's own consumer group says {text!r}, which is no marker that this version of"
            " mixedmode knows: somebody else commits to that group, or a newer version has sent"
        )


def newest_branch(markers: Iterable[Marker]) -> int:
    """The newest branch that has sent, or has fenced older ones; 0: none has."""
    return max((marker.branch for marker in markers), default=0)


def position_of(markers: Iterable[Marker], token: str) -> int:
    """How far a transaction is sent."""
    return max((marker.position for marker in markers if marker.token == token), default=0)


def transactional_id(job_id: JobId, lane: int) -> str:
    """The transactional.id of a lane's producer, and the name of its consumer group."""
    return f"mixedmode-{job_id}-{lane}"
