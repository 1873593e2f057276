"""A task with input channels: a shard of the keyed stage, or the sink.

It acts when *all* of its channels have delivered: MAX_WATERMARK, EndOfData, a barrier, EndOfPartition.  What the
subtasks of a sender say together comes on all of their channels at once.
"""

from __future__ import annotations

from .actions import Acknowledge, Saw, Step, TaskStatus
from .barriers import BarrierTracker
from .events import Barrier, CancelBarrier, ChannelEvent, EndOfData, EndOfPartition, MaxWatermark, Stop
from .index_set import IndexSet
from .task import Task


class ChannelTask(Task):
    """Any subtask of a vertex that gets records from others; see :class:`Task`.

    Args:
        channels: number of channels that lead into it, > 0.
        receivers: number of channels that lead out of it; 0: it is a sink.
        checkpointing: see :class:`Task`.
        finished_on_restore: see :class:`Task`.
        transactional: see :class:`Task`.
    """

    def __init__(
        self,
        channels: int,
        receivers: int,
        *,
        checkpointing: bool = True,
        finished_on_restore: bool = False,
        transactional: bool = False,
    ) -> None:
        super().__init__(
            receivers,
            checkpointing=checkpointing,
            finished_on_restore=finished_on_restore,
            transactional=transactional,
        )
        self._channels = IndexSet.below(channels)
        self._tracker = BarrierTracker(channels)
        self._at_max = IndexSet()
        self._ended = IndexSet()
        #: Channels whose sender has only stopped.
        self._stopped = IndexSet()
        #: How the savepoint of a barrier that has come on some channels ends the job.
        self._stops: dict[int, Stop] = {}

    def receive(self, channels: IndexSet, event: ChannelEvent) -> list[Step]:
        """An event has come on one or more channels."""
        if not channels <= self._channels:
            raise ValueError(
                f"channels must be between 0 and {len(self._channels) - 1}, got {channels - self._channels}"
            )
        if isinstance(event, MaxWatermark):
            self._max_watermark(channels)
        elif isinstance(event, EndOfData):
            self._end_of_data(channels - self._ended, event.finished)
        elif isinstance(event, Barrier):
            if event.stop is not None:
                self._stops[event.checkpoint_id] = event.stop
            self._aligned(self._tracker.barrier(channels, event.checkpoint_id))
        elif isinstance(event, CancelBarrier):
            self._cancelled(event.checkpoint_id)
        else:
            self._end_of_partition(channels)
        return self._taken()

    def refusal(self, stop: Stop | None) -> str | None:
        """As :meth:`Task.refusal`; a checkpoint begins here only when no channel can bring its barrier."""
        if self.status is not TaskStatus.CLOSED and not self._tracker.all_ended:
            return "not all of its channels have ended: the barrier comes through them"
        return super().refusal(stop)

    @property
    def _inputs_ended(self) -> bool:
        return self._tracker.all_ended

    def _max_watermark(self, channels: IndexSet) -> None:
        if channels <= self._at_max:
            return
        self._at_max |= channels
        if self._at_max == self._channels:
            self._do(Saw(MaxWatermark()))
            self._advance_to_max()
            self._emit(MaxWatermark())

    def _end_of_data(self, channels: IndexSet, finished: bool) -> None:
        if not channels:
            return
        self._ended |= channels
        if not finished:
            self._stopped |= channels
        if self._ended == self._channels:
            everywhere = not self._stopped
            self._do(Saw(EndOfData(everywhere)))
            self._end_data(everywhere)
        self._do(Acknowledge(channels))

    def _end_of_partition(self, channels: IndexSet) -> None:
        before = self._tracker.all_ended
        complete = self._tracker.end_of_partition(channels)
        if self._tracker.all_ended and not before:
            self._do(Saw(EndOfPartition()))
        self._aligned(complete)
        self._close_if_ready()

    def _aligned(self, checkpoint_id: int | None) -> None:
        if checkpoint_id is None or self.status is TaskStatus.CLOSED:
            return
        stop = self._stops.pop(checkpoint_id, None)
        self._stops = {pending: how for pending, how in self._stops.items() if pending > checkpoint_id}
        self._do(Saw(Barrier(checkpoint_id, stop)))
        self._begin(checkpoint_id, stop)

    def _cancelled(self, checkpoint_id: int) -> None:
        for given_up in self._tracker.cancel(checkpoint_id):
            self._stops.pop(given_up, None)
            self._do(Saw(CancelBarrier(given_up)))
            self._emit(CancelBarrier(given_up))
