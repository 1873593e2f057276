"""What the planner's tests share: a small job over a history and a landing folder."""

from __future__ import annotations

import pytest
from mixedmode import read
from mixedmode.planner.frames import writer as writer_module
from mixedmode.planner.frames.frame import MixedFrame
from mixedmode.runtime.spec import JobSpec
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, v long, x double, ts timestamp, tags map<string, int>"


@pytest.fixture(scope="session")
def history(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "select 'a' as k, 1L as v, 0.5D as x, timestamp'2020-01-01 00:00:00' as ts, map('t', 1) as tags"
        " union all select 'b', null, -0.0D, timestamp'2020-01-02 00:00:00', null"
    )


@pytest.fixture(scope="session")
def live(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path_factory.mktemp("landing")))


@pytest.fixture
def both(history: DataFrame, live: DataFrame) -> MixedFrame:
    return read(history=history, live=live)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """The jobs that start() hands to the runtime, in place of running them."""
    jobs: list[JobSpec] = []
    monkeypatch.setattr(writer_module, "start_query", jobs.append)
    return jobs
