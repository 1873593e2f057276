"""What a user writes: a coordinator, which lives in the driver as long as the query runs, and what it is given.

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


class Line(Protocol):
    """What a run gives its coordinator to send through."""

    @property
    def shards(self) -> int: ...

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def send(self, shards: Collection[int] | None, event: Any) -> None: ...

    def fail(self, cause: BaseException) -> None: ...


class OperatorCoordinator:
    """Coordinates the shards of a ``transformWithState`` from the driver, by events; subclass it.

        class Hot(mixedmode.OperatorCoordinator):
            def open(self, context):
                self.context = context

            def handleEventFromSubtask(self, shard, event):
                self.context.broadcast({"hot": event["key"]})

        frame.groupBy("key").transformWithState(Counts(), "key string, n long", "append", "none", coordinator=Hot())

    Events are plain data (see :mod:`.event_codec`).  Each end receives each event exactly once and in the order in
    which the other has sent it, also when the query fails and is started again: the coordinator's state is part of
    every checkpoint, together with the events that are on their way.

    The runtime calls all methods one after the other, all but :meth:`close` with ``context.lock`` held.  A coordinator
    with threads of its own may send from them at any time.  Where such a thread changes what :meth:`checkpoint` returns
    and sends an event that belongs to the change, it does both under ``with context.lock:``, so that a checkpoint has
    both or none.

    An exception in a method fails the query with a ``CoordinatorError``; a restart goes on from the last checkpoint.
    One in :meth:`checkpoint` fails that checkpoint, and the query if no more may fail
    (``execution.checkpointing.tolerable-failed-checkpoints``); one in :meth:`close` is logged.
    """

    #: Dataclasses as which events come back; others come back as dicts.
    eventTypes: tuple[type, ...] = ()

    def restore(self, state: bytes) -> None:
        """Take over the state of the checkpoint that the query goes on from; called before :meth:`open`, if there is
        one.  Nothing of an earlier run of this object may survive it."""

    def open(self, context: CoordinatorContext) -> None:
        """The query starts.  Without a :meth:`restore` before it the coordinator begins anew, even if the object has
        been used by an earlier run."""

    def subtaskReset(self, shard: int, checkpointId: int) -> None:
        """After :meth:`open`, once per shard: the shard goes on from this checkpoint, as the coordinator does.  What
        was on its way comes by itself.  The number of shards may have changed.

        ``query.rescale()`` changes it while the query runs: then this is called once for each of the new shards, with
        the last complete checkpoint, to which neither side goes back."""

    def handleEventFromSubtask(self, shard: int, event: Any) -> None:
        """An event that a processor has sent with ``handle.coordinator.send``.  ``shard`` counts as at the time of
        sending.

        Raises:
            NotImplementedError: the coordinator does not define it, so the event would be lost.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no handleEventFromSubtask(shard, event), but shard {shard} sent {event!r:.80}"
        )

    def checkpoint(self) -> bytes:
        """The state that :meth:`restore` needs; it tells of everything that was received and sent so far.

        The checkpoint is cut when this returns: an event that is sent inside belongs to it, wherever in here that
        happens.  After a restore it comes from the checkpoint and is not to be sent again, so the state that is
        returned must tell of it, too: send first and serialise then, or serialise what will have been sent.
        """
        return b""

    def close(self) -> None:
        """The query ends, for whatever reason; called once after :meth:`open`, even if that failed.  A coordinator's
        threads end here."""


class ShardGateway:
    """The way to one shard; made by :meth:`CoordinatorContext.gateway`.

    For example:

        context.gateway(shard).send({"limit": 10})
    """

    def __init__(self, channel: Line, shard: int) -> None:
        self._channel = channel
        self.shard = shard

    def send(self, event: Any) -> None:
        """Send an event to the processor of this shard: ``handleEvent(event)`` is called with it before the rows of one
        of the next epochs, that of the switch at the earliest.  Thread-safe; returns at once.

        Raises:
            OperatorEventError: it is not plain or too large, the processor has no ``handleEvent``, or the query has
                ended.
        """
        self._channel.send((self.shard,), event)


class CoordinatorContext:
    """What a coordinator is given for one run of the query.

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
        """Number of shards; under :attr:`lock` it stays what it is."""
        return self._channel.shards

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by the runtime while it calls the coordinator; see :class:`OperatorCoordinator`."""
        return self._channel.lock

    def gateway(self, shard: int) -> ShardGateway:
        """The way to a shard, from 0 to ``parallelism - 1``."""
        if not 0 <= shard < self.parallelism:
            raise IndexError(f"shard must be between 0 and {self.parallelism - 1}, got {shard}")
        return ShardGateway(self._channel, shard)

    def broadcast(self, event: Any) -> None:
        """Send an event to all shards.  If their number is changed while it is on its way, by a restart or
        ``query.rescale()``, each of the new ones gets it once."""
        self._channel.send(None, event)

    def failJob(self, cause: BaseException) -> None:
        """Fail the query, from whatever thread: for errors in threads of the coordinator's own."""
        self._channel.fail(cause)
