"""Rows that a Delta or Iceberg table has when a job begins: refused, added to, or replaced by its first commit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from failing import fail_at
from pyspark.sql import functions as F


class Jobs:
    """Jobs that write to one table, each with a checkpointLocation of its own unless it is named again.

    Args:
        spark: the session.
        folder: for their locations.
        format: of the table.
        place: ``path`` or ``table``, and its value.
    """

    def __init__(self, spark: Any, folder: Path, format: str, place: tuple[str, str]) -> None:
        self.spark, self.folder, self.format, self.place = spark, folder, format, place

    def writer(self, value: int, location: str, existing: str = "auto") -> Any:
        frame = self.spark.sql(f"select 'k{value}' as k, {value}L as n")
        keyed = mixedmode.read(history=frame).groupBy("k").agg(F.sum("n").alias("n"))
        writer = keyed.writeStream.queryName("totals").format(self.format)
        writer.option("checkpointLocation", str(self.folder / location)).option("execution.runtime-mode", "batch")
        return writer.option("pipeline.parallelism", 1).option("execution.sink.existing", existing)

    def start(self, writer: Any) -> Any:
        by, place = self.place
        return writer.start(place) if by == "path" else writer.toTable(place)

    def run(self, value: int, location: str, existing: str = "auto") -> None:
        self.start(self.writer(value, location, existing)).awaitTermination()

    def values(self) -> list[int]:
        by, place = self.place
        rows = self.spark.read.format(self.format).load(place) if by == "path" else self.spark.table(place)
        return sorted(row.n for row in rows.collect())


@pytest.fixture(params=[("delta", "path"), ("delta", "table"), ("iceberg", "table")], ids="-".join)
def jobs(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Jobs:
    format, by = request.param
    name = f"existing_{tmp_path.name}".replace("-", "_")
    place = str(tmp_path / "table") if by == "path" else f"ice.db.{name}" if format == "iceberg" else name
    return Jobs(spark, tmp_path, format, (by, place))


def test_a_job_that_begins_at_a_table_with_rows(
    jobs: Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path knows who has written there, so the job's own rows are refused; a table by name does not, so it is added
    to.  ``replace`` is one commit of the table: readers see all rows of before or all new ones, also after a crash."""
    jobs.run(1, "first")
    if jobs.place[0] == "path":
        error = support.refusal(lambda: jobs.start(jobs.writer(2, "second")))
        assert error.code == "MIXEDMODE_OUTPUT_EXISTS" and f"'{jobs.folder / 'first'}'" in str(error)
        jobs.run(2, "second", "append")
    else:
        jobs.run(2, "second")
    assert jobs.values() == [1, 2]
    fail_at(monkeypatch, "checkpoint-after-metadata=raise")
    with pytest.raises(mixedmode.QueryError):
        jobs.run(3, "third", "replace")
    assert jobs.values() == [1, 2], "before the commit nothing is removed"
    fail_at(monkeypatch, "")
    for _ in range(2):
        jobs.run(3, "third", "replace")
        assert jobs.values() == [3], "a restart removes nothing more"
    with caplog.at_level(logging.WARNING, "mixedmode"):
        jobs.run(4, "fourth", "append")
    assert jobs.values() == [3, 4]
    if jobs.format == "delta":
        by, place = jobs.place
        history = jobs.spark.sql(f"DESCRIBE HISTORY {'delta.`' + place + '`' if by == 'path' else place}").collect()
        assert [row.operationParameters["mode"] for row in history if row.operation == "WRITE"].count("Overwrite") == 1
