"""The orderly stream's watermark, told for one key after the other.

The orderly stream brings rows in event-time order, each event time by itself, and its watermark passes through every
millisecond.  So what a key's rows and timers see follows from the key's own event times: rows of event time t see
t - delay, a timer sees its own time.  Nobody else's rows have to be known for that.
"""

from __future__ import annotations

from ..contract import EpochSpec, InOrder
from ..keyed.keyed_rows import NO_TIME


class KeyClock:
    """Invariants: within a key it never goes backwards; it is never behind what earlier epochs have fired up to.

    Args:
        epoch: tells the watermark at the epoch's start.
        order: how the watermark follows event times.
    """

    def __init__(self, epoch: EpochSpec, order: InOrder) -> None:
        self._start_ms = epoch.watermark_ms
        self._order = order
        self.now_ms = order.fired_ms

    def begin(self) -> None:
        """Another key is the current one: nothing of it has been handled in this epoch."""
        self.now_ms = self._order.fired_ms

    def of_rows(self, time_us: int) -> int:
        """The watermark in ms that rows of an event time see; what is due by it fires before them.

        Args:
            time_us: the event time in microseconds, or ``NO_TIME``.
        """
        order = self._order
        if time_us == NO_TIME:
            return max(self.now_ms, self._start_ms)
        return max(self.now_ms, self._start_ms, min(time_us // 1000 - order.delay_ms, order.upto_ms))

    def pass_on(self, watermark_ms: int) -> int:
        """Move to a watermark, unless it is behind; returns where the clock stands then, in ms."""
        if watermark_ms > self.now_ms:
            self.now_ms = watermark_ms
        return self.now_ms
