"""A job from Kafka to Kafka with trigger(realTime=…): its plan, its fallback, and what is refused with a real topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker
from mixedmode import ExecutionPlan, OptionError, PlanError, SetupError, read
from mixedmode.planner.frames import writer as writer_module
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.plans.real_time import real_time_plan
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from session_options import session_options

WAIT = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"


class Last(StatefulProcessor):
    """Gives each value under its key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(key=key[0], value=row.value)


@pytest.fixture
def topic(kafka: Broker) -> str:
    return kafka.create("real", 2)


@pytest.fixture
def fitting(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An application that was started for Real-Time Mode, with five slots."""
    settings = {WAIT: "5"}
    monkeypatch.setattr(real_time_plan, "application_setting", lambda _, name: settings.get(name))
    monkeypatch.setattr(real_time_plan, "task_slots", lambda _: 5)
    return settings


def messages(spark: SparkSession, kafka: Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    return rows.selectExpr("CAST(key AS string) AS key", "CAST(value AS string) AS value")


@pytest.fixture(autouse=True)
def location(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Where checkpoints of all jobs would be."""
    with session_options(spark, {"spark.sql.streaming.checkpointLocation": str(tmp_path / "jobs")}):
        yield


def writer_of(frame: Any, kafka: Broker, **options: str) -> MixedStreamWriter:
    processed = frame.groupBy("key").transformWithState(Last(), "key string, value string", "update", "none")
    writer: MixedStreamWriter = processed.writeStream.format("kafka").outputMode("update").queryName("answers")
    writer.option("kafka.bootstrap.servers", kafka.bootstrap).option("topic", "answers")
    return writer.options(**{"pipeline.parallelism": "2", **options}).trigger(realTime="60 seconds")


@pytest.mark.usefixtures("fitting")
def test_the_plan_says_what_the_phase_promises(spark: SparkSession, kafka: Broker, topic: str) -> None:
    plan = writer_of(read(live=messages(spark, kafka, topic)), kafka).plan()
    phase = plan.phases[-1]
    assert (phase.kind, phase.real_time_ms, plan.fallback) == ("live", 60_000, None)
    assert plan.trigger == {"realTime": "60 seconds"}
    assert plan.sink.guarantee == "at-least-once"
    text = " ".join(str(plan).split())
    for said in (
        "exactly once: an epoch changes it as a whole, or not at all",
        "sent at once, and at least once",
        "mixedmode.run, mixedmode.since, mixedmode.epoch, mixedmode.shard, mixedmode.sequence",
        "read_committed needs micro-batches",
        "one at each epoch's end, every 1 min",
        "5 of 5: 2 for the source's partitions, 2 for the shards, 1 to spare",
    ):
        assert said in text
    assert ExecutionPlan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.usefixtures("fitting")
def test_too_few_slots_are_refused_or_fall_back(
    spark: SparkSession,
    kafka: Broker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the numbers; and a fallback is said in the plan and logged by each start, also of a job that goes on."""
    jobs: list[JobSpec] = []
    monkeypatch.setattr(writer_module, "start_query", jobs.append)
    monkeypatch.setattr(writer_module, "has_checkpoint", lambda _: True)
    rows = read(live=messages(spark, kafka, topic))
    with pytest.raises(SetupError, match=r"needs 6 task slots and the application has 5 \(2 partitions"):
        writer_of(rows, kafka, **{"pipeline.parallelism": "3"}).plan()

    options = {"pipeline.parallelism": "3", "execution.realtime.fallback": "micro-batch"}
    with caplog.at_level(logging.WARNING, "mixedmode"):
        writer_of(
            rows,
            kafka,
            **options,
        ).start()
    (job,) = jobs
    assert job.trigger == {"processingTime": "0 seconds"}
    assert job.phases[-1].real_time_ms is None
    assert "needs 6 task slots and the application has 5" in caplog.text
    assert "query answers" in caplog.text
    assert "the live phase runs as micro-batches" in " ".join(job.explain(False).split())


@pytest.mark.usefixtures("fitting")
def test_the_shards_of_a_job_that_goes_on_are_those_of_its_checkpoint(
    spark: SparkSession, kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(real_time_plan, "stored_shards", {str(tmp_path): 7}.get)
    writer = writer_of(read(live=messages(spark, kafka, topic)), kafka, checkpointLocation=str(tmp_path))
    assert writer.plan().phases[-1].real_time_ms == 60_000  # the option says 2
    with pytest.raises(SetupError, match="7 shards"):
        writer.option("pipeline.parallelism", None).plan()


def test_missing_settings_are_refused(spark: SparkSession, kafka: Broker, topic: str, fitting: dict[str, str]) -> None:
    fitting.clear()
    with pytest.raises(SetupError, match=rf"spark-submit --conf {WAIT}=5"):
        writer_of(read(live=messages(spark, kafka, topic)), kafka).plan()


@pytest.mark.usefixtures("fitting")
def test_a_compacted_topic_is_refused(spark: SparkSession, kafka: Broker) -> None:
    topic = kafka.create("compacted", **{"cleanup.policy": "compact"})
    with pytest.raises(PlanError, match=rf"topic '{topic}' is compacted .*processingTime") as caught:
        writer_of(read(live=messages(spark, kafka, topic)), kafka).plan()
    assert caught.value.code == "MIXEDMODE_REAL_TIME_TOPIC"


@pytest.mark.usefixtures("fitting")
def test_the_job_is_looked_at_as_it_is_described(
    spark: SparkSession, kafka: Broker, topic: str, live: DataFrame
) -> None:
    """Facts of real jobs, for each refusal that needs one."""
    rows = read(live=messages(spark, kafka, topic))
    other = kafka.create("other")

    def refused(writer: MixedStreamWriter, text: str) -> None:
        with pytest.raises(PlanError, match=text):
            writer.plan()

    both = rows.union(read(live={"second": messages(spark, kafka, other)}))
    refused(writer_of(both, kafka), r"the job has 2 \(live-1, second\)")
    united = read(live=messages(spark, kafka, topic).union(messages(spark, kafka, other)))
    refused(writer_of(united, kafka), r"the job has 2 \(live, live\)")
    refused(writer_of(read(live=messages(spark, kafka, f"{topic},{other}")), kafka), "Subscribe to one topic")
    files = read(live=live.selectExpr("k AS key", "CAST(v AS string) AS value"))
    refused(writer_of(files, kafka), "live is filesource")
    refused(writer_of(rows.observe("seen", F.count("*")), kafka), "does not observe rows")
    refused(writer_of(rows, kafka).foreach(print), "the output is foreachBatch")
    refused(writer_of(rows, kafka).outputMode("append"), "got 'append'")
    bounded = read(history=spark.createDataFrame([("a", "b")], "key string, value string"))
    refused(writer_of(bounded, kafka), "the job has none")
    for option, value in (
        ("execution.sink.delivery-guarantee", "exactly-once"),
        ("execution.sink.order-column", "nr"),
        ("pipeline.backlog.watermark-lag-threshold", "1 hour"),
    ):
        with pytest.raises(OptionError, match=rf"{option}.* does not go with trigger\(realTime"):
            writer_of(rows, kafka, **{option: value}).plan()


@pytest.mark.usefixtures("fitting")
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (lambda rows: rows.where(F.udf(len, "int")("value") > 3), "its rows go through a Python function in filter"),
        (lambda rows: rows.withColumn("value", F.explode(F.split("value", ","))), "its rows go through Generate"),
    ],
)
def test_operations_that_do_not_keep_each_message_are_refused(
    spark: SparkSession, kafka: Broker, topic: str, before: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(PlanError, match=rf"{said}.*Do it in the processor") as caught:
        writer_of(before(read(live=messages(spark, kafka, topic))), kafka).plan()
    assert caught.value.code == "MIXEDMODE_NOT_SUPPORTED"


@pytest.mark.usefixtures("fitting")
def test_operations_on_columns_are_taken(spark: SparkSession, kafka: Broker, topic: str) -> None:
    rows = read(live=messages(spark, kafka, topic).withColumn("value", F.upper("value")).dropna())
    filtered = rows.withColumn("more", F.length("value")).where("more > 3")
    assert writer_of(filtered, kafka).plan().phases[-1].real_time_ms == 60_000


def around(frame: Any, kafka: Broker) -> MixedStreamWriter:
    """A job with an aggregate and what is around it."""
    writer: MixedStreamWriter = frame.writeStream.format("kafka").outputMode("update").queryName("totals")
    writer.option("kafka.bootstrap.servers", kafka.bootstrap).option("topic", "totals")
    return writer.option("pipeline.parallelism", "2").trigger(realTime="60 seconds")


@pytest.mark.usefixtures("fitting")
def test_an_aggregate_is_taken_with_what_is_around_it(spark: SparkSession, kafka: Broker, topic: str) -> None:
    """Fields of a struct, expressions as keys and arguments, filters on both sides, and JSON."""
    rows = read(live=messages(spark, kafka, topic))
    parsed = rows.withColumn("d", F.from_json("value", "amount decimal(10,2), user struct<name string>")).where(
        "key > 'a'"
    )
    name = F.upper(F.col("d.user.name")).alias("name")
    totals = parsed.groupBy(name).agg(
        F.count("*").alias("n"),
        F.sum("d.amount").alias("s"),
        F.sum(F.get_json_object("value", "$.x").cast("int")).alias("x"),
        (F.sum("d.amount") / F.count("*")).alias("mean"),
    )
    sent = totals.where("n > 1").select(F.col("name").alias("key"), F.to_json(F.struct("*")).alias("value"))
    assert around(sent, kafka).plan().phases[-1].real_time_ms == 60_000
    text = totals.select(
        F.concat_ws("|", "name", F.col("n").cast("string"), F.round("mean", 1).cast("string")).alias("value")
    )
    assert around(text, kafka).plan().tail == ("select",)


@pytest.mark.usefixtures("fitting")
@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (lambda rows: rows.selectExpr("key", "upper(key) AS value"), r"upper\(key\) is not known to be Spark's"),
        (lambda rows: rows.selectExpr("key", "hex(n) AS value"), r"hex\(n\) is a Hex"),
        (lambda rows: rows.select("key", F.udf(str, "string")("n").alias("value")), "is a PythonUDF"),
        (lambda rows: rows.select(F.explode(F.array("key")).alias("value")), "the rows go through Generate"),
    ],
)
def test_what_only_spark_computes_behind_the_stage_is_refused(
    spark: SparkSession, kafka: Broker, topic: str, behind: Callable[[Any], Any], said: str
) -> None:
    totals = read(live=messages(spark, kafka, topic)).groupBy("key").agg(F.count("*").alias("n"))
    with pytest.raises(PlanError, match=rf"{said}.*Compute it before the keyed stage") as caught:
        around(behind(totals), kafka).plan()
    assert caught.value.code == "MIXEDMODE_NOT_SUPPORTED"
