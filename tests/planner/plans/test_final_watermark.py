"""Which final watermark a job has: what its author asked for, or the default that is right for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, read
from mixedmode.planner.frames import writer as writer_module
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.options.layers import Layer, resolve_options
from mixedmode.planner.plans.final_watermark import NAME, FinalWatermark, resolve_final_watermark
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Silent(StatefulProcessor):
    """Yields nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        return iter(())

    def close(self) -> None:
        pass


def resolved(given: str | None, *, is_aggregate: bool, output_mode: str) -> FinalWatermark:
    options = resolve_options(Layer("job.toml", {} if given is None else {NAME: given}))
    return resolve_final_watermark(options, is_aggregate=is_aggregate, output_mode=output_mode)


@pytest.mark.parametrize(
    ("is_aggregate", "output_mode", "default"),
    [
        (True, "append", "max"),
        (True, "update", "observed"),
        (True, "complete", "observed"),
        (False, "append", "max"),
        (False, "update", "max"),
        (False, "complete", "max"),
    ],
)
def test_the_default_is_observed_where_a_row_replaces_the_one_before(
    is_aggregate: bool, output_mode: str, default: str
) -> None:
    """Aggregates in update and complete mode; a processor knows itself what its rows mean."""
    final = resolved(None, is_aggregate=is_aggregate, output_mode=output_mode)

    assert final.settings.final_watermark == default
    assert ("overwrite its total" in final.reason) == (default == "observed")


@pytest.mark.parametrize("output_mode", ["update", "complete"])
def test_max_is_refused_where_it_would_overwrite_totals(output_mode: str) -> None:
    """The error names the option, its value and origin, the reason, and what is allowed."""
    with pytest.raises(OptionError) as caught:
        resolved("MAX", is_aggregate=True, output_mode=output_mode)

    message = str(caught.value)
    assert f"{NAME} = 'MAX' (from job.toml)" in message
    assert f"an aggregate in outputMode {output_mode}" in message
    assert "overwrite its total" in message
    assert "allowed: observed" in message


@pytest.mark.parametrize("given", ["max", "observed"])
@pytest.mark.parametrize(("is_aggregate", "output_mode"), [(True, "append"), (False, "update"), (False, "append")])
def test_what_was_asked_for_holds_elsewhere(given: str, is_aggregate: bool, output_mode: str) -> None:
    """The reason says where it was set."""
    final = resolved(given, is_aggregate=is_aggregate, output_mode=output_mode)

    assert (final.settings.final_watermark, final.reason) == (given, "set by job.toml")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    jobs: list[JobSpec] = []
    monkeypatch.setattr(writer_module, "start_query", jobs.append)
    return jobs


def windows(frame: MixedFrame) -> MixedStreamWriter:
    return frame.groupBy("k", F.window("ts", "1 hour")).agg(F.sum("v")).writeStream.format("noop")


def timers(frame: MixedFrame, times: str) -> MixedStreamWriter:
    return frame.groupBy("k").transformWithState(Silent(), "k string, n long", "append", times).writeStream


def warnings_of(writer: MixedStreamWriter, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="mixedmode"):
        writer.format("noop").start()
    return [record.getMessage() for record in caplog.records if NAME in record.getMessage()]


@pytest.mark.spark
def test_start_warns_once_where_max_fires_what_straddles_the_switch(
    both: MixedFrame,
    history: DataFrame,
    started: list[JobSpec],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows in append mode and processors with event-time timers; nothing is said where nothing straddles, nor when
    the switch is past."""
    timed = both.withWatermark("ts", "1 hour")
    alone = read(history=history).withWatermark("ts", "1 hour")  # has no switch

    for writer in (windows(timed), timers(timed, "eventTime"), windows(timed).trigger(availableNow=True)):
        (warning,) = warnings_of(writer.queryName("w"), caplog)
        assert warning.startswith("query w: windows and event-time timers that straddle the switch")
    for writer in (
        windows(timed).option(NAME, "observed"),
        windows(timed).outputMode("update"),
        windows(timed).option("execution.runtime-mode", "batch"),
        windows(timed).option("execution.runtime-mode", "streaming"),
        timers(timed, "none"),
        windows(alone),
    ):
        assert warnings_of(writer, caplog) == []
    assert len(started) == 9
    assert {job.settings.final_watermark for job in started[:3]} == {"max"}
    assert started[4].settings.final_watermark == "observed"
    monkeypatch.setattr("mixedmode.planner.frames.writer.has_checkpoint", lambda location: True)
    assert warnings_of(windows(timed), caplog) == []


@pytest.mark.spark
def test_the_plan_says_which_one_applies_and_why(both: MixedFrame) -> None:
    """explain() has the resolved value with its reason, and the settings hold it."""
    timed = both.withWatermark("ts", "1 hour")
    updating = windows(timed).outputMode("update").plan()
    asked = windows(timed).option(NAME, "observed").plan()
    text = " ".join(str(updating).split())

    assert updating.settings.final_watermark == asked.settings.final_watermark == "observed"
    assert f"observed ({NAME}): the only one for an aggregate in outputMode update" in text
    assert f"observed ({NAME}): set by .option()" in " ".join(str(asked).split())
    assert f"max ({NAME}): the default" in " ".join(str(windows(timed).plan()).split())
    with pytest.raises(OptionError, match="does not go with an aggregate in outputMode update"):
        windows(timed).outputMode("update").option(NAME, "max").plan()
