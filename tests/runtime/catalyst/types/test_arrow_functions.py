"""Rows through a function on Arrow batches, without pandas on the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from mixedmode.runtime.catalyst.types.arrow_functions import mapped_in_arrow
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions as pandas_functions


def _negated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.negate(batch.column(0)), batch.column(1)], names=["id", "text"])


def _refuse() -> None:
    raise AssertionError("pandas was asked for")


def test_a_function_gets_and_gives_the_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of PySpark's own way, which looks for pandas first."""
    rows = spark.range(5).selectExpr("id", "CAST(id AS string) AS text")
    expected = sorted(rows.mapInArrow(_negated, "id long, text string").collect())
    monkeypatch.setattr(pandas_functions, "require_minimum_pandas_version", _refuse)
    with pytest.raises(AssertionError, match="pandas was asked for"):
        rows.mapInArrow(_negated, "id long, text string")
    found = mapped_in_arrow(rows, _negated, "id long, text string")
    assert found.dtypes == [("id", "bigint"), ("text", "string")]
    assert sorted(found.collect()) == expected
