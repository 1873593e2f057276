"""Rows of which few have the same key are shuffled as they are and aggregated once, with the results of plain Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.catalyst.spark_cluster import JobTasks, JobWork
from mixedmode.runtime.catalyst.spark_plans import executed_text
from mixedmode.runtime.jobs import rows_as_they_are, stage_jobs
from mixedmode.runtime.jobs.rows_as_they_are import key_sample
from mixedmode.runtime.jobs.shuffle import HashExchange
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options
from spark_backlog import ours, plain

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS = 3_000


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows of files: a number of their own, numbers that few share, texts, decimals, times, and nulls."""
    folder = str(tmp_path_factory.mktemp("rows") / "files")
    number = F.xxhash64("id")
    rows = spark.range(0, ROWS, 1, 3).select(
        number.alias("own"),
        F.when(F.col("id") % 11 > 0, F.pmod(number, F.lit(1_000))).alias("some"),
        F.concat(F.lit("ä"), F.pmod(number, F.lit(700))).alias("t"),
        (F.pmod(number, F.lit(90_000)) / 100).cast("decimal(9, 2)").alias("price"),
        (F.pmod(number, F.lit(50)) / 8).alias("d"),
        F.timestamp_seconds(F.lit(1_711_800_000) + F.col("id") * 97).alias("ts"),
        F.when(F.col("id") % 7 > 0, F.col("id")).alias("v"),
    )
    rows.write.parquet(folder)
    for seconds, path in enumerate(sorted(Path(folder).glob("*.parquet"))):  # files come in the order of their age
        os.utime(path, (1_711_800_000 + seconds, 1_711_800_000 + seconds))
    return spark.read.parquet(folder)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """Any files are large, and no keys repeat too often; has the plans that are kept, each with a setting."""
    found: list[tuple[str, str | None]] = []
    holds = HashExchange.holds

    def noted(exchange: HashExchange, job: DataFrame) -> bool:
        is_held = holds(exchange, job)
        if is_held:
            found.append((executed_text(job), job.sparkSession.conf.get(BYTES, None)))
        return is_held

    monkeypatch.setattr(HashExchange, "holds", noted)
    monkeypatch.setattr(stage_jobs, "is_small", lambda frame: False)
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    monkeypatch.setattr(rows_as_they_are, "MANY_ROWS", float("inf"))
    monkeypatch.setattr(rows_as_they_are, "MANY_ROWS_IN_WINDOWS", float("inf"))
    monkeypatch.setattr(rows_as_they_are, "MANY_ROWS_TO_SORT", float("inf"))
    return found


def aggregates() -> list[Any]:
    return [F.count("*").alias("n"), F.sum("v"), F.max("ts"), F.sum("price"), F.avg("price"), F.min("t")]


KEYS: dict[str, Callable[[], list[Any]]] = {
    "a number": lambda: ["own"],
    "numbers with nulls": lambda: ["some"],
    "texts and computed numbers": lambda: ["t", F.col("v") * 2],
    "decimals, booleans and dates": lambda: ["price", F.col("v") > 100, F.to_date("ts")],
    "windows": lambda: [F.window("ts", "10 minutes"), "some"],
}


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_aggregated_once_behind_the_shuffle(files: DataFrame, plans: Any, name: str) -> None:
    """The result is Spark's, and there is one aggregation in the plan, above the shuffle."""
    assert ours(files, KEYS[name](), aggregates()) == plain(files, KEYS[name](), aggregates())
    ((text, _),) = plans
    above, _, below = text.partition("Exchange")
    assert above.count("Aggregate(") == 1
    assert "Aggregate" not in below


