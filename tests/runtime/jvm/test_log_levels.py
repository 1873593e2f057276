"""Levels of loggers that are changed for a moment."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from mixedmode.runtime.jvm.log_levels import changed
from pyspark.sql import SparkSession

OWN, NEW = "tests.log.levels.own", "tests.log.levels.new"


@pytest.fixture
def log4j(spark: SparkSession) -> Any:
    """Log4j of the session's JVM."""
    return spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]


def test_levels_are_put_back(spark: SparkSession, log4j: Any) -> None:
    """A level that a user has set, and that there was none, even if what happened meanwhile has failed."""
    log4j.core.config.Configurator.setLevel(OWN, log4j.Level.WARN)

    def level(name: str) -> str:
        return str(log4j.LogManager.getLogger(name).getLevel())

    before = level(NEW)
    found = []
    with contextlib.suppress(ValueError), changed(spark, {OWN: "OFF", NEW: "ERROR"}):
        found = [level(OWN), level(NEW)]
        raise ValueError("stop")
    assert found == ["OFF", "ERROR"]
    assert (level(OWN), level(NEW)) == ("WARN", before)
    configuration = log4j.LogManager.getContext(False).getConfiguration()
    assert configuration.getLoggers().containsKey(OWN) and not configuration.getLoggers().containsKey(NEW)
    configuration.removeLogger(OWN)
