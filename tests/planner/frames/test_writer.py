"""writeStream: what is taken, what is refused, and that plan() and start() are one decision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mixedmode import ExecutionPlan, OptionError, PlanError, read
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.runtime.spec import JobSpec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from session_options import session_options


class Counter(StatefulProcessor):
    """Counts rows per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=sum(1 for _ in rows))


def writer_of(frame: MixedFrame, *, mode: str = "append", times: str = "none") -> MixedStreamWriter:
    """A writer of a counting job, to format noop."""
    counted = frame.groupBy("k").transformWithState(Counter(), "k string, n long", mode, times)
    return counted.writeStream.format("noop")


def test_the_last_of_format_and_functions_takes_the_rows(both: MixedFrame) -> None:
    """As in stock; options of a format that is named before a function have no effect, and the plan says so."""

    def take(rows: DataFrame, number: int) -> None:
        pass

    writer = writer_of(both).format("kafka").option("topic", "t").option("kafka.bootstrap.servers", "b:1")
    plan = writer.foreachBatch(take).plan()
    assert plan.sink.name == "foreachBatch"
    said = "no effect: topic, kafka.bootstrap.servers, as a function takes the rows in place of format kafka"
    assert any(said in warning for warning in plan.warnings)
    assert said in " ".join(plan.explain().split())
    assert writer.foreach(print).plan().sink.name == "foreach"
    console = writer_of(both).foreachBatch(take).format("console").plan()
    assert (console.sink.name, console.sink.warning) == ("console", None)
    bare = both.groupBy("k").count().writeStream.outputMode("update").foreachBatch(take).option("header", "true")
    with pytest.raises(OptionError, match="foreachBatch does not know the option"):
        bare.plan()


def test_start_runs_the_phases_that_plan_shows(both: MixedFrame, started: list[JobSpec]) -> None:
    """The job gets the plan's phases, settings and explain text; nothing is decided twice."""
    writer = writer_of(both.withWatermark("ts", "1 hour"), times="eventTime").queryName("counts")
    writer.option("execution.backlog.final-watermark", "observed").trigger(availableNow=True)

    plan = writer.plan()
    writer.start()

    (job,) = started
    assert [phase.kind for phase in plan.phases] == ["backlog", "switch"]
    assert job.phases == plan.phases
    assert job.settings == plan.settings
    assert job.settings.final_watermark == "observed"
    assert (job.name, job.last_stage.event_time, job.last_stage.watermark_delay_ms) == ("counts", "ts", 3_600_000)
    assert job.trigger == {"availableNow": True}
    assert job.checkpoint_location is None
    assert job.explain(False) == str(plan)
    assert job.explain(True) == plan.explain(extended=True)
    assert writer.plan() == plan


def test_a_plan_starts_and_writes_nothing(both: MixedFrame, started: list[JobSpec], tmp_path: Path) -> None:
    """plan() is free of effects: no job, no folder."""
    writer = writer_of(both).format("parquet")
    writer.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "ck"))

    plan = writer.plan()

    assert started == []
    assert list(tmp_path.iterdir()) == []
    assert plan.checkpoint_location == str(tmp_path / "ck")
    assert plan.sink.guarantee == "exactly-once"


def test_the_plan_of_a_real_job_survives_json(both: MixedFrame) -> None:
    """With Spark's plans of the inputs and the operator's own description in it."""
    plan = writer_of(both.withWatermark("ts", "1 hour"), times="eventTime").queryName("counts").plan()

    assert ExecutionPlan.model_validate_json(plan.model_dump_json()) == plan
    assert [source.boundedness for source in plan.sources] == ["bounded", "unbounded"]
    assert "Physical Plan" in plan.explain(extended=True)
    assert "processor Counter" in " ".join(str(plan).split())
    assert "straddle the switch" in " ".join(str(plan).split())


