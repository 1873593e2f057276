"""Which checkpoints have arrived on all of a task's channels, when some channels have ended.

Invariants:
- A channel that has reached EndOfPartition counts as aligned for every checkpoint, since no barrier can come from it.
- A channel counts once per checkpoint, whatever comes from it.
- A checkpoint completes or is cancelled at most once, and never after a newer one has.
"""

from __future__ import annotations

from .index_set import IndexSet


class BarrierTracker:
    """Collects barriers by channel.

    Args:
        channels: number of input channels, > 0.
    """

    def __init__(self, channels: int) -> None:
        if channels <= 0:
            raise ValueError(f"channels must be > 0, got {channels}")
        self._all = IndexSet.below(channels)
        self._ended = IndexSet()
        #: Channels that have delivered, by checkpoint, in order of checkpoints.
        self._pending: dict[int, IndexSet] = {}
        #: Checkpoints up to here are completed, subsumed or cancelled.
        self._settled = 0

    @property
    def pending(self) -> tuple[int, ...]:
        """Checkpoints that some channels have delivered, oldest first."""
        return tuple(self._pending)

    @property
    def all_ended(self) -> bool:
        return self._ended == self._all

    def barrier(self, channels: IndexSet, checkpoint_id: int) -> int | None:
        """A barrier has come on these channels; the checkpoint that is complete now."""
        if checkpoint_id <= self._settled:
            return None
        if checkpoint_id not in self._pending:
            self._pending = dict(sorted({**self._pending, checkpoint_id: IndexSet()}.items()))
        self._pending[checkpoint_id] |= channels
        return self._complete()

    def end_of_partition(self, channels: IndexSet) -> int | None:
        """Channels have ended; the checkpoint that is complete now: the newest, if several are."""
        self._ended |= channels
        return self._complete()

    def cancel(self, checkpoint_id: int) -> tuple[int, ...]:
        """A checkpoint is given up, and older ones with it; those that are given up by this call.

        Protocol only: the driver gives a checkpoint up before its barrier is sent, or when it has come everywhere.
        """
        if checkpoint_id <= self._settled:
            return ()
        given_up = [pending for pending in self._pending if pending < checkpoint_id]
        self._settle(checkpoint_id)
        return (*given_up, checkpoint_id)

    def _complete(self) -> int | None:
        for checkpoint_id in reversed(self._pending):
            if self._pending[checkpoint_id] | self._ended == self._all:
                self._settle(checkpoint_id)
                return checkpoint_id
        return None

    def _settle(self, checkpoint_id: int) -> None:
        self._settled = checkpoint_id
        self._pending = {pending: seen for pending, seen in self._pending.items() if pending > checkpoint_id}
