"""The marker ``spark`` is on every test that uses Spark, so that ``-m "not spark"`` is quick and needs no JVM."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType


def test_spark_is_hidden_from_a_test_without_the_marker() -> None:
    """It finds no session, however many others have started, and starts no JVM, in no process; the error says why."""
    assert SparkSession.getActiveSession() is None
    with pytest.raises(Exception, match="SESSION_OR_CONTEXT_NOT_EXISTS"):
        StructType.fromDDL("k string")
    with pytest.raises(FileNotFoundError, match="a test without the marker 'spark'"):
        SparkSession.builder.getOrCreate()
    code = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "a test without the marker 'spark'" in done.stderr


def test_whoever_uses_a_session_has_the_marker(request: pytest.FixtureRequest) -> None:
    """By the fixture alone, or by one that uses it."""
    users = [item for item in request.session.items if {"spark", "driver_jvm", "world"} & set(item.fixturenames)]
    assert [item.nodeid for item in users if not item.get_closest_marker("spark")] == []
