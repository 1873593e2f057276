"""What follows a keyed stage, planned: which columns it has, what they are, and what cannot run inside the stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mixedmode import OptionError, PlanError
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.planner.stages.output_transform import output_key, plan_output_transform
from mixedmode.planner.stages.stage import stages_of
from mixedmode.runtime.driver.recovery.backlog_fingerprint import backlog_fingerprint
from mixedmode.runtime.operators.output_transform import OutputTransform
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType
from session_options import session_options


class Silent(StatefulProcessor):
    """Yields nothing."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()


@pytest.fixture
def counted(both: MixedFrame) -> MixedFrame:
    timed = both.withWatermark("ts", "1 hour").groupBy("k", F.window("ts", "1 hour").alias("w"))
    return timed.agg(F.sum("v").alias("s"), F.count("*").alias("n"))


def tail_of(frame: MixedFrame) -> OutputTransform:
    output = frame.writeStream._output
    tail = plan_output_transform(stages_of(output)[0], output.parts[0])
    assert tail is not None
    return tail


def key_of(frame: MixedFrame) -> Any:
    output = frame.writeStream._output
    return output_key(stages_of(output)[0], output.parts[0])


def job_of(frame: MixedFrame, mode: str = "append") -> JobSpec:
    writer = frame.writeStream.format("noop").outputMode(mode)
    return writer.described()


def test_the_key_is_followed_under_other_names(counted: MixedFrame) -> None:
    """Columns and fields of structs that are the key's very values; a window also by its start alone."""
    assert key_of(counted) == ("k", "w")
    assert key_of(counted.where("s > 1").drop("n")) == ("k", "w")
    assert key_of(counted.select(F.col("k").alias("who"), "w", "s")) == ("who", "w")
    assert key_of(counted.select("s", "w.start", F.struct("k", "n").alias("x"), "k").drop("x")) == ("k", "start")
    assert key_of(counted.withColumnsRenamed({"k": "a", "w": "b"}).selectExpr("b AS b2", "a AS a2")) == ("a2", "b2")
    assert key_of(counted.select("k", "s")) is None
    assert key_of(counted.select(F.upper("k").alias("k"), "w")) is None


def test_every_update_is_delivered_where_the_key_is_gone(counted: MixedFrame, tmp_path: Any) -> None:
    """A call could not tell which row replaces which, so each epoch has its own; with the key it is one row of each."""
    told = []
    for frame in (counted.select("k", "s"), counted.selectExpr("concat(k, w.start) AS key", "s"), counted):
        writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path))
        sink = writer.foreachBatch(lambda rows, number: None).described().sink
        told.append((sink.deliveries.key, sink.describe()))  # type: ignore[attr-defined]
    assert [key for key, _ in told] == [None, None, ("k", "w")]
    assert ["once for each epoch" in text for _, text in told] == [True, True, False]


def test_an_output_column_is_what_it_computes(counted: MixedFrame) -> None:
    """Passed on it is what it was; filters and names change nothing; another expression is another column."""
    plain = job_of(counted).staged_form.columns

    def columns(frame: MixedFrame) -> dict[str, Any]:
        return {column.name: column.identity for column in job_of(frame).staged_form.columns}

    was = {column.name: column.identity for column in plain}
    assert columns(counted.where("s > 1").select("s", F.col("k").alias("who"))) == {"s": was["s"], "who": was["k"]}
    twice, again = (columns(counted.selectExpr("k", f"s * 2 AS {name}"))[name] for name in ("a", "b"))
    assert twice == again not in was.values()
    assert columns(counted.selectExpr("k", "s * 3 AS a"))["a"] != twice
    assert columns(counted.selectExpr("k", "n * 2 AS a"))["a"] != twice
    through = counted.selectExpr("k", "n AS m", "s AS n").selectExpr("k", "n * 2 AS a")  # n is what s was
    assert columns(through)["a"] == twice
    [_, text] = [column.text for column in job_of(through).staged_form.columns]
    assert "sum(v)" in text
    unclear = F.udf(lambda n: n, LongType())
    assert set(columns(counted.select("k", unclear("n").alias("n"))).values()) == {None}


