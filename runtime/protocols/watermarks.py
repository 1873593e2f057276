"""The event-time watermark of a keyed stage, and isBacklog by watermark lag.  Sans-IO.

An input's own watermark is ``greatest event time seen - delay``.  The stage's is the least of its inputs', never goes
backwards, and moves between epochs, as in Spark
(https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#handling-late-data-and-watermarking).

Rules of Flink that it follows:

- An input that gave nothing for ``pipeline.watermark.idle-timeout`` is idle and does not hold the others back.  When
  all are idle, the greatest of their watermarks counts.  The first rows make an input active again.
- An input that has ended (an earlier stage that has finished) holds nobody back, and nobody goes on to where it is
  before all have ended.
- Time in which no input could be read (an epoch that runs) does not count as idle.
- ``pipeline.auto-watermark-interval`` is the least time between two steps of the watermark that epochs are given.
- isBacklog by lag (FLIP-328) is true if and only if ``now - watermark > threshold``, for each input on its own.

All times that are called ``now_ms`` are of one clock that the caller owns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .event_time import LAST_TIMESTAMP_MS, MAX_WATERMARK, MIN_WATERMARK

#: Name of a job's input where there is only one.
ONLY = "live"


@dataclass
class InputWatermark:
    """The watermark of one live input, together with the history that precedes it.

    To a stage that follows others each of those is an input, and what it has fired up to is its greatest event time.
    """

    delay_ms: int
    max_event_time_ms: int | None = None
    #: When it last gave rows; None: nobody watches yet.
    active_at_ms: int | None = None

    def see(self, event_time_ms: int | None) -> None:
        """Note the greatest event time of some rows; None: none of them had one."""
        if event_time_ms is not None:
            known = self.max_event_time_ms
            self.max_event_time_ms = event_time_ms if known is None else max(known, event_time_ms)

    def reached_ms(self, event_time_ms: int | None = None) -> int:
        """The watermark that it alone would give, after also seeing this event time."""
        seen = [time_ms for time_ms in (self.max_event_time_ms, event_time_ms) if time_ms is not None]
        return max(seen) - self.delay_ms if seen else MIN_WATERMARK


@dataclass
class WatermarkTracker:
    """Watermark of one event-time column over all inputs.

    Args:
        delay_ms: how far the watermark stays behind the greatest event time, where ``delays_ms`` says nothing else.
        lag_threshold_ms: lag above which an input counts as being in backlog; None: never.
        delays_ms: the inputs by name, each with its own delay; None: one input.
        interval_ms: least time between two steps; 0: with every epoch.
        idle_timeout_ms: time without rows after which an input is idle; None: never.
    """

    delay_ms: int
    lag_threshold_ms: int | None = None
    delays_ms: Mapping[str, int] | None = None
    interval_ms: int = 0
    idle_timeout_ms: int | None = None
    #: The watermark that epochs are given.  Invariant: it never goes backwards.
    current_ms: int = MIN_WATERMARK
    #: What epochs have fired up to: a row behind it is late.  Invariants: it never goes backwards, and is never ahead
    #: of what event times have reached, so MAX_WATERMARK at a switch makes no row late.
    fired_ms: int = MIN_WATERMARK
    inputs: dict[str, InputWatermark] = field(init=False)
    _moved_at_ms: int | None = None
    #: Where it was when the input ended; None: it has not.
    _before_end_ms: int | None = None

    def __post_init__(self) -> None:
        delays_ms = self.delays_ms or {ONLY: self.delay_ms}
        self.inputs = {name: InputWatermark(delay_ms) for name, delay_ms in delays_ms.items()}

    @property
    def max_event_time_ms(self) -> int | None:
        """The greatest event time of all inputs."""
        seen = [one.max_event_time_ms for one in self.inputs.values() if one.max_event_time_ms is not None]
        return max(seen, default=None)

    @property
    def greatest_delay_ms(self) -> int:
        """How far the watermark stays behind when all inputs have come to the same event time."""
        return max(one.delay_ms for one in self.inputs.values())

    # -- what is seen ------------------------------------------------------------------------------------------------

    def observe(self, seen: Mapping[str, int | None] | int | None, now_ms: int | None = None) -> None:
        """Note the greatest event times of an epoch.

        Args:
            seen: by input, those that had rows only; or one for all inputs.  None: no row had an event time.
            now_ms: when the epoch ended; None: nobody watches for idle inputs.
        """
        for name, event_time_ms in self._by_input(seen).items():
            one = self.inputs[name]
            one.see(event_time_ms)
            if one.active_at_ms is not None and now_ms is not None:
                one.active_at_ms = now_ms

    def watch(self, now_ms: int, names: Collection[str] | None = None) -> None:
        """From now on an input without rows may become idle; ``names``: those that may, None: all."""
        for name, one in self.inputs.items():
            if names is None or name in names:
                one.active_at_ms = now_ms

    def pause(self, duration_ms: int) -> None:
        """For this long no input could be read."""
        for one in self.inputs.values():
            if one.active_at_ms is not None:
                one.active_at_ms += duration_ms

    def end_of_input(self) -> None:
        """No record will come any more."""
        self._before_end_ms = self.current_ms
        self.current_ms = MAX_WATERMARK

    def fired(self, upto_ms: int) -> None:
        """An epoch has fired what was due by this watermark."""
        self.fired_ms = max(self.fired_ms, min(upto_ms, self.would_reach(None)))

    # -- where it is -------------------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> bool:
        """Move to what the inputs have reached, unless the last step was less than the interval ago."""
        wait_ms = self.next_step_ms(now_ms)
        return wait_ms is not None and wait_ms <= now_ms and self.advance_to(self._reached_ms({}, now_ms), now_ms)

    def advance_to(self, watermark_ms: int, now_ms: int) -> bool:
        """Move at once, if that is forwards; True if it moved."""
        if watermark_ms <= self.current_ms:
            return False
        self.current_ms, self._moved_at_ms = watermark_ms, now_ms
        return True

    def next_step_ms(self, now_ms: int) -> int | None:
        """When :meth:`advance` may have an effect without new rows; None: never."""
        steps = []
        if self._reached_ms({}, now_ms) > self.current_ms:
            steps.append(now_ms if self._moved_at_ms is None else max(now_ms, self._moved_at_ms + self.interval_ms))
        elif self.idle_timeout_ms is not None and len(self.inputs) > 1:
            steps += [
                one.active_at_ms + self.idle_timeout_ms
                for name, one in self.inputs.items()
                if one.active_at_ms is not None and not self.is_idle(name, now_ms)
            ]
        return min(steps, default=None)

    def would_reach(self, seen: Mapping[str, int | None] | int | None) -> int:
        """The watermark after also seeing these event times, without moving.

        By event times alone: MAX_WATERMARK, with which all input ends, does not count.
        """
        before_ms = self.current_ms if self._before_end_ms is None else self._before_end_ms
        return max(before_ms, self._reached_ms(self._by_input(seen), None))

    def is_idle(self, name: str, now_ms: int) -> bool:
        """True if the input gave nothing for the idle timeout."""
        active_at_ms = self.inputs[name].active_at_ms
        if self.idle_timeout_ms is None or active_at_ms is None:
            return False
        return now_ms - active_at_ms >= self.idle_timeout_ms

    def is_backlog(self, now_ms: int, name: str | None = None) -> bool:
        """True if an input's watermark (None: the only one's) lags behind ``now_ms`` by more than the threshold.

        An idle input has nothing that could be worked off, however old its last row is.
        """
        name = name or next(iter(self.inputs))
        if self.lag_threshold_ms is None or self.is_idle(name, now_ms):
            return False
        reached_ms = self.inputs[name].reached_ms()
        return reached_ms != MIN_WATERMARK and now_ms - reached_ms > self.lag_threshold_ms

    def _reached_ms(self, seen: Mapping[str, int | None], now_ms: int | None) -> int:
        """The least watermark of the inputs that go on, and are not idle or have just been seen."""
        reached_ms = {name: one.reached_ms(seen.get(name)) for name, one in self.inputs.items()}
        going_on = {name: ms for name, ms in reached_ms.items() if ms <= LAST_TIMESTAMP_MS}
        active = [
            watermark_ms
            for name, watermark_ms in (going_on or reached_ms).items()
            if name in seen or now_ms is None or not self.is_idle(name, now_ms)
        ]
        return min(active) if active else max((going_on or reached_ms).values())

    def _by_input(self, seen: Mapping[str, int | None] | int | None) -> Mapping[str, int | None]:
        if isinstance(seen, Mapping):
            return seen
        return {} if seen is None else dict.fromkeys(self.inputs, seen)
