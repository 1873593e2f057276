"""The event-time watermark of a job, and isBacklog by watermark lag.  Sans-IO.

``watermark = greatest event time seen - delay``, never backwards; it moves between epochs, as in Spark
(https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#handling-late-data-and-watermarking).
isBacklog by lag follows FLIP-328: true if and only if ``now - watermark > threshold``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .spec import MAX_WATERMARK, MIN_WATERMARK


@dataclass
class WatermarkTracker:
    """Watermark of one event-time column.

    Args:
        delay_ms: how far the watermark stays behind the greatest event time.
        lag_threshold_ms: lag above which the stream counts as being in backlog; None: never.
    """

    delay_ms: int
    lag_threshold_ms: int | None = None
    current_ms: int = MIN_WATERMARK
    max_event_time_ms: int | None = None

    def observe(self, max_event_time_ms: int | None) -> None:
        """Note the greatest event time of an epoch (None: it had none) and advance."""
        if max_event_time_ms is None:
            return
        if self.max_event_time_ms is None or max_event_time_ms > self.max_event_time_ms:
            self.max_event_time_ms = max_event_time_ms
        self.current_ms = max(self.current_ms, self.max_event_time_ms - self.delay_ms)

    def would_reach(self, max_event_time_ms: int | None) -> int:
        """The watermark after seeing this event time, without advancing."""
        if max_event_time_ms is None:
            return self.current_ms
        return max(self.current_ms, max_event_time_ms - self.delay_ms)

    def end_of_input(self) -> None:
        """No record will come any more."""
        self.current_ms = MAX_WATERMARK

    def is_backlog(self, now_ms: int) -> bool:
        """True if the watermark lags behind ``now_ms`` by more than the threshold."""
        if self.lag_threshold_ms is None or self.current_ms == MIN_WATERMARK:
            return False
        return now_ms - self.current_ms > self.lag_threshold_ms