def test_start_takes_what_the_methods_take(both: MixedFrame, started: list[JobSpec], tmp_path: Path) -> None:
    """``start(path, format, …, **options)`` as in PySpark."""
    writer_of(both).start(
        str(tmp_path / "out"),
        format="parquet",
        outputMode="append",
        queryName="counts",
        checkpointLocation=str(tmp_path / "ck"),
    )

    (job,) = started
    assert job.name == "counts"
    assert job.checkpoint_location == str(tmp_path / "ck")
    assert str(tmp_path / "out") in job.sink.describe()


def test_a_job_of_history_alone_finishes(history: DataFrame) -> None:
    """Without a live source the plan ends with the input."""
    plan = writer_of(read(history=history)).plan()

    assert [phase.kind for phase in plan.phases] == ["backlog", "finish"]
    assert [source.name for source in plan.sources] == ["history"]


@pytest.mark.parametrize("written", ["append", "update", "complete", None])
@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_the_writers_mode_is_free_of_the_processors_as_in_stock(
    spark: SparkSession, both: MixedFrame, live: DataFrame, mode: str, written: str | None
) -> None:
    """Every pair that stock takes is taken; a writer that says nothing appends."""
    jvm: Any = spark._jvm
    stock = live.groupBy("k").transformWithState(Counter(), "k string, n long", mode, "none")
    stock_mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, (written or "append").capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    writer = writer_of(both, mode=mode) if written is None else writer_of(both, mode=mode).outputMode(written.upper())

    if written == "complete":
        with pytest.raises(AnalysisException, match="complete"):
            checker.checkForStreaming(stock._jdf.queryExecution().analyzed(), stock_mode)
        with pytest.raises(PlanError, match="complete of the writer is not supported after transformWithState"):
            writer.plan()
    else:
        checker.checkForStreaming(stock._jdf.queryExecution().analyzed(), stock_mode)
        assert writer.plan().output_mode == (written or mode)


def test_files_are_append_only(both: MixedFrame) -> None:
    """As in Spark: a changed row could not replace the one in a file; what a processor yields are new rows."""
    writer = writer_of(both, mode="update").format("parquet").option("path", "out").option("checkpointLocation", "ck")

    assert writer.plan().sink.name == "parquet"
    with pytest.raises(PlanError, match="format parquet supports outputMode append only, got update"):
        writer.outputMode("update").plan()


def test_an_output_that_lasts_needs_a_checkpoint_location(both: MixedFrame) -> None:
    """parquet outlives the query, so its position must too; functions do without, as in stock Spark."""
    writer = writer_of(both).format("parquet").option("path", "out")
    with pytest.raises(OptionError, match=r"checkpointLocation is not set, .* of parquet"):
        writer.plan()
    assert writer.option("CHECKPOINTLOCATION", "ck").plan().checkpoint_location == "ck"
    for function in (writer_of(both).foreachBatch(lambda rows, number: None), writer_of(both).foreach(print)):
        assert "a temporary folder, removed at the end" in function.plan().explain()
        assert function.option("checkpointLocation", "ck").plan().checkpoint_location == "ck"


def test_options_of_the_console_are_no_harm_elsewhere(both: MixedFrame) -> None:
    """As in stock Spark: a job that was tried with the console keeps ``truncate`` and ``numRows``."""
    sinks = (
        writer_of(both).format("parquet").option("path", "out"),
        writer_of(both).format("noop"),
        writer_of(both).format("memory").queryName("kept"),
        writer_of(both).foreachBatch(lambda rows, number: None),
    )
    for writer in sinks:
        writer.option("truncate", "80").option("NUMROWS", 5).option("checkpointLocation", "ck").plan()


