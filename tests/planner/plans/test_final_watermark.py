"""Which final watermark a job has: what its author asked for, or the default that is right for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.plans.final_watermark import NAME
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.state import GroupStateTimeout


class Silent(StatefulProcessor):
    """Yields nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        return iter(())


def windows(frame: MixedFrame) -> MixedStreamWriter:
    return frame.groupBy("k", F.window("ts", "1 hour")).agg(F.sum("v")).writeStream.format("noop")


def timers(frame: MixedFrame, times: str) -> MixedStreamWriter:
    return frame.groupBy("k").transformWithState(Silent(), "k string, n long", "append", times).writeStream


def final_of(writer: MixedStreamWriter, **options: str) -> tuple[str | None, str]:
    """Value and reason of a job with one stage, as plan and job have it."""
    writer.format("noop").options(**options)
    plan, job = writer.plan(), writer.described()
    (stage,), (spec,) = plan.stages, job.stages
    assert stage.final_watermark in (spec.final_watermark, None)
    return stage.final_watermark, stage.why_final_watermark or ""


def test_auto_is_observed_where_something_can_straddle_the_switch(both: MixedFrame) -> None:
    """Windows, sessions, event-time timers and timeouts, deduplications that forget and joins; nothing is warned of."""
    timed = both.withWatermark("ts", "1 hour")
    sessions = timed.groupBy("k", F.session_window("ts", "1 hour")).count().writeStream
    function = timed.groupBy("k").applyInPandasWithState(
        lambda key, rows, state: [], "k string", "n long", "append", GroupStateTimeout.EventTimeTimeout
    )
    straddling = {
        "windows": (windows(timed), sessions),
        "event-time timers": (timers(timed, "eventTime"), function.writeStream),
    }
    for what, writers in straddling.items():
        for writer in writers:
            assert final_of(writer) == (
                "observed",
                f"auto, as {what} that straddle the switch must fire once, and whole",
            )
            assert writer.plan().warnings == ()
    by_kind = {
        "a deduplication": timed.dropDuplicates(["k", "ts"]).writeStream,
        "a join of two streams": timed.join(both.select("k", F.col("v").alias("w")), "k").writeStream,
        "an aggregate in outputMode update": windows(timed).outputMode("update"),
        "an aggregate in outputMode complete": timed.groupBy("k").count().writeStream.outputMode("complete"),
    }
    for what, writer in by_kind.items():
        value, why = final_of(writer.queryName("q").format("memory") if "complete" in what else writer)
        assert value == "observed" and why.startswith(f"the only one for {what}: ")


def test_auto_is_max_where_nothing_can_straddle_the_switch(both: MixedFrame) -> None:
    """Processors without event-time timers and deduplications that never forget, also below a watermark."""
    timed = both.withWatermark("ts", "1 hour")
    function = timed.groupBy("k").applyInPandasWithState(
        lambda key, rows, state: [], "k string", "n long", "append", GroupStateTimeout.NoTimeout
    )
    for writer in (
        timers(both, "none"),
        timers(timed, "none"),
        timers(timed, "processingTime"),
        function.writeStream,
        both.dropDuplicates(["k"]).writeStream,
    ):
        assert final_of(writer) == ("max", "auto, as nothing of this stage can straddle the switch")


def test_where_the_input_ends_with_the_backlog_it_is_max(both: MixedFrame, history: DataFrame) -> None:
    """Batch mode, and a history without a live source; availableNow is no end of input."""
    timed, alone = both.withWatermark("ts", "1 hour"), read(history=history).withWatermark("ts", "1 hour")
    ended = ("max", "the input of this stage ends with the backlog")
    for given in ("auto", "observed", "max"):
        assert final_of(windows(timed), **{NAME: given, "execution.runtime-mode": "batch"}) == ended
        assert final_of(windows(alone), **{NAME: given}) == ended
    assert final_of(windows(alone).outputMode("update")) == ended
    assert final_of(windows(timed).trigger(availableNow=True))[0] == "observed"
    assert final_of(windows(timed), **{"execution.runtime-mode": "streaming"}) == (None, "")


