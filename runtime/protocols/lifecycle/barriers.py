"""Which checkpoints have arrived on all of a task's channels, when some channels have ended.

Invariants:
- A channel that has reached EndOfPartition counts as aligned for every checkpoint, since no barrier can come from it.
- A channel counts once per checkpoint, whatever comes from it.
- A checkpoint completes or is cancelled at most once, and never after a newer one has.
"""

from __future__ import annotations


class BarrierTracker:
    """Counts barriers per channel.

    Args:
        channels: number of input channels, > 0.
    """

    #: Checkpoints that are waited for at the same time; of more the oldest are given up.
    MAX_PENDING = 50

    def __init__(self, channels: int) -> None:
        if channels <= 0:
            raise ValueError(f"channels must be > 0, got {channels}")
        self.channels = channels
        self._ended: set[int] = set()
        #: Channels that have delivered, by checkpoint, in order of checkpoints.
        self._pending: dict[int, set[int]] = {}
        #: Checkpoints up to here are completed, subsumed or cancelled.
        self._settled = 0

    @property
    def pending(self) -> tuple[int, ...]:
        """Checkpoints that some channels have delivered, oldest first."""
        return tuple(self._pending)

    @property
    def all_ended(self) -> bool:
        return len(self._ended) == self.channels

    def barrier(self, channel: int, checkpoint_id: int) -> int | None:
        """A barrier has come; the checkpoint that is complete now."""
        if checkpoint_id <= self._settled:
            return None
        if checkpoint_id not in self._pending:
            self._pending[checkpoint_id] = set()
            self._pending = dict(sorted(self._pending.items()))
            while len(self._pending) > self.MAX_PENDING:
                self._settle(next(iter(self._pending)))
        if checkpoint_id in self._pending:
            self._pending[checkpoint_id].add(channel)
        return self._complete()

    def end_of_partition(self, channel: int) -> int | None:
        """A channel has ended; the checkpoint that is complete now: the newest, if several are."""
        self._ended.add(channel)
        return self._complete()

    def cancel(self, checkpoint_id: int) -> tuple[int, ...]:
        """A checkpoint is given up, and older ones with it; those that are given up by this call."""
        if checkpoint_id <= self._settled:
            return ()
        given_up = [pending for pending in self._pending if pending < checkpoint_id]
        self._settle(checkpoint_id)
        return (*given_up, checkpoint_id)

    def _complete(self) -> int | None:
        for checkpoint_id in reversed(self._pending):
            if len(self._pending[checkpoint_id] | self._ended) == self.channels:
                self._settle(checkpoint_id)
                return checkpoint_id
        return None

    def _settle(self, checkpoint_id: int) -> None:
        self._settled = checkpoint_id
        self._pending = {pending: seen for pending, seen in self._pending.items() if pending > checkpoint_id}
