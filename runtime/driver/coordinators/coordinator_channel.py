"""A user's coordinator in the driver: called by the runtime, sending from any thread.

Two locks.  ``lock`` is the coordinator's: held while it is called, and open to its own threads.  ``_mutex`` guards the
channel and is held for a moment only, never while the user's code runs, so ``send`` cannot wait for a checkpoint.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ....errors import CoordinatorError, OperatorEventError
from ....state.keys.keygroups import KeyGroupRange, ShardId, all_shards, by_shard
from ...jvm.user_frames import UserFrames
from ...protocols.operator_events.channel import Channel
from ...protocols.operator_events.coordinator import CoordinatorContext, OperatorCoordinator
from ...protocols.operator_events.event_codec import decode, encode, types_by_name
from ...protocols.operator_events.snapshot import StoredEvent, StoredEvents
from ...protocols.operator_events.subtask import SubtaskSnapshot
from ...support.failpoints import failpoint
from ...support.ids import CheckpointId

logger = logging.getLogger(__name__)


class UserChannel:
    """One run of a coordinator.

    Args:
        coordinator: the user's.
        shards: number of shards.
        max_bytes: the most that one event may take.
        processor: name of the processor's class, for errors.
        takes_events: whether the processor has a ``handleEvent``.
        restored: the coordinator's part of the checkpoint that the job goes on from; None: there is none.
        latest: that checkpoint; 0: none.
        wake: called when something waits for a shard.
    """

    def __init__(
        self,
        coordinator: OperatorCoordinator,
        shards: int,
        *,
        max_bytes: int,
        processor: str,
        takes_events: bool,
        restored: StoredEvents | None,
        latest: CheckpointId,
        wake: Callable[[], None],
    ) -> None:
        self.shards = shards
        self.lock = threading.RLock()
        self._mutex = threading.Lock()
        self._coordinator = coordinator
        self._name = type(coordinator).__name__
        self._types = types_by_name(coordinator.eventTypes, self._name)
        self._max_bytes = max_bytes
        self._processor = processor
        self._takes_events = takes_events
        self._restored = restored
        self._latest = latest
        self._wake = wake
        #: Events that have arrived and are not handed over yet, with their shards.
        self._arrived: deque[tuple[ShardId, str]] = deque(() if restored is None else restored.to_coordinator)
        parts = () if restored is None else restored.parts
        self._channel = self._made_channel(shards, parts, latest)
        self._number = 1 if restored is None else restored.next_number
        self._counts = {"eventsSent": 0, "eventsDelivered": 0, "eventsReceived": 0}
        #: True if events were sent since the last checkpoint.
        self.has_news = False
        self._is_open = False
        self._failure: BaseException | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the coordinator, from its checkpoint if there is one."""
        with self.lock:
            self._is_open = True
            if self._restored is not None:
                self._call("restore", self._restored.coordinator)
            self._call("open", CoordinatorContext(self))
            for shard in all_shards(self.shards) if self._latest else ():
                self._call("subtaskReset", shard, self._latest)

    def redeal(self, before: Sequence[KeyGroupRange], after: Sequence[KeyGroupRange], latest: CheckpointId) -> None:
        """The shards have been dealt anew, between two epochs and two checkpoints; the coordinator goes on.

        Args:
            before: the key groups of the shards until now.
            after: those of the new ones.
            latest: the last checkpoint that is complete.

        Raises:
            CheckpointError: an epoch or a checkpoint is under way.
            CoordinatorError: the coordinator raised.
        """
        with self.lock:
            with self._mutex:
                inboxes = tuple(part.inbox for part in self._channel.parts())
                waiting = StoredEvents(b"", inboxes).redealt(before, after)
                self.shards = len(after)
                self._channel = self._made_channel(self.shards, waiting.parts, self._channel.holder.latest)
                self.has_news = True
            for shard in all_shards(self.shards):
                self._call("subtaskReset", shard, latest)

    def _made_channel(
        self, shards: int, parts: Sequence[SubtaskSnapshot[StoredEvent]], latest: CheckpointId
    ) -> Channel[StoredEvent]:
        return Channel(shards, lambda shard, event: self._arrived.append((shard, event.text)), parts, latest, failpoint)

    def close(self) -> None:
        """End it; its errors cannot matter any more."""
        if not self._is_open:
            return
        try:
            self._coordinator.close()  # without the lock: it may wait for a thread that wants it
        except Exception:
            logger.exception("coordinator %s raised in close()", self._name)
        self._is_open = False

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._coordinator, method)(*arguments)
        except (Exception, SystemExit) as error:
            frames = UserFrames.since(None if error.__traceback__ is None else error.__traceback__.tb_next)
            raised = CoordinatorError(f"coordinator {self._name} raised in {method}(): {type(error).__name__}: {error}")
            raise CoordinatorError(frames.located(raised)) from error

    def fail(self, cause: BaseException) -> None:
        """Have the query fail with its next step."""
        self._failure = cause
        self._wake()

    def check(self) -> None:
        """Raise what a thread of the coordinator's has reported."""
        if self._failure is not None:
            cause = self._failure
            raise CoordinatorError(f"coordinator {self._name} has failed: {type(cause).__name__}: {cause}") from cause

    # -- events ------------------------------------------------------------------------------------------------------

    def send(self, shards: Collection[ShardId] | None, event: Any) -> None:
        """An event of the coordinator to shards; None: to all that there are now."""
        what = f"event of type {type(event).__name__} from coordinator {self._name}"
        if not self._takes_events:
            raise OperatorEventError(f"{what} has no receiver: processor {self._processor} has no handleEvent(event)")
        text = encode(event, what, self._max_bytes)
        with self._mutex:
            if not self._is_open:
                raise OperatorEventError(f"{what} cannot be sent: the query has ended, or not called open() yet")
            stored = StoredEvent(self._number, text)
            self._number += 1
            to = all_shards(self.shards) if shards is None else shards
            for shard in to:
                self._channel.holder.send(shard, stored)
            self._counts["eventsSent"] += len(to)
            self.has_news = True
        self._wake()

    @property
    def waiting(self) -> list[ShardId]:
        """Shards for which events wait."""
        with self._mutex:
            return self._channel.waiting

    def take(self, shards: Iterable[ShardId]) -> dict[ShardId, tuple[str, ...]]:
        """Events that go out with the tasks of an epoch."""
        with self._mutex:
            taken = self._channel.take(shards)
        return {shard: tuple(event.text for event in events) for shard, events in taken.items()}

    def accept(self, shard: ShardId, sent: Sequence[str]) -> None:
        """A shard's winning attempt counts: its events have been delivered, and it has sent some."""
        with self._mutex:
            self._counts["eventsDelivered"] += self._channel.accept(shard, [StoredEvent(0, text) for text in sent])

    def fail_epoch(self, shards: Iterable[ShardId]) -> None:
        """What went out with an epoch waits again."""
        with self._mutex:
            self._channel.fail(shards)

    def hand_over(self) -> None:
        """Give the coordinator the events that have arrived."""
        self.check()
        with self.lock:
            while self._arrived:
                shard, text = self._arrived[0]
                self._call("handleEventFromSubtask", shard, decode(text, self._types))
                self._arrived.popleft()
                self._counts["eventsReceived"] += 1

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def begin(self, checkpoint_id: CheckpointId) -> StoredEvents:
        """The coordinator's part of a checkpoint; from here on its events are buffered."""
        self.check()
        with self.lock, self._mutex:
            data, parts = self._channel.begin(checkpoint_id, self._snapshot)
            self.has_news = False
        inboxes = tuple(part.inbox for part in parts)
        kept = tuple((shard, event.text) for shard, part in by_shard(parts) for event in part.kept)
        return StoredEvents(data, inboxes, (*self._arrived, *kept))

    def _snapshot(self) -> bytes:
        self._mutex.release()  # the coordinator may send now, and so may its threads
        try:
            data = self._call("checkpoint")
        finally:
            self._mutex.acquire()
        if not isinstance(data, bytes):
            raise CoordinatorError(
                f"checkpoint() of coordinator {self._name} returned {data!r:.80} ({type(data).__name__}); it must"
                " return bytes"
            )
        return data

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is complete: what was buffered goes on its way."""
        with self._mutex:
            self._channel.complete(checkpoint_id)
        self._wake()

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint has been given up: what was buffered goes on its way, and the next one has it to tell."""
        with self._mutex:
            self._channel.abort(checkpoint_id)
            self.has_news = True
        self._wake()

    @property
    def counts(self) -> dict[str, int]:
        """For status and progress: of this run, and what waits or is kept now."""
        with self._mutex:
            waiting = (
                sum(end.waiting + len(end.gateway.kept) for end in self._channel.ends)
                + self._channel.holder.gateways.kept
            )
        return {**self._counts, "eventsBuffered": waiting + len(self._arrived)}
