"""The next actions of a task, in order: the outcome of every call of a task's state machine.

Some are work for the runtime (fire timers, finish operators, commit), some are messages that the job's lifecycle
delivers (:class:`Emit`, :class:`Acknowledge`), and some only tell the story (:class:`Saw`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .events import ChannelEvent, Event
from .index_set import IndexSet


class TaskStatus(Enum):
    """Where a task stands."""

    RUNNING = "RUNNING"
    #: It has sent EndOfData and waits for a checkpoint that began after that.
    WAITING_FOR_FINAL_CP = "WAITING_FOR_FINAL_CP"
    CLOSED = "CLOSED"


class OperatorStatus(Enum):
    """Where a task's operator stands; one that is closed without FINISHED was only stopped."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CLOSED = "CLOSED"


@dataclass(frozen=True)
class AdvanceToMaxWatermark:
    """Set the watermark to MAX and fire all event-time timers."""

    def __str__(self) -> str:
        return "advance to MAX_WATERMARK"


@dataclass(frozen=True)
class EndInputAndFinish:
    """Call the operator's endInput(), then its finish(); what they give is output."""

    def __str__(self) -> str:
        return "endInput, finish"


@dataclass(frozen=True)
class Snapshot:
    """The task's part of a checkpoint."""

    checkpoint_id: int
    #: True if finish() was called before it.
    finished: bool = False

    def __str__(self) -> str:
        return f"snapshot {self.checkpoint_id}"


@dataclass(frozen=True)
class Commit:
    """Make the transactions of all checkpoints up to this one visible; None: everything, nothing comes after it."""

    up_to: int | None

    def __str__(self) -> str:
        return "commit" if self.up_to is None else f"commit up to {self.up_to}"


@dataclass(frozen=True)
class Abort:
    """Throw the transactions of these checkpoints away."""

    checkpoint_ids: tuple[int, ...]

    def __str__(self) -> str:
        return f"abort {', '.join(map(str, self.checkpoint_ids))}"


@dataclass(frozen=True)
class Close:
    """Release what the operator holds."""

    def __str__(self) -> str:
        return "close"


@dataclass(frozen=True)
class Fail:
    """The task cannot go on; the job goes back to its last checkpoint."""

    reason: str

    def __str__(self) -> str:
        return f"fail: {self.reason}"


@dataclass(frozen=True)
class Decline:
    """The task does not take part in a checkpoint.

    Protocol only: the driver asks all tasks whether they would before it triggers any.
    """

    checkpoint_id: int
    reason: str

    def __str__(self) -> str:
        return f"decline {self.checkpoint_id}: {self.reason}"


@dataclass(frozen=True)
class Emit:
    """Send an event to all receivers."""

    event: ChannelEvent

    def __str__(self) -> str:
        return f"emit {self.event}"


@dataclass(frozen=True)
class Acknowledge:
    """Tell the senders of channels that all of their records are processed."""

    channels: IndexSet

    def __str__(self) -> str:
        return f"acknowledge EndOfData of channel{'s' if len(self.channels) > 1 else ''} {self.channels}"


@dataclass(frozen=True)
class Saw:
    """Something has happened to the task (on all channels, for what channels bring)."""

    event: Event | str

    def __str__(self) -> str:
        return str(self.event)


#: What the runtime has to do.
Work = AdvanceToMaxWatermark | EndInputAndFinish | Snapshot | Commit | Abort | Close | Fail
Action = Work | Emit | Acknowledge | Saw | Decline


@dataclass(frozen=True)
class Step:
    """One action of a task, and how the task stands once it is done."""

    action: Action
    status: TaskStatus
    operator: OperatorStatus
