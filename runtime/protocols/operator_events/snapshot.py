"""Defines a coordinator's part of a checkpoint, and divides it among another number of shards.

- An event that waits for a shard goes to every new shard that owns a key group of it.  Events that meet in one new
  shard are put in the order in which they were sent, and one that was broadcast comes there once.
- What a shard had sent keeps that shard's number: it tells of the time before.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....state.keys.keygroups import KeyGroupRange, ShardId, by_shard
from .subtask import SubtaskSnapshot


@dataclass(frozen=True)
class StoredEvent:
    """One event on its way."""

    #: Order of sending; the copies of a broadcast have one number.  0 for events to the coordinator.
    number: int
    #: As :func:`.event_codec.encode` gives it.
    text: str


@dataclass(frozen=True)
class StoredEvents:
    """A coordinator's part of a checkpoint."""

    #: What the coordinator's checkpoint() returned.
    coordinator: bytes
    #: Events to each shard.
    inboxes: tuple[tuple[StoredEvent, ...], ...]
    #: Events to the coordinator in the order of their arrival, with the shards that have sent them.
    to_coordinator: tuple[tuple[ShardId, str], ...] = ()

    def to_json(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """For ``_metadata``: the coordinator's state and the events, by direction and shard."""
        buffered: list[dict[str, Any]] = [
            {"to": "subtask", "shard": shard, "events": [[event.number, event.text] for event in events]}
            for shard, events in by_shard(self.inboxes)
            if events
        ]
        buffered += [{"to": "coordinator", "shard": shard, "events": [text]} for shard, text in self.to_coordinator]
        return base64.b64encode(self.coordinator).decode(), tuple(buffered)

    @classmethod
    def from_json(cls, coordinator: str, buffered: Sequence[dict[str, Any]], shards: int) -> StoredEvents:
        """Inverse of :meth:`to_json`."""
        inboxes: list[tuple[StoredEvent, ...]] = [()] * shards
        to_coordinator: list[tuple[ShardId, str]] = []
        for entry in buffered:
            if entry["to"] == "subtask":
                inboxes[entry["shard"]] += tuple(StoredEvent(number, text) for number, text in entry["events"])
            else:
                to_coordinator += [(entry["shard"], text) for text in entry["events"]]
        return cls(base64.b64decode(coordinator), tuple(inboxes), tuple(to_coordinator))

    def redealt(self, old: Sequence[KeyGroupRange], new: Sequence[KeyGroupRange]) -> StoredEvents:
        """The same for other shards."""
        inboxes = []
        for groups in new:
            met = {
                event.number: event
                for theirs, events in zip(old, self.inboxes, strict=True)
                if theirs.overlaps(groups)
                for event in events
            }
            inboxes.append(tuple(met[number] for number in sorted(met)))
        return StoredEvents(self.coordinator, tuple(inboxes), self.to_coordinator)

    @property
    def parts(self) -> list[SubtaskSnapshot[StoredEvent]]:
        """The shards' parts."""
        return [SubtaskSnapshot(inbox) for inbox in self.inboxes]

    @property
    def next_number(self) -> int:
        """Number of the next event that is sent."""
        return 1 + max((event.number for inbox in self.inboxes for event in inbox), default=0)
