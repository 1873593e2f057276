"""Ordinary aggregate jobs by the roll of dice: most of them are read by tasks, and give what Spark gives."""

from __future__ import annotations

import math
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import mixedmode
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generated_jobs import SCHEMA, GeneratedJob, generated_jobs
from mixedmode.errors import PlanError
from pyspark.sql import DataFrame, SparkSession

#: Another one gives other jobs.
SEED = int(os.environ.get("MIXEDMODE_JOBS_SEED", "28"))
JOBS = int(os.environ.get("MIXEDMODE_JOBS", "40"))
_SHARE = 0.8
#: Of the jobs that tasks read so many are run.
_RUN = int(os.environ.get("MIXEDMODE_JOBS_RUN", "4"))


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Two files of rows, some values of which are null."""
    folder = tmp_path_factory.mktemp("jobs")
    for number in range(2):
        pq.write_table(rows(number, 1500), folder / f"{number}.parquet")
    return spark.read.schema(SCHEMA).parquet(str(folder))


def rows(seed: int, count: int) -> pa.Table:
    """Rows of ``SCHEMA``."""
    chance = np.random.default_rng([SEED, seed])

    def texts(values: list[str]) -> pa.Array:
        return pa.array(np.array(values)[chance.integers(0, len(values), count)], mask=chance.random(count) < 0.05)

    amount = chance.integers(-500, 2000, count)
    seconds = 1_700_000_000 + chance.integers(0, 200_000, count)
    urls = ["https://a.example/shop/item1", "http://b.example/x", "https://c.example/shop/item22", "", "none"]
    return pa.table(
        {
            "id": chance.integers(0, 60, count),
            "user": texts([f"user {number}" for number in range(80)]),
            "country": texts(["DE", "FR", "br"]),
            "city": texts(["Rome", " Wien", "São Paulo", "Paris "]),
            "kind": texts(["click", "view", "buy", "refund"]),
            "n": pa.array(chance.integers(0, 1000, count).astype(np.int32), mask=chance.random(count) < 0.05),
            "amount": pa.array(amount, mask=chance.random(count) < 0.05),
            "price": pa.array([Decimal(int(one)).scaleb(-2) for one in amount], pa.decimal128(9, 2)),
            # Sums of such numbers are exact in any order.
            "discount": pa.array(chance.integers(-64, 64, count) / 32, mask=chance.random(count) < 0.05),
            "url": texts(urls),
            "ok": pa.array(chance.random(count) < 0.5),
            "ts": pa.array(seconds * 1_000_000).view(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "day": pa.array((seconds // 86_400).astype(np.int32)).view(pa.date32()),
        }
    )


def why_not(job: GeneratedJob, history: DataFrame, folder: Path) -> str | None:
    """What keeps a job with Spark; None: nothing does."""
    writer = job.of(mixedmode.read(history=history)).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "checkpoints"))
    try:
        writer.option("execution.backlog.engine", "arrow").plan()
    except PlanError as error:
        return str(error).removeprefix("execution.backlog.engine = arrow cannot be had: ").partition("; use auto")[0]
    return None


def shown(values: list[Any]) -> list[str]:
    """Rows in an order of their own; doubles with the digits that all ways of adding give.

    What is left of values that cancel each other out is 0 in one way and 1e-17 in another.
    """

    def text(value: Any) -> str:
        if isinstance(value, float) and math.isfinite(value):
            return f"{value if abs(value) > 1e-12 else 0.0:.9g}"
        return str(value)

    return sorted(str([text(value) for value in row]) for row in values)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_most_ordinary_jobs_are_read_by_tasks(spark: SparkSession, history: DataFrame, tmp_path: Path) -> None:
    """At least four of five are; what keeps the others with Spark is told; some of them are run and compared."""
    reasons: Counter[str] = Counter()
    taken: list[GeneratedJob] = []
    for job in generated_jobs(SEED, JOBS):
        why = why_not(job, history, tmp_path)
        if why is None:
            taken.append(job)
        else:
            reasons[why] += 1
    print(f"\nseed {SEED}: {len(taken)} of {JOBS} jobs are read by tasks")
    for why, count in reasons.most_common():
        print(f"  {count:3} {why}")
    failed = []
    for place, job in enumerate(taken[:: max(1, len(taken) // max(1, _RUN))][:_RUN]):
        got: list[Any] = []
        query = (
            job.of(mixedmode.read(history=history))
            .writeStream.foreachBatch(lambda batch, _, got=got: got.extend(batch.collect()))
            .outputMode("update")
            .trigger(availableNow=True)
            .option("execution.backlog.engine", "arrow")
            .option("checkpointLocation", str(tmp_path / f"run{place}"))
            .start()
        )
        query.awaitTermination()
        if shown(got) != shown(job.of(history).collect()):
            failed.append(str(job))
    assert not failed
    assert len(taken) >= _SHARE * JOBS
