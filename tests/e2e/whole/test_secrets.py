"""A job whose sources and sink were given secrets shows and stores none of them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from mixedmode.runtime.jvm.spark_errors import spark_says, what_happened
from mixedmode.runtime.support.notebook_html import is_shown
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SECRET = "s3cr3t"
#: Options as connectors have them, and a location in the value of one with a harmless name.
OPTIONS = {
    "password": SECRET,
    "kafka.ssl.keystore.password": SECRET,
    "kafka.sasl.jaas.config": f'PlainLoginModule required password="{SECRET}";',
    "fs.azure.account.key.lake.dfs.core.windows.net": SECRET,
    "fs.s3a.access.key": SECRET,
    "apiKey": SECRET,
    "sas.token": SECRET,
    "private_key": SECRET,
    "where": f"https://me:{SECRET}@host/x?sig={SECRET}",
}


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "where"])
def test_options_that_hold_secrets_by_their_names(name: str) -> None:
    """The value of such an option is not shown; keys that are columns are."""
    assert not is_shown(name)
    assert all(is_shown(other) for other in ("path", "key", "monkey", "keyColumn", "header", "subscribe"))


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException(f"cannot connect to jdbc:postgresql://me:{SECRET}@host/db"),
        Exception(
            f"Py4JError: x\n: java.sql.SQLException: no driver for jdbc:db://h?user=me&password={SECRET}\n\tat a.B"
        ),
    ],
)
def test_messages_of_connectors(error: Exception) -> None:
    """They name URLs, whose credentials are hidden where errors are worded."""
    for say in (what_happened, spark_says):
        assert SECRET not in say(error) and "redacted" in say(error)


def test_nothing_tells_them(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the plan, in any form, nor what the query says of itself, its log, nor any file of its location."""
    spark.sql("select 'a' as k, 1 as n").write.parquet(str(tmp_path / "history"))
    seen: dict[str, Any] = {}
    with caplog.at_level(logging.DEBUG, "mixedmode"):
        history = spark.read.options(**OPTIONS).parquet(str(tmp_path / "history"))
        frame = mixedmode.read(history=history).groupBy("k").agg(F.sum("n").alias("n"))
        writer = frame.writeStream.queryName("told").format("json").options(**OPTIONS)
        writer.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "ck"))
        plan = writer.plan()
        seen |= {"json": plan.model_dump_json(), "explain": plan.explain(extended=True), "repr": repr(plan)}
        seen |= {"writer": repr(writer), "cell": writer._repr_html_(), "frame": repr(frame)}
        query = writer.option("execution.runtime-mode", "batch").start()
        query.awaitTermination()
        seen |= {
            "status": query.status,
            "progress": query.recentProgress,
            "events": query.lifecycle,
            "query": repr(query),
        }
    seen["log"] = caplog.text
    told = {path.name: path.read_bytes() for path in (tmp_path / "ck").rglob("*") if path.is_file()}
    assert "job.json" in told and "_metadata" in told
    assert [name for name, text in seen.items() if SECRET in str(text)] == []
    assert [name for name, content in told.items() if SECRET.encode() in content] == []
