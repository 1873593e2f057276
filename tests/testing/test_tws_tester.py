"""Where stock's ``TwsTester`` says the same as a job it is the oracle; neither needs Spark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.testing import Harness
from processors import OUTPUT, SCHEMA, Buckets, Counts, Forgetful, at, ms_of
from pyspark.sql import Row

TwsTester = pytest.importorskip("pyspark.sql.streaming.tws_tester").TwsTester

#: Event times that no timer and no watermark has: at these stock and we differ.
TIMES = st.integers(0, 100).map(lambda n: 10 * n + 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.lists(st.tuples(TIMES, st.integers(0, 9)), min_size=1, max_size=4)),
        st.integers(1, 100).map(lambda n: 10 * n + 5),
    ),
    max_size=8,
)
AFTER_ROWS = {"pipeline.timers": "after-rows"}


def plain(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows)


@given(steps=STEPS, processor=st.sampled_from([Buckets, Counts]))
@settings(max_examples=25)
def test_event_time_as_stock_does_it(steps: list[Any], processor: Any) -> None:
    """Rows of a key, then a watermark: output, late rows, timers and state are those of stock's tester."""
    stock = TwsTester(processor(), timeMode="EventTime", eventTimeExtractor=lambda row: ms_of(row.ts))
    watermark_ms = 0
    # The delay is greater than all event times, so rows do not move the watermark by themselves.
    of_event_time: dict[str, Any] = {"time_mode": "eventTime", "event_time": "ts", "delay": "10 days"}
    with Harness(processor(), key="k", schema=SCHEMA, output=OUTPUT, options=AFTER_ROWS, **of_event_time) as ours:
        for step in steps:
            if isinstance(step, int):
                if step > watermark_ms:
                    watermark_ms = step
                    assert plain(ours.set_watermark(step)) == plain(stock.setWatermark(step))
                continue
            key, values = step
            rows = sorted([Row(k=key, ts=at(ms), v=v) for ms, v in values], key=lambda row: row.ts)
            # Of what has fired already neither says the same again: stock refuses such a timer.
            rows = [row for row in rows if processor is Counts or ms_of(row.ts) // 100 * 100 + 100 > watermark_ms]
            assert plain(ours.push(rows)) == plain(stock.test(key, rows))
        for key in "ab":
            assert [timer.at_ms for timer in ours.timers(key)] == list(stock.handle._timers.listTimers(key))
            if processor is Counts:
                assert ours.peek_value_state("count", key) == stock.peekValueState("count", key)
                assert ours.peek_list_state("values", key) == stock.peekListState("values", key)
            else:
                assert ours.peek_map_state("sums", key) == stock.peekMapState("sums", key)


@given(steps=st.lists(st.one_of(st.sampled_from("ab"), st.integers(1, 60)), max_size=10))
@settings(max_examples=10)
def test_processing_time_as_stock_does_it(steps: list[Any]) -> None:
    """Timers of processing time fire as in stock's tester; that knows no TTL, so time stays below it."""
    stock, now_ms = TwsTester(Forgetful(), timeMode="ProcessingTime"), 0
    with Harness(Forgetful(), key="k", schema=SCHEMA, output=OUTPUT, time_mode="processingTime") as ours:
        for number, step in enumerate(steps):
            if isinstance(step, int):
                if now_ms + step < 100:
                    now_ms += step
                    assert plain(ours.set_processing_time(now_ms)) == plain(stock.setProcessingTime(now_ms))
                continue
            rows = [Row(k=step, ts=None, v=number)]
            assert plain(ours.push(rows)) == plain(stock.test(step, rows))
