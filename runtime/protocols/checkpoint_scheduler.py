"""Decides when checkpoints are taken: periodic, paused during backlog, immediate.  Sans-IO.

Rules of FLIP-309 and FLIP-327:

- The effective interval is the backlog interval while any source is in backlog, and the normal one otherwise.
- A change that makes the next trigger earlier re-arms it at now + effective; one that would make it later leaves it.
- A backlog interval of 0 means that **no** periodic checkpoint fires in the backlog, not even one that was armed
  before the backlog began (Flink fires that one: FLINK-39108).
- When the last source leaves the backlog under interval 0, a checkpoint is due at once; the periodic ones follow.
- One checkpoint is under way at a time: one that would have been due meanwhile is due when that has ended.
- A source that ends is not in backlog any more; when all have ended, the final checkpoint is due at once.

The interval ``auto`` is ours: a checkpoint is due as soon as there is a change to be kept or shown and the one before
has ended.  What changes no state and no output, the place in a source, say, is covered within :data:`COVERED_MS`.

All times are milliseconds of one monotonic clock that the caller owns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Under ``auto``: within this time a checkpoint holds what every epoch has moved, and one that failed is tried again.
COVERED_MS = 10_000


@dataclass
class CheckpointScheduler:
    """Decides whether a checkpoint is due.

    Args:
        interval_ms: normal interval, > 0; None: ``auto``.
        interval_during_backlog_ms: 0 (none while any source is in backlog) or at least ``interval_ms``.
        min_pause_ms: least time between the end of one checkpoint and the trigger of the next periodic one.
        now_ms: the clock's reading at the start.
        sources: names of all sources of the job.
    """

    interval_ms: int | None
    interval_during_backlog_ms: int
    min_pause_ms: int
    now_ms: int
    sources: frozenset[str]
    #: Sources whose isBacklog is true.
    backlog: set[str] = field(default_factory=set)
    #: Sources that reached their end.
    ended: set[str] = field(default_factory=set)
    #: True if a checkpoint is wanted whatever the interval says.
    immediate: bool = False
    #: True while one is being completed: no other is due.
    is_under_way: bool = False
    _next_ms: int = 0
    _pause_until_ms: int = 0

    def __post_init__(self) -> None:
        if self.interval_ms is not None and self.interval_ms <= 0:
            raise ValueError(f"interval_ms must be > 0, got {self.interval_ms}")
        if self.interval_during_backlog_ms < 0 or 0 < self.interval_during_backlog_ms < (self.interval_ms or 0):
            raise ValueError(
                f"interval_during_backlog_ms must be 0 or >= interval_ms ({self.interval_ms}), "
                f"got {self.interval_during_backlog_ms}"
            )
        self._next_ms = self.now_ms + (self.effective_interval_ms or self._normal_ms)
        self._pause_until_ms = self.now_ms

    @property
    def effective_interval_ms(self) -> int | None:
        """The interval in force; None: no periodic checkpoints now."""
        if self.backlog:
            return self.interval_during_backlog_ms or None
        return self._normal_ms

    @property
    def _normal_ms(self) -> int:
        return COVERED_MS if self.interval_ms is None else self.interval_ms

    def set_backlog(self, source: str, is_backlog: bool, now_ms: int) -> None:
        """A source reports isBacklog; repeated reports of the same value change nothing."""
        if is_backlog == (source in self.backlog):
            return
        if is_backlog:
            self.backlog.add(source)
            return
        self.backlog.discard(source)
        if not self.backlog and self.interval_during_backlog_ms == 0:
            self.immediate = True
        self._rearm(now_ms)

    def source_ended(self, source: str, now_ms: int) -> None:
        """A source reached its end: it no longer counts as in backlog."""
        self.ended.add(source)
        self.set_backlog(source, False, now_ms)
        if self.ended >= self.sources:
            self.immediate = True

    def _rearm(self, now_ms: int) -> None:
        effective = self.effective_interval_ms
        if effective is not None and now_ms + effective < self._next_ms:
            self._next_ms = now_ms + effective

    def request(self) -> None:
        """Ask for a checkpoint at the next opportunity (the user asked, or nothing comes after the switch)."""
        self.immediate = True

    def due(self, now_ms: int, *, changed: bool = False) -> bool:
        """True if a checkpoint must be taken now.  A request in a backlog under interval 0 waits for the switch.

        Args:
            now_ms: the clock's reading.
            changed: whether state or output has changed since the last one, which ``auto`` goes by.
        """
        next_ms = self.next_trigger_ms(changed=changed)
        return next_ms is not None and (self.immediate or now_ms >= next_ms)

    def next_trigger_ms(self, *, changed: bool = False) -> int | None:
        """When the next periodic checkpoint is due; None: none is armed, or one is under way."""
        if self.effective_interval_ms is None or self.is_under_way:
            return None
        if changed and self.interval_ms is None and not self.backlog:
            return self._pause_until_ms
        return max(self._next_ms, self._pause_until_ms)

    def began(self, now_ms: int) -> None:
        """A checkpoint starts, and is under way until it has completed or failed."""
        self.triggered(now_ms)
        self.is_under_way = True

    def triggered(self, now_ms: int) -> None:
        """A checkpoint starts, or is left out; the next periodic one is armed one effective interval later."""
        self.immediate = False
        self._next_ms = now_ms + (self.effective_interval_ms or self._normal_ms)

    def ended_checkpoint(self, now_ms: int, *, failed: bool = False) -> None:
        """A checkpoint has completed or failed; the minimum pause starts.

        Under ``auto`` one that has failed is not tried again at once: its cause needs time to go, and how many
        failures in a row are tolerated would be used up before that.
        """
        self.is_under_way = False
        pause_ms = max(self.min_pause_ms, COVERED_MS) if failed and self.interval_ms is None else self.min_pause_ms
        self._pause_until_ms = now_ms + pause_ms
