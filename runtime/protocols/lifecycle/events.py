"""Events between tasks, and events about checkpoints that tasks get.

Along a channel go, in this order and each at most once: MAX_WATERMARK, EndOfData, EndOfPartition; barriers come in
between.  EndOfData says that no record follows, EndOfPartition that nothing at all follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Stop(Enum):
    """How a savepoint ends the job."""

    #: MAX_WATERMARK first: all event-time timers fire and operators finish, then the savepoint.
    DRAIN = "with drain"
    #: The savepoint is a cut like any other: nothing fires, nothing finishes.
    SUSPEND = "without drain"


@dataclass(frozen=True)
class MaxWatermark:
    """No event time will come any more."""

    def __str__(self) -> str:
        return "MAX_WATERMARK"


@dataclass(frozen=True)
class EndOfData:
    """No record will come any more; ``finished`` is False if the job only stops (savepoint without drain)."""

    finished: bool

    def __str__(self) -> str:
        return f"EndOfData(finished={str(self.finished).lower()})"


@dataclass(frozen=True)
class Barrier:
    """What came before it belongs to the checkpoint, what comes after does not."""

    checkpoint_id: int
    #: For a savepoint that ends the job: how; None: the job goes on after it.
    stop: Stop | None = None

    def __str__(self) -> str:
        return f"barrier {self.checkpoint_id}" + ("" if self.stop is None else f" (stop {self.stop.value})")


@dataclass(frozen=True)
class CancelBarrier:
    """The checkpoint is given up; its barrier will not come.

    Protocol only: the driver gives a checkpoint up before its barrier is sent, or when it has come everywhere.
    """

    checkpoint_id: int

    def __str__(self) -> str:
        return f"cancellation of barrier {self.checkpoint_id}"


@dataclass(frozen=True)
class EndOfPartition:
    """The sender has closed."""

    def __str__(self) -> str:
        return "EndOfPartition"


@dataclass(frozen=True)
class CheckpointCompleted:
    """A checkpoint is complete: what it holds will never be lost."""

    checkpoint_id: int

    def __str__(self) -> str:
        return f"checkpoint {self.checkpoint_id} completed"


@dataclass(frozen=True)
class CheckpointAborted:
    """A checkpoint was given up."""

    checkpoint_id: int

    def __str__(self) -> str:
        return f"checkpoint {self.checkpoint_id} aborted"


@dataclass(frozen=True)
class EndOfDataAcknowledged:
    """All receivers have processed every record that the task has sent."""

    def __str__(self) -> str:
        return "EndOfData acknowledged"


ChannelEvent = MaxWatermark | EndOfData | Barrier | CancelBarrier | EndOfPartition
Event = ChannelEvent | CheckpointCompleted | CheckpointAborted | EndOfDataAcknowledged