OTHERS: dict[str, Callable[[], list[Any]]] = {
    "zeros with signs are one key": lambda: [F.when(F.col("v") % 2 == 0, F.lit(0.0)).otherwise(F.lit(-0.0))],
    "a row is in several windows": lambda: [F.window("ts", "10 minutes", "5 minutes"), "some"],
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_aggregated_before_the_shuffle_as_well(files: DataFrame, plans: Any, name: str) -> None:
    """Nothing is asked of them, and the result is Spark's."""
    assert ours(files, OTHERS[name](), aggregates()) == plain(files, OTHERS[name](), aggregates())
    assert all(text.partition("Exchange")[2].count("Aggregate") for text, _ in plans)


def operator(frame: DataFrame, key: Any) -> AggregateOperator:
    column = F.col(key) if isinstance(key, str) else key
    return plan_aggregate(frame, [column], [F.count("*")], event_time=None, output_mode="update", uid="agg")


def keys_hardly_repeat(operator: AggregateOperator, frame: DataFrame) -> bool:
    """What some rows say, if any are looked at."""
    sample = key_sample(operator, frame)
    return sample is not None and sample.hardly_repeat(operator)


def test_some_rows_say_whether_keys_repeat(files: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large files; a number that each row has for itself does not repeat, one that fifty rows share does."""
    own = operator(files, "own")
    assert not keys_hardly_repeat(own, files), "the files are small"
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    assert keys_hardly_repeat(own, files)
    assert not keys_hardly_repeat(operator(files, F.pmod("own", F.lit(20)).alias("k")), files)
    assert not keys_hardly_repeat(operator(files, "d"), files), "of floats two may be one key"


def test_rows_of_one_frequent_key_do_not_go_to_one_task_as_they_are(
    files: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few rows the other keys have: nulls are one key, too."""
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    for part, hardly_repeats in ((50, True), (5, False)):
        key = F.expr(f"IF(id % {part} > 0, own, NULL)").alias("k")
        own = files.withColumn("id", F.coalesce("v", F.lit(1)))
        stage = plan_aggregate(own, [key], [F.max("t")], event_time=None, output_mode="update", uid="agg")
        assert keys_hardly_repeat(stage, own) == hardly_repeats, part


def spark_has_to(keys: DataFrame, least_rows: int) -> None:
    raise NotTakenError("only Spark reads them")


def test_to_look_at_some_rows_is_no_progress(
    files: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a backlog would seem to be read when its first job is over, and nearly done, where Spark looks at them."""
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    monkeypatch.setattr(rows_as_they_are, "first_keys", spark_has_to)
    context, tag = spark.sparkContext, "looks"
    context.addJobTag(tag)
    try:
        tasks = JobTasks(spark, tag)
        assert keys_hardly_repeat(operator(files, "own"), files)
    finally:
        context.removeJobTag(tag)
    until = time.monotonic() + 60
    while not tasks._tracker.getJobIdsForTag(tag) and time.monotonic() < until:
        time.sleep(0.05)  # Spark's status is behind its jobs
    assert len(tasks._tracker.getJobIdsForTag(tag))
    assert tasks() == JobWork()


def test_only_rows_that_can_be_looked_at_twice_are(
    files: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those that the user observes, those of Python code, and those that come of a join or of no files."""
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    own = operator(files, "own")
    assert keys_hardly_repeat(own, files.where("v > 3").unionByName(files.where("v > 5")))
    python = F.udf(lambda value: value, "long")
    for frame in (
        files.observe("seen", F.count("*")),
        files.withColumn("v", python("v")),
        files.join(spark.range(3), F.col("v") == F.col("id"), "left"),
        spark.range(ROWS).select(F.col("id").alias("own")),
    ):
        assert not keys_hardly_repeat(own, frame)


@pytest.mark.parametrize("key", ["own", "t"])
def test_spark_reckons_with_the_size_of_rows_only_where_they_have_different_ones(
    files: DataFrame, plans: Any, spark: SparkSession, key: str
) -> None:
    """Lists may be of any length; what the user has set stays, and no number of rows of the user's is without bound."""
    numbers = [F.sum("v"), F.max("ts"), *([F.collect_set("t")] if key == "t" else [])]
    ours(files, [key], numbers)
    for name, value in ((BYTES, "8m"), (ROWS_AT_ONCE, "100000")):
        with session_options(spark, {name: value}):
            ours(files, [key], numbers)
    assert [setting for _, setting in plans] == [None if key == "t" else str(2**31 - 1), "8m", None]


LONG = "rpad(t, 300, 'x')"


@pytest.mark.parametrize(
    ("key", "wanted", "known"),
    [
        ("t", "max(v)", 2**31 - 1),
        (LONG, "max(v)", None),
        ("array(t)", "max(v)", None),
        ("own", "max(upper(t))", 2**31 - 1),
        ("own", "max_by(t, v)", 2**31 - 1),
        ("own", "min(struct(v, t))", 2**31 - 1),
        ("own", f"max({LONG})", None),
        ("own", f"max_by(v, {LONG})", None),
        ("own", "listagg(t)", None),
        ("own", "collect_set(t)", None),
    ],
)
def test_of_short_texts_spark_does_not_reckon_with_the_size(
    files: DataFrame, plans: list[tuple[str, str | None]], key: str, wanted: str, known: int | None
) -> None:
    """Some of the keys, and of the texts that are kept, are looked at.  Then fewer rows go to Python at once."""
    aggregates = [F.expr(wanted), F.count("*")]
    if "listagg" not in wanted:  # which is in any order
        assert ours(files, [F.expr(key)], aggregates) == plain(files, [F.expr(key)], aggregates)
    else:
        ours(files, [F.expr(key)], aggregates)
    assert [setting for _, setting in plans] == [None if known is None else str(known)]


DEDUPS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "first to arrive": (lambda rows: rows.dropDuplicates(["some"]), ["some"]),
    "by texts and decimals": (lambda rows: rows.dropDuplicates(["t", "price"]), ["t", "price"]),
    "least event time": (lambda rows: rows.withWatermark("back", "1 hour").dropDuplicates(["some"]), ["some"]),
    "equal event times": (lambda rows: rows.withWatermark("hour", "1 hour").dropDuplicates(["t"]), ["t"]),
    "within the watermark": (
        lambda rows: rows.withWatermark("back", "90 days").dropDuplicatesWithinWatermark(["some"]),
        ["some"],
    ),
    "of all columns": (lambda rows: rows.select("some", "t").distinct(), ["some", "t"]),
}


@pytest.mark.parametrize("mostly_unique", [False, True])
@pytest.mark.parametrize("name", DEDUPS)
def test_deduplicated_rows_are_compared_once_behind_the_shuffle(
    files: DataFrame,
    plans: list[tuple[str, str | None]],
    spark: SparkSession,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mostly_unique: bool,
) -> None:
    """The row that stays of each key is that of the least event time, and of those the first in the files.

    Where most rows have a key of their own the task finds it, and Spark does not aggregate.
    """
    monkeypatch.setattr(rows_as_they_are, "MANY_ROWS_TO_COMPARE", float("inf") if mostly_unique else 0.0)
    job, keys = DEDUPS[name]
    back = F.timestamp_seconds(F.lit(3_423_700_000) - F.unix_timestamp("ts"))
    rows = files.withColumns({"back": back, "hour": F.date_trunc("hour", "ts")})
    order = {"least event time": "back", "within the watermark": "back"}.get(name, "ts")
    writer = job(mixedmode.read(history=rows)).writeStream.outputMode("append").format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).option("execution.backlog.engine", "spark")
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    first = rows.groupBy(*keys).agg(F.min_by(F.struct(*rows.columns), order).alias("row")).select("row.*")
    assert sorted(found.collect(), key=str) == sorted(first.select(*found.columns).collect(), key=str)
    ((text, bytes_at_once),) = plans
    has_choice = name != "of all columns"
    assert text.partition("Exchange")[0].count("Aggregate(") == int(not (mostly_unique and has_choice))
    assert "Aggregate" not in text.partition("Exchange")[2]
    assert bytes_at_once == str(2**31 - 1), "all texts are short"


@pytest.mark.parametrize("delay", ["0 seconds", "20 minutes", "5 hours"])
def test_keys_that_are_forgotten_between_their_rows_come_again_in_the_same_rows(
    files: DataFrame, plans: Any, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: str
) -> None:
    """Several rows of a key have the same event time, or none; the task finds the same ones as if Spark had looked."""
    coarse = F.when(F.col("id") % 13 > 0, F.date_trunc("hour", "ts"))
    rows = files.select("ts", "v", F.coalesce("v", F.lit(0)).alias("id"), F.pmod("own", F.lit(40)).alias("some"))
    rows = rows.withColumn("at", coarse)
    found: list[list[Any]] = []
    for mostly_unique in (False, True):
        monkeypatch.setattr(rows_as_they_are, "MANY_ROWS_TO_COMPARE", float("inf") if mostly_unique else 0.0)
        out, checkpoints = (str(tmp_path / f"{name}{mostly_unique}") for name in ("out", "c"))
        job = mixedmode.read(history=rows).withWatermark("at", delay).dropDuplicatesWithinWatermark(["some"])
        writer = job.writeStream.outputMode("append").format("parquet").option("checkpointLocation", checkpoints)
        writer = writer.option("execution.backlog.engine", "spark").option("pipeline.timers", "in-order")
        writer.trigger(availableNow=True).start(out).awaitTermination()
        found.append(sorted(map(tuple, spark.read.parquet(out).collect()), key=str))
    assert found[0] == found[1]
    assert len(found[0]) > 40
    assert [text.partition("Exchange")[0].count("Aggregate(") for text, _ in plans] == [1, 0]


def test_rows_that_wait_at_a_live_source_do_not_change_the_way_of_the_history(
    files: DataFrame, plans: list[tuple[str, str | None]], spark: SparkSession, tmp_path: Path
) -> None:
    """The keys of the history say how rows are shuffled, and live ones go the same way, in the same pass."""
    rows = files.select("own", "some", "t", "v", "ts")
    live = str(tmp_path / "live")
    rows.where("v % 3 = 0").withColumn("v", F.col("v") + 1).write.parquet(live)
    every = rows.union(spark.read.parquet(live))
    stream = spark.readStream.schema(rows.schema).parquet(live)
    jobs: tuple[Callable[[Any], Any], ...] = (
        lambda frame: frame.groupBy("some").agg(F.count("*").alias("n"), F.sum("v").alias("s"), F.max("t").alias("t")),
        lambda frame: frame.dropDuplicates(["own"]),
    )
    wanted = (jobs[0](every), rows.dropDuplicates(["own"]))  # every live row has a key of the history
    for place, (job, batch) in enumerate(zip(jobs, wanted, strict=True)):
        found: list[Any] = []
        writer = job(mixedmode.read(history=rows, live=stream)).writeStream.trigger(availableNow=True)
        writer = writer.foreachBatch(lambda out, _, found=found: found.extend(map(tuple, out.collect())))
        writer = writer.outputMode("append" if place else "update").option("execution.backlog.engine", "spark")
        writer.option("checkpointLocation", str(tmp_path / f"c{place}")).start().awaitTermination()
        assert sorted(found, key=str) == sorted(map(tuple, batch.collect()), key=str)
        text, bytes_at_once = plans.pop(0)
        above, _, below = text.partition("Exchange")
        assert (above.count("Aggregate("), below.count("Aggregate"), bytes_at_once) == (1 - place, 0, str(2**31 - 1))
        assert "Union" in below
        plans.clear()


def test_long_texts_and_lists_of_deduplicated_rows_keep_the_limit_in_bytes(
    files: DataFrame, plans: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    """They may be so large that few of them fill a batch."""
    for place, column in enumerate((LONG, "array(t)", "struct(array(v))")):
        rows = files.select("some", F.expr(column).alias("other"))
        writer = mixedmode.read(history=rows).dropDuplicates(["some"]).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / f"c{place}"))
        writer.option("execution.backlog.engine", "spark").trigger(availableNow=True).start().awaitTermination()
    assert [bytes_at_once for _, bytes_at_once in plans] == [None] * 3