def test_foreach_takes_a_function_or_an_object_with_process(both: MixedFrame) -> None:
    """The plan says which guarantee it has, which is not that of foreachBatch."""

    class Rows:
        process = staticmethod(print)

    for writer in (writer_of(both).foreach(print), writer_of(both).foreach(Rows())):
        assert writer.plan().sink.name == "foreach" and writer.plan().sink.guarantee == "at-least-once"
        with pytest.raises(OptionError, match=r"exactly-once.*foreach gives at-least-once"):
            writer.option("sink.delivery-guarantee", "exactly-once").plan()


def test_an_option_that_may_be_meant_for_the_checkpoint_location(both: MixedFrame) -> None:
    """It is asked for where the location is missing; with one, it is the format's own option."""
    writer = writer_of(both).format("json").option("path", "out").option("checkpointDir", "ck")

    with pytest.raises(OptionError, match=r"is not set \(is that what checkpointDir = 'ck' is for\?\), and the output"):
        writer.plan()
    assert writer.option("checkpointLocation", "ck").plan().checkpoint_location == "ck"


def test_the_name_of_an_option_is_a_text(both: MixedFrame) -> None:
    """As in PySpark, except that the error says so."""
    for key in (3, " "):
        with pytest.raises(OptionError, match="name of an option must be a non-empty string, got "):
            writer_of(both).option(key, "x")  # type: ignore[arg-type]


def test_the_sessions_checkpoint_location_needs_a_query_name(both: MixedFrame, spark: SparkSession) -> None:
    """``spark.sql.streaming.checkpointLocation`` is a parent folder, as in Spark."""
    with session_options(spark, {"spark.sql.streaming.checkpointLocation": "/checkpoints/"}):
        writer = writer_of(both).format("parquet").option("path", "out")
        with pytest.raises(OptionError, match="together with queryName"):
            writer.plan()
        assert writer.queryName("q").plan().checkpoint_location == "/checkpoints/q"


@pytest.mark.parametrize("format", ["memory", "console", "noop"])
def test_passing_outputs_need_no_checkpoint_location(both: MixedFrame, format: str) -> None:
    """Their checkpoints live in a temporary folder, as in Spark."""
    assert writer_of(both).format(format).queryName("q").plan().checkpoint_location is None


def test_the_format_defaults_to_the_sessions(both: MixedFrame) -> None:
    """parquet, unless ``spark.sql.sources.default`` says otherwise."""
    counted = both.groupBy("k").transformWithState(Counter(), "k string, n long", "append", "none")

    plan = counted.writeStream.option("path", "out").option("checkpointLocation", "ck").plan()

    assert plan.sink.name == "parquet"


def test_an_unknown_format_is_refused(both: MixedFrame) -> None:
    """The error lists the formats there are."""
    with pytest.raises(OptionError, match="format 'papyrus' is not supported; use one of parquet"):
        writer_of(both).format("papyrus").option("checkpointLocation", "ck").plan()


def lasting(frame: MixedFrame) -> MixedStreamWriter:
    return writer_of(frame).option("checkpointLocation", "ck")


def test_formats_that_spark_writes_are_at_least_once(both: MixedFrame) -> None:
    """They are appended to when a checkpoint completes, and explain() says what a reader may rely on."""
    plan = lasting(both).format("csv").option("path", "out").option("header", "true").plan()

    assert (plan.sink.name, plan.sink.guarantee) == ("csv", "at-least-once")
    assert "csv in out: at-least-once" in " ".join(str(plan).split())


def test_a_transactional_format_is_exactly_once(both: MixedFrame) -> None:
    """If the user says that the format skips what it has seen, the plan says exactly-once."""
    writer = lasting(both).format("json").option("path", "out").option("execution.sink.transactional", "true")

    assert writer.plan().sink.guarantee == "exactly-once"
    with pytest.raises(OptionError, match="option txnAppId = 'mine' is set by the job itself"):
        writer.option("txnAppId", "mine").plan()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda writer: writer.format("csv"), 'format "csv" needs a path'),
        (lambda writer: writer.format("csv").option("path", "out").partitionBy("day"), "partitionBy names day"),
        (lambda writer: writer.format("parquet").option("path", "out").partitionBy("day"), "partitionBy names day"),
        (lambda writer: writer.format("noop").partitionBy("k"), "noop does not support partitionBy"),
        (lambda writer: writer.format("noop").option("header", "true"), "noop does not know the option header"),
    ],
)
def test_an_output_that_cannot_be_is_refused_by_the_plan(both: MixedFrame, change: Any, problem: str) -> None:
    """Before a long backlog has been worked through for nothing."""
    with pytest.raises(OptionError, match=problem):
        change(lasting(both)).plan()


