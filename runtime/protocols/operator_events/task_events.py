"""Events and the shard's own state inside one attempt of a shard task: what it was given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ShardInbox:
    """What goes to a shard's task besides the epoch; all of it as :func:`.event_codec.encode` gives it."""

    #: Events from the coordinator, in order.
    events: tuple[str, ...] = ()
    #: What the shard's processor has kept at the end of its last epoch; several after the shards were dealt anew.
    own_state: tuple[str, ...] = ()


@dataclass
class TaskEvents:
    """Invariant: what is collected here counts only if the attempt wins, since only then its report is read."""

    inbox: ShardInbox = field(default_factory=ShardInbox)
    #: Events to the coordinator.
    sent: list[str] = field(default_factory=list)
    #: What the processor keeps; None: it keeps nothing, and what it had kept before stays.
    own_state: str | None = None
