"""What is asked of Spark's session."""

from __future__ import annotations

import pytest
from mixedmode.runtime.platform.spark_session import session_settings
from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_sessions_settings_are_what_spark_says(spark: SparkSession) -> None:
    """Every entry of ``spark.conf``, whatever characters its value has."""
    session = spark.newSession()
    session.conf.set("spark.mixedmode.state.local-dir", 'a "quoted"\\ \n folder ü')
    assert session_settings(session) == session.conf.getAll
    assert "ü" in session_settings(session)["spark.mixedmode.state.local-dir"]