def test_a_table_is_an_output(both: MixedFrame, started: list[JobSpec], spark: SparkSession) -> None:
    """toTable takes the format of the table that is there, the session's default for a new one, or the one given."""
    spark.sql("CREATE TABLE counted_before (k string, n long) USING orc")
    try:
        lasting(both).toTable("counted_new", format="json", partitionBy="k", queryName="q")
        counted = both.groupBy("k").transformWithState(Counter(), "k string, n long", "append", "none")
        unformatted = counted.writeStream.option("checkpointLocation", "ck")
        unformatted.toTable("counted_before")
        unformatted.toTable("counted_new")
    finally:
        spark.sql("DROP TABLE counted_before")
    assert [job.sink.describe().split(":")[0] for job in started] == [
        "json in table counted_new",
        "orc in table counted_before",
        "parquet in table counted_new",
    ]
    assert started[0].name == "q"
    with pytest.raises(OptionError, match="noop has no tables"):
        lasting(both).toTable("t")


@pytest.mark.parametrize("look", [lambda f: f.show(), lambda f: f.toPandas()])
def test_a_frame_says_how_to_look_at_its_rows(both: MixedFrame, look: Any) -> None:
    """Actions of a batch DataFrame are refused with the way to run the job."""
    with pytest.raises(PlanError, match=r"nothing runs before writeStream\.start\(\); use .*format\('memory'\)"):
        look(both.groupBy("k").count())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "exactly one of its arguments, got none"),
        ({"once": True, "availableNow": True}, "exactly one of its arguments, got once, availableNow"),
        ({"continuous": "1 second"}, r"trigger\(continuous=…\) is not supported"),
        ({"realTime": " "}, "give a duration such as"),
        ({"availableNow": False}, "availableNow can only be True"),
        ({"once": "yes"}, "once can only be True"),
        ({"processingTime": " "}, "give a duration such as"),
        ({"processingTime": 5}, "give a duration such as"),
    ],
)
def test_a_bad_trigger_is_refused(both: MixedFrame, arguments: dict[str, Any], problem: str) -> None:
    """As PySpark refuses it."""
    with pytest.raises(PlanError, match=problem):
        writer_of(both).trigger(**arguments)


@pytest.mark.parametrize(
    ("interval", "problem"), [("often", "'often'\\) is not a duration"), ("-1 second", "is negative")]
)
def test_a_bad_trigger_interval_is_refused(both: MixedFrame, interval: str, problem: str) -> None:
    """It is read as Spark reads it."""
    with pytest.raises(PlanError, match=problem):
        writer_of(both).trigger(processingTime=interval).plan()


