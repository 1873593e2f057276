"""``mixedmode.add_listener``: who is told of all runs of this process."""

from __future__ import annotations

import difflib
import threading

from . import events
from .events import BacklogProgressed, EpochApplied, PositionsKnown, RealTimeProgressed, RunEvent
from .mailbox import Mailbox

#: What comes again and again, the newest of which says most: it may be dropped where somebody is too slow for it.
ROUTINE = (BacklogProgressed, RealTimeProgressed, EpochApplied, PositionsKnown, events.CheckpointCompleted)


def is_routine(event: object) -> bool:
    """Whether an event may be dropped; failures, losses and the end never are."""
    return isinstance(event, ROUTINE)


class RunListener:
    """Gets the events of the runs of mixedmode queries, as ``StreamingQueryListener`` gets those of Spark's.

        class Pager(mixedmode.RunListener):
            def onRunEnded(self, event):
                if event.how == "failed":
                    page(f"{event.name}: {event.error}")

        mixedmode.add_listener(Pager())

    Override the methods of the events that you need, or :meth:`onEvent`, which gets every event.  mixedmode calls a
    listener on a thread of its own, with one event at a time, in order; events of several queries may alternate.  A
    slow listener loses the oldest of the frequent events (``onEpochApplied``, ``onBacklogProgressed``,
    ``onRealTimeProgressed``, ``onPositionsKnown``, ``onCheckpointCompleted``), which is logged.  An exception of a
    listener is logged once, with its traceback, and does not affect any job.

    Raises:
        TypeError: (of a class) a method has the name of an event that does not exist.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = [name for name in dir(RunListener) if name.startswith("on")]
        for name in vars(cls):
            if name.startswith("on") and name[2:3].isupper() and name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"they are {', '.join(sorted(known))}"
                raise TypeError(f"{cls.__name__}.{name} is no method of a RunListener: {hint}")

    def onEvent(self, event: RunEvent) -> None:
        """Gets every event, and calls the method of that event."""
        method = getattr(self, f"on{type(event).__name__}", None)
        if method is not None:
            method(event)

    def onRunBegan(self, event: events.RunBegan) -> None:
        """A run has begun."""

    def onRunRestored(self, event: events.RunRestored) -> None:
        """The run continues from a checkpoint."""

    def onPhaseBegan(self, event: events.PhaseBegan) -> None:
        """A phase of its plan has begun."""

    def onBacklogProgressed(self, event: events.BacklogProgressed) -> None:
        """A sorted pass has made progress; about every second."""

    def onRealTimeProgressed(self, event: events.RealTimeProgressed) -> None:
        """An epoch in Real-Time Mode has processed rows; about every second."""

    def onEpochApplied(self, event: events.EpochApplied) -> None:
        """An epoch has succeeded: a backlog pass, a micro-batch, or a tick of the clock."""

    def onPositionsKnown(self, event: events.PositionsKnown) -> None:
        """The positions that an epoch has read from the live inputs are known, and what waits there."""

    def onSourceChanged(self, event: events.SourceChanged) -> None:
        """A source has left the backlog, or fallen back into it."""

    def onDataLost(self, event: events.DataLost) -> None:
        """A source has forgotten what was to be read."""

    def onNoted(self, event: events.Noted) -> None:
        """Anything else of the run's story."""

    def onCheckpointCompleted(self, event: events.CheckpointCompleted) -> None:
        """A checkpoint is complete, and its output visible."""

    def onCheckpointFailed(self, event: events.CheckpointFailed) -> None:
        """A checkpoint has failed."""

    def onSavepointWritten(self, event: events.SavepointWritten) -> None:
        """A savepoint is complete."""

    def onShardsRescaled(self, event: events.ShardsRescaled) -> None:
        """Stages have other numbers of shards."""

    def onRunEnded(self, event: events.RunEnded) -> None:
        """The run has ended."""


class Listeners:
    """The listeners of a process, each with its queue and thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mailboxes: dict[int, tuple[RunListener, Mailbox[RunEvent]]] = {}

    def add(self, listener: RunListener) -> None:
        """See :func:`add_listener`."""
        if not isinstance(listener, RunListener):
            raise TypeError(f"add_listener() takes a mixedmode.RunListener, got {listener!r}")
        with self._lock:
            if id(listener) not in self._mailboxes:
                owner = f"listener {type(listener).__name__}"
                self._mailboxes[id(listener)] = listener, Mailbox(owner, listener.onEvent, is_routine)

    def remove(self, listener: RunListener) -> None:
        """See :func:`remove_listener`."""
        with self._lock:
            found = self._mailboxes.pop(id(listener), None)
        if found is not None:
            found[1].close()

    @property
    def mailboxes(self) -> list[Mailbox[RunEvent]]:
        """Those of the listeners that there are now."""
        with self._lock:
            return [mailbox for _, mailbox in self._mailboxes.values()]

    @property
    def dropped(self) -> int:
        """How many events listeners have not got since they were too slow."""
        return sum(mailbox.dropped for mailbox in self.mailboxes)


#: Those of this process.
LISTENERS = Listeners()


def add_listener(listener: RunListener) -> None:
    """Adds a listener for all runs of this process from now on; adding it again has no effect.

        class Failures(mixedmode.RunListener):
            def onRunEnded(self, event):
                print(event)

        mixedmode.add_listener(Failures())

    Args:
        listener: a :class:`RunListener`.

    Raises:
        TypeError: ``listener`` is not one.
    """
    LISTENERS.add(listener)


def remove_listener(listener: RunListener) -> None:
    """Removes a listener; has no effect if it was not added.

        mixedmode.remove_listener(listener)

    Args:
        listener: the argument of :func:`add_listener`.
    """
    LISTENERS.remove(listener)
