"""Python workers that are started while the first job of an application is prepared."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import mixedmode
import pytest
from mixedmode.planner.frames import writer as writer_module
from mixedmode.planner.plans.dry_run import DryRunStop, without_starts
from mixedmode.runtime.jobs import worker_warmup
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

NOT_STARTED = "were not started beforehand"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application whose first job has not come."""
    monkeypatch.setattr(worker_warmup, "_STARTED", WeakSet())


def test_they_are_started_once_for_an_application(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """The first call has Spark run Python in the background, the second one does nothing."""
    with caplog.at_level(logging.DEBUG, worker_warmup.__name__):
        thread = worker_warmup.start_workers(spark)
        assert thread is not None
        assert worker_warmup.start_workers(spark.newSession()) is None
        thread.join(300)
        assert not thread.is_alive()
    assert NOT_STARTED not in caplog.text


def test_a_job_does_not_see_that_they_could_not_be_started(caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong with them is left to the job's own tasks to find."""

    class Context:
        defaultParallelism = 2

    session: Any = SimpleNamespace(sparkContext=Context())
    with caplog.at_level(logging.DEBUG, worker_warmup.__name__):
        thread = worker_warmup.start_workers(session)
        assert thread is not None
        thread.join(60)
    assert NOT_STARTED in caplog.text


@pytest.mark.parametrize("wanted", [None, True, False])
def test_start_asks_for_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool | None
) -> None:
    """It does so before the job is planned, unless the option says no."""
    asked: list[Any] = []
    monkeypatch.setattr(writer_module, "start_workers", asked.append)
    session = spark.newSession()
    session.conf.unset("spark.mixedmode.execution.start-workers")  # all tests' own
    frame = mixedmode.read(history=session.range(3)).groupBy("id").agg(F.count("*").alias("n"))
    writer = frame.writeStream.format("noop")
    if wanted is not None:
        writer = writer.option("execution.start-workers", wanted)
    with without_starts(), pytest.raises(DryRunStop):
        writer.option("checkpointLocation", str(tmp_path / "new")).start()
    assert not asked, "nothing starts here"
    monkeypatch.setattr(writer_module, "compile_job", _cannot_be_planned)
    with pytest.raises(mixedmode.PlanError):
        writer.start()
    assert asked == [session] * (wanted is not False)


def _cannot_be_planned(*_: object) -> None:
    raise mixedmode.PlanError("no plan")