def test_limits_of_the_source_hold_in_the_backlog_of_a_job_without_state(
    history: DataFrame, live: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    """Unless it is to end after one micro-batch, or an option says otherwise; a job with state lifts them."""

    def limits(frame: MixedFrame, *, once: bool = False, **options: str) -> str:
        writer = frame.writeStream.format("noop").outputMode("update").options(**options)
        return (writer.trigger(once=True) if once else writer).plan().settings.backlog_limits

    limited = spark.readStream.schema(live.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    both, lifted = read(history=history, live=limited), {"execution.backlog.limits": "lifted"}
    rows = both.select("k")
    assert (limits(rows), limits(rows, once=True), limits(rows, **lifted)) == ("source", "lifted", "lifted")
    assert limits(both.groupBy("k").count()) == limits(read(history=history, live=live).select("k")) == "lifted"
    phases = rows.writeStream.format("noop").plan().phases
    assert [phase.kind for phase in phases] == ["history", "catch-up", "switch", "live"]
    assert phases[1].reason.startswith("there is no state, and the live source limits its micro-batches")


@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}])
def test_a_trigger_that_ends_has_no_live_phase(both: MixedFrame, trigger: dict[str, Any]) -> None:
    """The job ends at the switch and goes on from there next time."""
    assert [phase.kind for phase in writer_of(both).trigger(**trigger).plan().phases] == ["backlog", "switch"]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda writer: writer.partitionBy("k", 3), "partitionBy takes names of columns, got 3"),
        (lambda writer: writer.clusterBy("k"), "clusterBy is not supported"),
        (lambda writer: writer.foreach("f"), "foreach needs a function of a row, .* got 'f', which has no method pro"),
        (lambda writer: writer.toTable(" "), "toTable needs the name of a table"),
        (lambda writer: writer.foreachBatch("f"), "foreachBatch needs a function"),
        (lambda writer: writer.queryName(" "), "queryName must be a non-empty string"),
        (lambda writer: writer.outputMode("replace"), "outputMode is 'replace'"),
        (lambda writer: writer.format(3), "format must be a non-empty string, got 3"),
    ],
)
def test_what_is_not_there_is_refused(both: MixedFrame, call: Any, problem: str) -> None:
    """Each with what to use, or what is allowed."""
    with pytest.raises(PlanError, match=problem):
        call(writer_of(both))


def test_options_come_from_the_session_the_file_and_the_writer(
    both: MixedFrame, spark: SparkSession, tmp_path: Path
) -> None:
    """The nearer wins, in whatever order they are set."""
    file = tmp_path / "job.toml"
    file.write_text('[execution.checkpointing]\ninterval = "2 s"\nmin-pause = "3 s"\n')
    with session_options(
        spark,
        {
            "spark.mixedmode.execution.checkpointing.interval": "1 s",
            "spark.mixedmode.state.checkpoints.num-retained": "9",
        },
    ):
        writer = writer_of(both).option("execution.checkpointing.min-pause", "4 s").optionsFile(file)
        settings = writer.plan().settings

    assert settings.checkpoint_interval_ms == 2_000
    assert settings.checkpoint_min_pause_ms == 4_000
    assert settings.retained_checkpoints == 9


def test_an_unknown_option_is_refused_by_plan_and_start(both: MixedFrame, started: list[JobSpec]) -> None:
    """Before anything has started."""
    writer = writer_of(both).option("execution.runtime-mod", "batch")

    with pytest.raises(OptionError, match=r"did you mean execution\.runtime-mode\?"):
        writer.plan()
    with pytest.raises(OptionError, match=r"did you mean execution\.runtime-mode\?"):
        writer.start()
    assert started == []


def test_an_option_may_be_set_again_or_taken_back(both: MixedFrame) -> None:
    """The last one wins, whatever the case of its name; None is the default again."""
    writer = writer_of(both).option("pipeline.parallelism", 3).option("Pipeline.Parallelism", 5)

    assert writer.plan().parallelism == 5
    assert writer.options(**{"pipeline.parallelism": None}).plan().settings.parallelism is None


def test_shards_default_to_sparks_parallelism_within_the_key_groups(both: MixedFrame, spark: SparkSession) -> None:
    """No more shards than key groups."""
    assert writer_of(both).plan().parallelism == spark.sparkContext.defaultParallelism
    assert writer_of(both).option("pipeline.max-parallelism", 1).plan().parallelism == 1


def test_explain_prints_the_plan(both: MixedFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """The writer's explain() is the plan's."""
    writer = writer_of(both)

    writer.explain()

    assert capsys.readouterr().out == str(writer.plan()) + "\n"
