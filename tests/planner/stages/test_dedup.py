"""What a deduplication is planned as: its columns, how long it remembers keys, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import read
from mixedmode.errors import OptionError, PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.operators.dedup.definition import Deduplication, Lateness, Retention
from mixedmode.runtime.spec import Settings
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from session_options import session_options

COMPATIBLE = "spark.sql.streaming.statefulOperator.allowMultiple"


def operator(frame: MixedFrame) -> Deduplication:
    """The operator of a described deduplication."""
    stage = frame._stage
    assert stage is not None
    made = stage.build("d", "append", Settings(timers="in-order"))
    assert isinstance(made, Deduplication)
    return made


@pytest.fixture
def rows(both: MixedFrame) -> MixedFrame:
    return both.withWatermark("ts", "1 hour")


def test_columns_are_those_of_the_input_and_keys_each_once(both: MixedFrame) -> None:
    """Order and types as before; names by the session's rule of case; equal floats keep their own bits."""
    found = both.dropDuplicates(["X", "k", "x"])
    assert found.schema == both.schema
    made = operator(found)
    assert made.keys == ("x", "k")
    assert made.payload == ("v", "x", "ts", "tags")
    assert made.sources == ("__k1", "__b0", "__b1", "__b2", "__b3")
    assert operator(both.drop("tags").distinct()).keys == ("k", "v", "x", "ts")
    assert operator(both.drop("tags").dropDuplicates()).keys == ("k", "v", "x", "ts")
    assert operator(both.drop_duplicates(("k",))).keys == ("k",)
    assert operator(both.dropDuplicates([])).keys == ()


def test_how_long_a_key_is_remembered_follows_the_event_time_among_the_columns(rows: MixedFrame) -> None:
    """Event time, window of it, neither, and the watermark's delay; late is told by what the rows still have."""
    windowed = rows.withColumn("w", F.window("ts", "10 minutes"))
    made = operator(rows.dropDuplicates(["k", "ts"]))
    assert (made.retention, made.lateness) == (Retention("key-time", "ts", 1), Lateness("ts"))
    made = operator(windowed.dropDuplicates(["w", "k"]))
    assert made.retention == Retention("key-time", "the end of w", 0, is_window=True)
    assert made.lateness == Lateness("ts")
    made = operator(windowed.select("w", "k").distinct())
    assert (made.retention.kind, made.lateness) == ("key-time", Lateness("w", is_window=True))
    made = operator(rows.dropDuplicates(["k"]))
    assert (made.retention.kind, made.lateness, made.uses_event_time) == ("for-ever", Lateness("ts"), False)
    made = operator(rows.select("k").distinct())
    assert (made.retention.kind, made.lateness) == ("for-ever", None)
    made = operator(rows.dropDuplicatesWithinWatermark(["k"]))
    assert made.retention == Retention("delay", "ts", delay_ms=3_600_000)
    assert made.has_timers and not made.aggregates_by_key
    made = operator(rows.select("k").dropDuplicatesWithinWatermark())
    assert (made.keys, made.lateness) == (("k",), Lateness("__event_time"))
    made = operator(rows.dropDuplicatesWithinWatermark(["ts", "k"]))
    assert made.retention.key == 0 and not made.has_timers and made.aggregates_by_key


def test_behind_another_stage_the_delay_is_the_same(rows: MixedFrame) -> None:
    """As in Spark; of the rows themselves nothing older comes than what the stage has fired."""
    first = rows.dropDuplicates(["k", "ts"])
    for found in (first, first.select("k", "v"), first.dropDuplicates(["ts"]), first.union(first)):
        made = operator(found.dropDuplicatesWithinWatermark(["k"]))
        assert made.retention.delay_ms == 3_600_000
    made = operator(first.withWatermark("ts", "1 minute").dropDuplicatesWithinWatermark(["k"]))
    assert made.retention.delay_ms == 60_000


def test_the_event_time_goes_on_behind_it(rows: MixedFrame) -> None:
    """With nothing older than what has fired; where the column is gone, so is the watermark."""
    behind = rows.dropDuplicates(["k", "ts"])._watermark
    assert behind is not None and (behind.event_time, behind.delay_ms) == ("ts", 0)
    assert rows.select("k").distinct()._watermark is None
    assert "__event_time" not in rows.select("k").dropDuplicatesWithinWatermark().columns


