"""What is asked of Spark's session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.catalyst.spark_session import cloned, session_settings
from pyspark import RDD
from pyspark.sql import SparkSession


def test_a_sessions_settings_are_what_spark_says(spark: SparkSession) -> None:
    """Every entry of ``spark.conf``, whatever characters its value has."""
    session = spark.newSession()
    session.conf.set("spark.mixedmode.state.local-dir", 'a "quoted"\\ \n folder ü')
    assert session_settings(session) == session.conf.getAll
    assert "ü" in session_settings(session)["spark.mixedmode.state.local-dir"]


def test_rdds_become_frames_of_the_users_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark has ``RDD.toDF()`` make frames of the session that was made last, which is one of ours."""

    class Session:
        def __init__(self, context: Any, java: Any) -> None:
            self.sparkContext, self._jsparkSession = context, java
            RDD.toDF = lambda rdd: self  # type: ignore[assignment,misc,return-value]

    monkeypatch.setattr(RDD, "toDF", RDD.toDF)
    mine = Session(None, SimpleNamespace(cloneSession=lambda: "clone"))
    clone: Any = cloned(cast(Any, mine))
    assert clone._jsparkSession == "clone"
    assert RDD.toDF(cast(Any, None)) is mine
