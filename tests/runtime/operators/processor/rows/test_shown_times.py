"""What a processor is shown as watermark: PySpark's values, printable everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.operators.processor.rows.shown_times import END_OF_TIME_MS, shown_watermark_ms
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK


def test_none_yet_is_zero_and_the_end_a_date() -> None:
    """No watermark reads 0 as in PySpark, the end of event time 9999-12-30T00:00:00Z, all between itself (X14, P6)."""
    assert shown_watermark_ms(MIN_WATERMARK) == 0
    assert shown_watermark_ms(MAX_WATERMARK) == END_OF_TIME_MS
    assert datetime.fromtimestamp(END_OF_TIME_MS / 1000, timezone.utc) == datetime(9999, 12, 30, tzinfo=timezone.utc)
    assert shown_watermark_ms(1_600_000_000_123) == 1_600_000_000_123


def test_a_watermark_before_1970_is_none() -> None:
    """Data from before 1970 moves no watermark that a processor could see: PySpark's begins at 0 and only rises."""
    assert shown_watermark_ms(-1) == shown_watermark_ms(-86_400_000) == 0


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu", "XXX-24:59"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The process's local time zone: the extremes and odd ones."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_every_shown_watermark_is_a_date_in_every_zone(zone: str) -> None:
    """``datetime.fromtimestamp(w / 1000)`` works for whatever the engine's watermark is, and order is kept (P6)."""

    @given(st.lists(st.integers(MIN_WATERMARK, MAX_WATERMARK) | st.just(MAX_WATERMARK), min_size=2, max_size=2))
    def check(engine: list[int]) -> None:
        first, second = (shown_watermark_ms(ms) for ms in sorted(engine))
        assert first <= second
        assert datetime.fromtimestamp(first / 1000) <= datetime.fromtimestamp(second / 1000)

    check()
