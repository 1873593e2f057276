"""What passes remember whose tasks have read files in vain, and how Spark runs their jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mixedmode
import pytest
from mixedmode.errors import PlanError
from mixedmode.runtime.jobs.scan_pass import ScanPass, ScanPlace
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def scan_pass(folder: Path, engine: str = "auto") -> ScanPass:
    """A pass whose unfinished backlog leaves things in a folder."""
    nobody: Any = SimpleNamespace(uid="stage", backlog_engine=engine)
    local = fs.LocalFileSystem()
    place = ScanPlace(str(folder / "runs"), str(folder / "stopped"))
    return ScanPass(nobody, nobody, nobody, local, place, 128, "run")


def test_a_scan_that_was_stopped_is_not_begun_again(tmp_path: Path) -> None:
    """The next run of the same backlog knows the reason; another scan, another stage's and no scan at all do not."""
    scan_pass(tmp_path).check_not_stopped(["a.parquet"])
    scan_pass(tmp_path).leave_to_spark(NotTakenError("row 7 überläuft"), scans=["a.parquet"])
    with pytest.raises(NotTakenError, match="an earlier run was stopped: row 7 überläuft"):
        scan_pass(tmp_path).check_not_stopped(["a.parquet"])
    scan_pass(tmp_path).check_not_stopped(["a.parquet", "b.parquet"])


def test_what_was_never_scanned_is_not_remembered(tmp_path: Path) -> None:
    """Spark may read a plan that tasks cannot, and tasks the next one."""
    scan_pass(tmp_path).leave_to_spark(NotTakenError("a UDF"))
    scan_pass(tmp_path).check_not_stopped(["a.parquet"])


def test_who_asks_for_arrow_gets_the_error_each_time(tmp_path: Path) -> None:
    """``execution.backlog.engine`` = ``arrow`` neither remembers nor asks."""
    scan_pass(tmp_path).leave_to_spark(NotTakenError("why"), scans=["a.parquet"])
    with pytest.raises(PlanError, match="cannot be had"):
        scan_pass(tmp_path, "arrow").leave_to_spark(NotTakenError("why"), scans=["a.parquet"])
    scan_pass(tmp_path, "arrow").check_not_stopped(["a.parquet"])


def test_jobs_whose_rows_are_reports_have_no_generated_code(spark: SparkSession, tmp_path: Path) -> None:
    """Spark computes the job of a scan and that of the shards as they are; the user's own are compiled."""
    history = tmp_path / "in"
    spark.range(1000).withColumn("k", F.col("id") % 7).write.parquet(str(history))
    grouped = mixedmode.read(history=spark.read.parquet(str(history))).groupBy("k").agg(F.sum("id").alias("s"))
    writer = grouped.writeStream.format("noop").outputMode("update").option("execution.backlog.engine", "arrow")
    before = _last_execution(spark)
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    spark.range(3).selectExpr("id + 1").collect()
    plans = _plans_since(spark, before)
    *ours, own = [plan for plan in plans if "Range" in plan]
    assert len(ours) == 2 and all("MapInArrow" in plan for plan in ours)
    assert not any("* " in plan for plan in ours), ours
    assert "* Range" in own


def _last_execution(spark: SparkSession) -> int:
    spark.range(1).collect()
    return max(_executions(spark))


def _plans_since(spark: SparkSession, execution: int) -> list[str]:
    """The plans of what Spark has executed since, as its UI shows them: a star is at what it has generated code for."""
    return [plan for number, plan in sorted(_executions(spark).items()) if number > execution]


def _executions(spark: SparkSession) -> dict[int, str]:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()  # type: ignore[attr-defined]
    every = [found.apply(place) for place in range(found.size())]
    return {int(one.executionId()): str(one.physicalPlanDescription()) for one in every}
