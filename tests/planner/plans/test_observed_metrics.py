"""``observe`` as it is planned: where a call's rows count, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.spec import JobSpec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F


def job_of(frame: Any, **options: str) -> JobSpec:
    writer = frame.writeStream.format("noop").outputMode("append")
    for name, value in options.items():
        writer = writer.option(f"execution.{name}", value)
    return writer.described()


def seen(frame: Any, name: str = "rows") -> Any:
    return frame.observe(name, F.count("*").alias("n"))


def test_a_call_counts_where_its_rows_come_first(both: MixedFrame) -> None:
    """Of two stages that read the same rows, one; on two ways into one stage, one; nobody sees other columns."""
    rows = seen(both.withWatermark("ts", "1 hour"))
    assert rows.dtypes == both.dtypes
    one, other = rows.dropDuplicates(["k", "ts"]), rows.where("v > 0").dropDuplicates(["k", "ts"])
    met = seen(one.select("k", "ts").union(other.select("k", "ts")), "met").dropDuplicates(["k", "ts"])
    job = job_of(seen(met, "out"))
    assert [[metrics.name for metrics in stage.observed] for stage in job.stages] == [["rows"], [], ["met"]]
    assert job.output_transform is not None
    assert [metrics.name for metrics in job.observed] == ["rows", "met", "out"]
    twice = job_of(rows.where("v > 1").union(rows.where("v < 1")).dropDuplicates(["ts"]))
    assert [metrics.name for metrics in twice.observed] == ["rows"]
    assert len(twice.lanes) == 2


def test_what_cannot_be_observed_is_refused(both: MixedFrame, history: DataFrame) -> None:
    """With what to do instead; what Spark refuses is Spark's own error."""
    observe: Any = both.observe
    for refused, said in (
        (lambda: observe(Observation("o"), F.count("*")), "an Observation.*one action.*give a name.*lastProgress"),
        (lambda: observe("", F.count("*")), r"observe\(''\) is no name; use for example"),
        (lambda: observe(7, F.count("*")), r"observe\(7\) is no name"),
        (lambda: observe("o"), r"observe\('o'\) takes aggregates such as .*, got none"),
        (lambda: observe("o", "v"), r"takes aggregates such as .*, got 'v'"),
        (lambda: seen(both.groupBy("k").count().orderBy("k")), "observe comes after orderBy"),
        (
            lambda: job_of(seen(seen(both).withWatermark("ts", "1 hour")).dropDuplicates(["ts"])),
            "two calls of observe.* have the name 'rows'.*give each a name of its own",
        ),
        (
            lambda: job_of(
                seen(both.union(both.dropDuplicates(["k"])).withWatermark("ts", "1 hour")).dropDuplicates(["ts"])
            ),
            r"observe\('rows'\) sees rows of sources together with.*call it on each side before their union",
        ),
        (
            lambda: job_of(seen(read(history=history)).where(history["v"] > 0).dropDuplicates(["k"])),
            "works only on the frame that it was written for.*behind observe",
        ),
    ):
        with pytest.raises(PlanError, match=said):
            refused()
    for wrong in (F.col("v"), F.sum("nope"), F.count_distinct("v")):
        with pytest.raises(AnalysisException):
            both.observe("o", wrong)


def test_a_history_is_cut_before_it_is_observed(both: MixedFrame, live: DataFrame) -> None:
    """Streaming mode: by the column that becomes the event time; where it is computed later, there is nothing to cut
    by yet.  Without a history there is nothing to cut."""
    mode = {"runtime-mode": "streaming"}

    def observed(rows: MixedFrame, event_time: Any) -> Any:
        renamed = seen(rows.where("v > 0")).withColumn("at", event_time).withWatermark("at", "1 hour")
        return renamed.dropDuplicates(["at"])

    (read_,) = job_of(observed(both, F.col("ts")), **mode).stages[0].reads
    assert (read_.event_time, [step.what for step in read_.steps][:2]) == ("ts", ["observe", "withColumn"])
    later = F.try_to_timestamp(F.col("k"))
    with pytest.raises(PlanError, match=r"observe\('rows'\) sees rows of a history that have no event time yet.*call"):
        job_of(observed(both, later), **mode)
    assert job_of(observed(both, later)).observed
    assert job_of(observed(read(live=live), later), **mode).observed
