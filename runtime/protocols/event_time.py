"""The ends of event time, as PySpark's ``TimerValues`` count it."""

from __future__ import annotations

#: Watermarks and timers are milliseconds since the epoch, as in PySpark's ``TimerValues``.
MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1

#: The greatest time that Spark's timestamps, microseconds in 64 bits, can hold.  What is behind it is no row's: the
#: input has ended, and is at MAX_WATERMARK less its delay.
LAST_TIMESTAMP_MS = MAX_WATERMARK // 1000