def test_between_stages_it_is_observed(both: MixedFrame) -> None:
    """Each stage has its own line in the plan, those of one reason share it."""
    timed = both.withWatermark("ts", "1 hour")
    first = timed.groupBy("k", F.window("ts", "1 hour")).agg(F.sum("v").alias("n")).uid("hours")
    days = first.groupBy(F.window("window", "1 day")).agg(F.sum("n")).uid("days")
    writer = days.writeStream.format("noop")
    plan, job = writer.plan(), writer.described()
    assert [stage.final_watermark for stage in plan.stages] == ["observed", "observed"]
    assert {spec.final_watermark for spec in job.stages} == {"observed"}
    assert f"[hours], [days] observed ({NAME}): the only one for a job of 2 keyed stages" in " ".join(str(plan).split())


@pytest.mark.parametrize("output_mode", ["update", "complete"])
def test_max_is_refused_where_it_would_overwrite_totals(both: MixedFrame, output_mode: str) -> None:
    """The error names the option, its value and origin, the reason, and what is allowed."""
    writer = windows(both.withWatermark("ts", "1 hour")).outputMode(output_mode).queryName("q").format("memory")
    with pytest.raises(OptionError) as caught:
        writer.option(NAME, "MAX").plan()

    message = str(caught.value)
    assert f"{NAME} = 'MAX' (from .option())" in message
    assert f"an aggregate in outputMode {output_mode}" in message
    assert "overwrite its total" in message
    assert "allowed: observed, which is what auto gives here" in message


@pytest.mark.parametrize("given", ["max", "observed"])
def test_what_was_asked_for_holds_elsewhere(both: MixedFrame, given: str) -> None:
    """The reason says where it was set."""
    timed = both.withWatermark("ts", "1 hour")
    for writer in (windows(timed), timers(timed, "eventTime"), timers(both, "none")):
        assert final_of(writer, **{NAME: given}) == (given, "set by .option()")


def warnings_of(writer: MixedStreamWriter, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="mixedmode"):
        writer.format("noop").start()
    return [record.getMessage() for record in caplog.records if NAME in record.getMessage()]


def test_start_warns_once_where_max_fires_what_straddles_the_switch(
    both: MixedFrame,
    history: DataFrame,
    started: list[JobSpec],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows in append mode and processors with event-time timers, if it was asked for; nothing is said by default,
    where nothing straddles, or when the switch is past."""
    timed = both.withWatermark("ts", "1 hour")
    alone = read(history=history).withWatermark("ts", "1 hour")  # has no switch

    for writer in (windows(timed), timers(timed, "eventTime"), windows(timed).trigger(availableNow=True)):
        assert warnings_of(writer, caplog) == []
        writer = writer.option(NAME, "max")
        (warning,) = warnings_of(writer.queryName("w"), caplog)
        assert warning.startswith("query w: windows and event-time timers that straddle the switch")
    for writer in (
        windows(timed).option(NAME, "observed"),
        windows(timed).option(NAME, "max").option("execution.runtime-mode", "batch"),
        windows(timed).option(NAME, "max").option("execution.runtime-mode", "streaming"),
        timers(timed, "none").option(NAME, "max"),
        windows(alone).option(NAME, "max"),
    ):
        assert warnings_of(writer, caplog) == []
    assert len(started) == 11
    assert [job.stages[0].final_watermark for job in started[:6]] == ["observed", "max"] * 3
    monkeypatch.setattr("mixedmode.planner.frames.writer.has_checkpoint", lambda location: True)
    assert warnings_of(windows(timed).option(NAME, "max"), caplog) == []


def test_the_plan_says_which_one_applies_and_why(both: MixedFrame) -> None:
    """explain() has the stage's value with its reason, and the settings hold what was asked for."""
    timed = both.withWatermark("ts", "1 hour")

    def text(writer: MixedStreamWriter) -> str:
        return " ".join(str(writer.plan()).split())

    assert f"observed ({NAME}): the only one for an aggregate in outputMode update" in text(
        windows(timed).outputMode("update")
    )
    assert f"observed ({NAME}): set by .option()" in text(windows(timed).option(NAME, "observed"))
    assert f"observed ({NAME}): auto, as windows that straddle" in text(windows(timed))
    assert f"max ({NAME}): auto, as nothing of this stage" in text(timers(timed, "none").format("noop"))
    assert f"max ({NAME}): the input of this stage ends" in text(
        windows(timed).option("execution.runtime-mode", "batch")
    )
    assert windows(timed).plan().settings.final_watermark == "auto"
