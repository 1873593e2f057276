"""Event time as a PySpark processor is shown it: whatever the engine's watermark is, the processor can print it.

The engine counts watermarks from ``MIN_WATERMARK`` (none yet) to ``MAX_WATERMARK`` (the end of event time).  PySpark's
begin at 0 and never go back behind it, and a processor may rightly do ``datetime.fromtimestamp(watermark / 1000)``, in
any time zone: what is shown stays between 1970 and a day before the last that Python knows.
"""

from __future__ import annotations

from typing import Final

#: What PySpark shows while there is no watermark.
NONE_YET_MS: Final = 0
#: The end of event time as it is shown: 9999-12-30T00:00:00Z, a date that exists in every time zone.
END_OF_TIME_MS: Final = 253_402_128_000_000


def shown_watermark_ms(engine_ms: int) -> int:
    """The watermark in ms that ``getCurrentWatermarkInMs()`` gives for the engine's.

    Args:
        engine_ms: the engine's watermark in ms: ``MIN_WATERMARK``, ``MAX_WATERMARK`` or anything in between; one before
            1970 reads as none, as in PySpark.
    """
    return min(max(engine_ms, NONE_YET_MS), END_OF_TIME_MS)