def test_what_would_move_the_rows_is_a_job_of_its_own(
    counted: MixedFrame, both: MixedFrame, history: DataFrame, spark: SparkSession
) -> None:
    """A static side that Spark does not broadcast, by itself or by a hint, and explain() says so.  Sorting is refused,
    and a column of the order of rows that is lost."""
    static = history.select("k", "x").dropDuplicates(["k"])
    assert tail_of(counted.join(static, "k", "left")).names == ("join",)
    assert not tail_of(counted.join(static, "k", "left")).moves_rows
    assert not tail_of(counted.join(static, "k")).runs_python
    limit = "spark.sql.autoBroadcastJoinThreshold"
    with session_options(spark, {limit: "-1"}):
        for how in ("inner", "left", "leftsemi", "left_anti"):
            assert tail_of(counted.join(static, "k", how)).moves_rows
            assert not tail_of(counted.join(F.broadcast(static), "k", how)).moves_rows
        assert tail_of(counted.crossJoin(static.select("x"))).moves_rows
        assert not tail_of(counted.crossJoin(F.broadcast(static.select("x")))).moves_rows
        unequal = F.broadcast(static.withColumnRenamed("k", "sk"))
        assert not tail_of(counted.join(unequal, F.expr("k < sk"))).moves_rows
    merged = counted.join(static.hint("merge"), "k").where("s > 1")
    assert tail_of(merged).moves_rows, "the user's hint counts"
    text = " ".join(str(merged.writeStream.format("noop").plan()).split())
    assert "join, where: in a Spark job of its own in each epoch, over what the keyed stage hands on" in text
    yielded = (
        both.groupBy("k").transformWithState(Silent(), "k string", "append", "none").join(static.hint("merge"), "k")
    )
    writer = yielded.writeStream.foreachBatch(lambda rows, number: None).option("checkpointLocation", "chk")
    with pytest.raises(OptionError, match=r"order-column = 'nth' does not go with join behind the keyed stage keyed-0"):
        writer.option("execution.sink.order-column", "nth").plan()
    with pytest.raises(PlanError, match="transform behind the keyed stage"):
        tail_of(counted.transform(lambda frame: frame.orderBy("k")))


def test_python_and_emptiness_are_seen(counted: MixedFrame) -> None:
    """Python code runs in the user's session; a filter that is never true leaves nothing to plan."""

    def same(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    assert tail_of(counted.mapInPandas(same, "k string, s long")).runs_python
    assert tail_of(counted.withColumn("t", F.udf(lambda n: n, LongType())("n"))).runs_python
    assert not tail_of(counted.where(F.lit(False))).runs_python


def test_types_that_cannot_be_staged_are_refused(counted: MixedFrame) -> None:
    """Where they are written, with the column's name."""
    with pytest.raises(PlanError, match="column i of the output is of type interval"):
        tail_of(counted.selectExpr("k", "make_interval(1) AS i"))


def test_columns_of_one_name_are_staged_under_names_of_their_own(counted: MixedFrame) -> None:
    """Files cannot have two of one name, whatever its case; a name that is there already is nobody else's."""
    assert tail_of(counted.select("k", "k")).schema.names == ["k_2", "k_3"]
    assert key_of(counted.select("w", "k", "k", "s")) == ("k_2", "w")
    renamed = counted.selectExpr("k", "s AS K", "n AS k_2", "w.start AS k")
    assert tail_of(renamed).schema.names == ["k_3", "K_4", "k_2", "k_5"]
    assert renamed.columns == ["k", "K", "k_2", "k"]


def test_a_filter_behind_the_stage_is_part_of_the_backlog(spark: SparkSession, tmp_path: Any) -> None:
    """Finished shards are reused only under the same operations; never over Python code."""
    from mixedmode import read

    path = str(tmp_path / "history")
    spark.range(5).selectExpr("id AS v", "id % 2 AS k").write.parquet(path)
    rows = read(history=spark.read.parquet(path)).groupBy("k").agg(F.sum("v").alias("s"))

    def digest(frame: MixedFrame) -> str | None:
        return backlog_fingerprint(job_of(frame), 2, 128)

    assert digest(rows.where("s > 1")) == digest(rows.where("s > 1")) is not None
    assert len({digest(rows), digest(rows.where("s > 1")), digest(rows.where("s > 2"))}) == 3
    assert digest(rows.withColumn("t", F.udf(lambda n: n, LongType())("s"))) is None
