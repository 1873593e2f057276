"""Who reads a small history is decided once, with the plan: tasks while Spark has run few jobs, afterwards Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.planner.plans import backlog_engine
from mixedmode.runtime.catalyst.spark_cluster import jobs_so_far
from mixedmode.runtime.driver.recovery.backlog_fingerprint import backlog_fingerprint
from mixedmode.runtime.jobs.scan_pass import ScanPass
from mixedmode.runtime.scan.engines import FRESH_JOBS, LEAST_BYTES
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROWS = 40


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Any:
    """Makes the writer of a job over a small history, by its keyed stage."""
    pq.write_table(pa.table({"k": [n % 7 for n in range(ROWS)], "n": list(range(ROWS))}), tmp_path / "a.parquet")

    def make(keyed: Any, **options: str) -> MixedStreamWriter:
        stage = keyed(mixedmode.read(history=spark.read.parquet(str(tmp_path / "a.parquet"))))
        writer = stage.writeStream.outputMode("append" if keyed is deduplicated else "update")
        return writer.option("checkpointLocation", str(tmp_path / "checkpoints")).options(**options)

    return make


def summed(rows: Any) -> Any:
    return rows.groupBy("k").agg(F.sum("n").alias("s"))


def deduplicated(rows: Any) -> Any:
    return rows.dropDuplicates(["k"])


def after(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_engine, "jobs_so_far", lambda spark: jobs)


@pytest.mark.parametrize("keyed", [summed, deduplicated])
def test_small_files_are_for_tasks_while_spark_has_run_few_jobs(
    job: Any, keyed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``explain()`` says so, and why; later Spark reads them, and an option has it always."""
    writer = job(keyed).format("noop")
    for jobs, said, least in (
        (FRESH_JOBS - 1, "arrow (auto: the tasks read the Parquet files, small ones too as Spark has run few jobs", 0),
        (FRESH_JOBS, "spark (auto: the files have 0.0 MiB", LEAST_BYTES),
    ):
        after(jobs, monkeypatch)
        plan, spec = writer.plan(), writer.described()
        assert plan.phases[0].details["engine"].startswith(said)
        assert spec.scan_least_bytes == least
    after(0, monkeypatch)
    writer = job(keyed, **{"execution.backlog.engine": "spark"}).format("noop")
    plan, spec = writer.plan(), writer.described()
    assert plan.phases[0].details["engine"].startswith("spark (execution.backlog.engine = spark")
    assert spec.scan_least_bytes == LEAST_BYTES


def test_a_run_goes_by_its_plan(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass has tasks read what the plan says, although Spark has run many jobs by then."""
    found: list[Any] = []
    scans: list[Any] = []
    reports = ScanPass.reports

    def noted(self: ScanPass, task: Any, *more: Any) -> Any:
        scans.append(task)
        return reports(self, task, *more)

    monkeypatch.setattr(ScanPass, "reports", noted)
    after(0, monkeypatch)
    writer = job(summed).foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect())))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(scans) == 1
    assert sorted(found) == [(k, sum(n for n in range(ROWS) if n % 7 == k)) for k in range(7)]


def test_shards_are_used_again_by_a_run_that_reads_in_the_same_way(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a backlog says who reads small files; of large ones it is the same however long Spark has run."""

    def digest() -> str:
        found = backlog_fingerprint(job(summed).format("noop").described(), 2, 8)
        assert found is not None
        return found

    digests = []
    for least in (LEAST_BYTES, 1):  # the files are small, and large
        monkeypatch.setattr(backlog_engine, "LEAST_BYTES", least)
        for jobs in (0, FRESH_JOBS):
            after(jobs, monkeypatch)
            digests.append(digest())
    small, small_later, large, large_later = digests
    assert small != small_later
    assert large == large_later


def test_jobs_are_counted_as_spark_runs_them(spark: SparkSession) -> None:
    """Each job counts, whoever has asked for it."""
    before = jobs_so_far(spark)
    spark.range(1).collect()
    assert jobs_so_far(spark) == before + 1
