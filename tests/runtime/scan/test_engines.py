"""What reads and aggregates files in place of Spark can be another engine than Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.planner.options.registry import OPTIONS
from mixedmode.runtime.jobs.columnar_pass import recognise
from mixedmode.runtime.jobs.row_pass import recognise_parts
from mixedmode.runtime.scan.columnar_engine import ArrowEngine
from mixedmode.runtime.scan.engines import AUTO, ENGINES
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.scan.partial_scans import RecognisedScan
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from scan_support import merged, planned, scanned


class Recording(ArrowEngine):
    """Does as Arrow, and keeps what it was asked."""

    scans_rows = False

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.why_not: str | None = None

    def check(self, found: RecognisedScan) -> None:
        self.calls.append("check")
        if self.why_not is not None:
            raise NotTakenError(self.why_not)

    def tables(self, *args: Any) -> Iterator[pa.Table]:
        self.calls.append("tables")
        return super().tables(*args)

    def aggregated(self, table: pa.Table, keys: Sequence[str], *args: Any, again: bool = False) -> pa.Table:
        self.calls.append("aggregated")
        return super().aggregated(table, keys, *args, again=again)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Recording:
    recording = Recording()
    monkeypatch.setitem(ENGINES, "recording", recording)
    return recording


def test_the_option_names_all_engines() -> None:
    option = next(one for one in OPTIONS if one.name == "execution.backlog.engine")
    assert option.allowed == ", ".join([AUTO, "spark", *ENGINES])


def test_tasks_scan_by_the_engine_that_is_named(spark: SparkSession, engine: Recording, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.range(4_000).selectExpr("id % 7 AS k", "id AS v").write.parquet(path)
    frame = spark.read.parquet(path)
    operator = planned(frame, ["k"], F.count("*"), F.sum("v"))
    ours = scanned(operator, frame, tmp_path / "recording", 1 << 28, "recording")
    assert set(engine.calls) == {"check", "tables", "aggregated"}
    assert merged(operator, ours) == merged(operator, scanned(operator, frame, tmp_path / "arrow", 1 << 28))


def test_what_an_engine_does_not_compute_is_sparks(spark: SparkSession, engine: Recording, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.range(40).write.parquet(path)
    frame = spark.read.parquet(path)
    engine.why_not = "it is a trial"
    with pytest.raises(NotTakenError, match="it is a trial"):
        recognise(planned(frame, ["id"], F.count("*")), frame, None, "recording")
    recognise(planned(frame, ["id"], F.count("*")), frame, None, "arrow")
    with pytest.raises(NotTakenError, match="recording aggregates rows, and does not read them"):
        recognise_parts(planned(frame, ["id"], F.count("*")), [frame], None, "recording")
