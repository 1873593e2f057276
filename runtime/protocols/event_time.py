"""The ends of event time, as PySpark's ``TimerValues`` count it."""

from __future__ import annotations

#: Watermarks and timers are milliseconds since the epoch, as in PySpark's ``TimerValues``.
MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1
