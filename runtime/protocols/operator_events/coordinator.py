"""Defines what a user writes: a coordinator, which lives in the driver as long as the query runs.

The other end is the processor of ``transformWithState``.  It sends with ``handle.coordinator.send(event)``, from its
handlers, and may define:

``handleEvent(event)``
    called with each event, in order, before the rows of an epoch; rows that it yields are output.  There is no current
    key, so there is no keyed state in it.
``snapshotShard()`` and ``restoreShard(states)``
    a processor lives for one epoch of one shard.  What it has learned from events and needs later, ``snapshotShard``
    returns at the end of the epoch, as plain data, and ``restoreShard`` gets at the beginning of the next, in a list:
    empty at first, several after the number of shards has changed.
``eventTypes``
    dataclasses as which its events and states come back; others come back as dicts.

While a backlog is worked off at batch speed nothing goes to the shards, and what they send arrives at the switch.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ....state.keys.keygroups import ShardId


class Line(Protocol):
    """What a run gives its coordinator to send through."""

    @property
    def shards(self) -> int: ...

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def send(self, shards: Collection[ShardId] | None, event: Any) -> None: ...

    def fail(self, cause: BaseException) -> None: ...


class OperatorCoordinator:
    """Coordinates the shards of a ``transformWithState`` from the driver, by events; subclass it.

        class Hot(mixedmode.OperatorCoordinator):
            def open(self, context):
                self.context = context

            def handleEventFromSubtask(self, shard, event):
                self.context.broadcast({"hot": event["key"]})

        frame.groupBy("key").transformWithState(Counts(), "key string, n long", "append", "none", coordinator=Hot())

    Events are plain data.  Each side receives each event exactly once and in the order in which the other side sent it,
    also when the query fails and is started again: the coordinator's state is part of every checkpoint, together with
    the events that are on their way.

    The runtime calls all methods one after the other, all but :meth:`close` with ``context.lock`` held.  Threads of a
    coordinator may send events at any time.  If such a thread changes the state that :meth:`checkpoint` returns and
    sends an event that belongs to the change, it must do both inside ``with context.lock:``, so that a checkpoint has
    both or none.

    An exception in a method fails the query with a ``CoordinatorError``; a restart continues from the last checkpoint.
    One in :meth:`checkpoint` fails that checkpoint, and the query if no more checkpoints may fail
    (``execution.checkpointing.tolerable-failed-checkpoints``).  One in :meth:`close` is logged.
    """

    #: Dataclasses as which events come back; others come back as dicts.
    eventTypes: tuple[type, ...] = ()

    def restore(self, state: bytes) -> None:
        """Takes over the state of the checkpoint from which the query continues; called before :meth:`open` if there is
        one.

        Discard everything of an earlier run of this object.
        """

    def open(self, context: CoordinatorContext) -> None:
        """The query starts.  Without a :meth:`restore` before it, the coordinator starts anew, even if an earlier run
        used the object.
        """

    def subtaskReset(self, shard: int, checkpointId: int) -> None:
        """Called after :meth:`open`, once per shard: the shard continues from this checkpoint, as the coordinator does.

        Events that were on their way arrive without your help.  The number of shards may have changed.
        ``query.rescale()`` changes it while the query runs: then this method is called once for each new shard, with
        the last complete checkpoint, to which neither side goes back.
        """

    def handleEventFromSubtask(self, shard: int, event: Any) -> None:
        """Gets an event that a processor has sent with ``handle.coordinator.send``.

        Args:
            shard: the number of the shard at the time of sending.
            event: the event.

        Raises:
            NotImplementedError: the coordinator does not define this method, so the event would be lost.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no handleEventFromSubtask(shard, event), but shard {shard} sent {event!r:.80}"
        )

    def checkpoint(self) -> bytes:
        """Returns the state that :meth:`restore` needs; it must cover everything that was received and sent so far.

        The checkpoint is cut when this method returns: an event that it sends belongs to the checkpoint.  After a
        restore the event comes from the checkpoint and must not be sent again, so the returned state must cover it,
        too: send first and then serialise, or serialise what will have been sent.
        """
        return b""

    def close(self) -> None:
        """The query ends; called once after :meth:`open`, even if that failed.  End the coordinator's threads here."""


class ShardGateway:
    """Sends events to one shard; returned by :meth:`CoordinatorContext.gateway`.

    For example:

        context.gateway(shard).send({"limit": 10})
    """

    def __init__(self, channel: Line, shard: ShardId) -> None:
        self._channel = channel
        self.shard = shard

    def send(self, event: Any) -> None:
        """Sends an event to the processor of this shard; thread-safe, returns at once.

        ``handleEvent(event)`` gets it before the rows of one of the next epochs, at the earliest that of the switch.

        Raises:
            OperatorEventError: the event is not plain data or too large, the processor has no ``handleEvent``, or the
                query
                has ended.
        """
        self._channel.send((self.shard,), event)


class CoordinatorContext:
    """The coordinator's access to one run of the query.

    For example:

        def open(self, context):
            self.context = context

        def handleEventFromSubtask(self, shard, event):
            self.context.broadcast({"hot": event["key"]})
    """

    def __init__(self, channel: Line) -> None:
        self._channel = channel

    @property
    def parallelism(self) -> int:
        """The number of shards; it does not change while you hold :attr:`lock`."""
        return self._channel.shards

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that the runtime holds while it calls the coordinator; see :class:`OperatorCoordinator`."""
        return self._channel.lock

    def gateway(self, shard: int) -> ShardGateway:
        """Returns the gateway to a shard, from 0 to ``parallelism - 1``."""
        if not 0 <= shard < self.parallelism:
            raise IndexError(f"shard must be between 0 and {self.parallelism - 1}, got {shard}")
        return ShardGateway(self._channel, ShardId(shard))

    def broadcast(self, event: Any) -> None:
        """Sends an event to all shards.

        If their number changes while it is on its way (by a restart or ``query.rescale()``), each new shard gets it
        once.
        """
        self._channel.send(None, event)

    def failJob(self, cause: BaseException) -> None:
        """Fails the query; for errors in threads of the coordinator.  May be called from every thread."""
        self._channel.fail(cause)