@pytest.mark.parametrize("wanted", ["max(t)", "collect_set(t)", "max_by(t, ts)"])
def test_rows_that_spark_sorts_are_sorted_once_if_few_have_the_same_key(
    files: DataFrame, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """As many rows a key as pay for numbers do not pay where texts or lists are kept."""
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    monkeypatch.setattr(rows_as_they_are, "rows_per_key", lambda *of: 3.0)
    stages = [
        plan_aggregate(files, [F.col("own")], [F.expr(one)], event_time=None, output_mode="update", uid="agg")
        for one in ("max(v)", wanted)
    ]
    assert [keys_hardly_repeat(stage, files) for stage in stages] == [False, True]


def test_windows_are_two_columns_for_spark(files: DataFrame, plans: list[tuple[str, str | None]]) -> None:
    """Its faster table of groups takes no structs; the rows stay in the partitions that are their shards."""
    for steps in ((), ("5 minutes",)):
        keys = [F.window("ts", "10 minutes", *steps), "some"]
        assert ours(files, keys, [F.sum("v")]) == plain(files, keys, [F.sum("v")])
    assert len(plans) == 2
    for text, _ in plans:
        exchange = next(line for line in text.splitlines() if "Exchange" in line)
        assert exchange.partition("hashpartitioning(")[2].count("#") == 3


def test_the_longest_key_is_in_bytes(files: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter may have several; numbers have no text, and a struct has those of its fields."""
    monkeypatch.setattr(rows_as_they_are, "LEAST_BYTES", 0)
    longest = files.select(F.max(F.octet_length("t"))).first()[0]
    found = [key_sample(operator(files, key), files) for key in ("t", "own")]
    assert [sample and sample.longest_text for sample in found] == [longest, 0]
    inner = key_sample(operator(files, F.struct("own", F.struct("t", F.expr(LONG).alias("long"))).alias("key")), files)
    assert inner is not None and inner.longest_text >= 300


def test_each_row_counts_once_in_windows_of_days(files: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    """Where clocks are changed, in Spark's calendar a day has 23 hours, and a window of a day has 24."""
    with session_options(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        stage = mixedmode.read(history=files).withWatermark("ts", "1 hour")
        summed = stage.groupBy(F.window("ts", "2 days", "1 day"), "some").agg(F.sum("v"))
        writer = summed.writeStream.outputMode("update").format("noop").option("execution.backlog.engine", "spark")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum(progress["numInputRows"] for progress in query.recentProgress) == ROWS
