"""Decides when a live input counts as in backlog because its watermark lags.  Sans-IO.

The rule is FLIP-328's: in backlog while the lag is greater than the threshold.  Alone it has two faults.  An input
whose records are simply old (a replay, a device with a wrong clock, or one that has gone quiet) would be in backlog for
ever, and with ``execution.interval-during-backlog`` 0 never see a checkpoint again; and a lag that hovers about the
threshold would switch, and take the checkpoint of a switch, with every micro-batch.  Hence two rules more:

- *Drained*: an input in backlog that was seen with nothing waiting, ``calm_ms`` or more after it got there, has been
  worked off.  It leaves, and its lag is excused until it is within the threshold again, or until the input has not been
  seen drained for longer than the threshold: only then has it fallen behind anew.
- *Calm*: an input that left backlog does not go back within ``calm_ms``.

So isBacklog of an input turns false at most once per ``calm_ms``.  All times are of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class LagGate:
    """isBacklog of one live input by lag.

    Args:
        threshold_ms: the lag above which it is in backlog.
        calm_ms: least time in backlog before being drained ends it, and least time out of it.
        is_backlog: where it stands at the start.
        since_ms: since when; None: for long.
    """

    threshold_ms: int
    calm_ms: int
    is_backlog: bool = False
    since_ms: int | None = None
    #: When the input, whose lag is excused, was last seen drained; None: its lag is not excused.
    _drained_ms: int | None = None

    def judge(self, lags: bool, now_ms: int) -> bool:
        """The watermark may have moved: ``lags`` says whether it now lags by more than the threshold."""
        if not lags:
            self._drained_ms = None
            return self._turn(False, now_ms)
        excused = self._drained_ms is not None and now_ms - self._drained_ms <= self.threshold_ms
        if self.is_backlog or excused or not self._calm(now_ms):
            return self.is_backlog
        self._drained_ms = None
        return self._turn(True, now_ms)

    def drained(self, now_ms: int) -> bool:
        """Nothing waits at the input, and everything that it gave has been processed."""
        if self._drained_ms is not None:
            self._drained_ms = now_ms
        elif self.is_backlog and self._calm(now_ms):
            self._drained_ms = now_ms
            self._turn(False, now_ms)
        return self.is_backlog

    def _calm(self, now_ms: int) -> bool:
        return self.since_ms is None or now_ms - self.since_ms >= self.calm_ms

    def _turn(self, is_backlog: bool, now_ms: int) -> bool:
        if is_backlog != self.is_backlog:
            self.is_backlog, self.since_ms = is_backlog, now_ms
        return self.is_backlog


@dataclass
class LagGates:
    """The gates of a job's live inputs by name, made when first asked for."""

    threshold_ms: int
    calm_ms: int
    _gates: dict[str, LagGate] = field(default_factory=dict)

    def of(self, name: str) -> LagGate:
        """The gate of an input."""
        return self._gates.setdefault(name, LagGate(self.threshold_ms, self.calm_ms))