def test_several_event_times_among_the_keys_are_refused_as_in_spark(rows: MixedFrame, history: DataFrame) -> None:
    """But not in its compatibility mode, of a history alone, or where only one of them is a key."""
    twice = rows.withColumn("again", F.col("ts")).drop("tags")
    message = "distinct: more than one event time column is available, ts and again"
    with pytest.raises(PlanError, match=message):
        twice.distinct()
    assert operator(twice.dropDuplicates(["k", "again"])).keys == ("k", "again")
    alone = read(history=history).withWatermark("ts", "1 hour").withColumn("again", F.col("ts")).drop("tags")
    assert operator(alone.distinct()).keys == ("k", "v", "x", "ts", "again")
    with session_options(history.sparkSession, {COMPATIBLE: "false"}):
        assert operator(twice.distinct()).retention == Retention("key-time", "ts", 3)


def test_structs_with_two_fields_of_one_name_are_kept_under_other_names(rows: MixedFrame) -> None:
    """Users see Spark's names."""
    found = rows.withColumn("s", F.struct("k", "k")).select("s", "ts").distinct()
    assert operator(found).output_schema["s"].dataType.names == ["k", "k_2"]  # type: ignore[attr-defined]
    assert found.schema["s"].dataType.names == ["k", "k"]  # type: ignore[attr-defined]
    behind = found._watermark
    assert behind is not None and behind.event_time == "ts"


@pytest.mark.parametrize("method", ["dropDuplicates", "dropDuplicatesWithinWatermark"])
def test_arguments_are_refused_where_pyspark_does(rows: MixedFrame, history: DataFrame, method: str) -> None:
    """A name alone, something else than names; and a column that is not there, by its likely name."""
    for wrong, names in (("k", r"list or tuple.*'k'.*\['k'\]"), (3, "list or tuple.*3"), ([F.col("k")], "names")):
        with pytest.raises(PySparkTypeError):
            getattr(history, method)(wrong)
        with pytest.raises(PlanError, match=f"{names}"):
            getattr(rows, method)(wrong)
    with pytest.raises(PlanError, match=f"column of {method} kk does not exist; did you mean k"):
        getattr(rows, method)(["kk"])
    with pytest.raises(PlanError, match="tags is of type map<string,int>, which cannot be a key"):
        getattr(rows, method)()


def test_a_delay_needs_a_watermark(both: MixedFrame) -> None:
    """As in Spark."""
    with pytest.raises(PlanError, match=r"not supported without a watermark.*withWatermark"):
        both.dropDuplicatesWithinWatermark(["k"])


def test_state_without_end_is_warned_of_and_max_watermark_and_complete_are_refused(
    rows: MixedFrame, both: MixedFrame
) -> None:
    """The warning says what to do; explain() has it, and what is kept; update is as good as append."""

    def plan(frame: MixedFrame, mode: str = "append", **options: Any) -> Any:
        writer = frame.writeStream.format("memory").queryName("t").outputMode(mode)
        return writer.options(**options).plan()

    grows = plan(both.dropDuplicates(["k"]))
    assert len(grows.warnings) == 1
    assert "dropDuplicates by k remembers every key for ever" in grows.warnings[0]
    assert "call withWatermark first" in grows.warnings[0]
    assert "remembers every key" in grows.explain() and "kept for ever" in grows.explain()
    assert "have the watermark's column ts among these" in plan(rows.dropDuplicates(["k"])).warnings[0]
    ends = plan(rows.dropDuplicates(["k", "ts"]), "update")
    assert ends.warnings == () and ends.stages[0].final_watermark == "observed"
    assert "kept until the watermark reaches ts" in ends.explain()
    assert "in-order" in plan(rows.dropDuplicatesWithinWatermark(["k"])).explain()
    with pytest.raises(OptionError, match=r"max.*does not go with a deduplication.*put out once more.*observed"):
        plan(rows.dropDuplicates(["k", "ts"]), **{"execution.backlog.final-watermark": "max"})
    with pytest.raises(PlanError, match="complete is not supported after dropDuplicates, as in Spark"):
        plan(rows.dropDuplicates(["k", "ts"]), "complete")
